"""The operator's previews of changes that wait for an approval: the memory and the time that they take."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from hearth import change_previews
from hearth.change_previews import KubeChangePreviews
from hearth.cli.stack_access.read_budgets import ListTooLarge
from hearth.cli.stack_access.session import Session
from hearth.kube.client.connection import Connection
from hearth.model import limits
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import Tenancy
from hearth.model.well_known_kinds import SECRET
from hearth.preview.changes import Action, Change, Preview
from hearth.preview.planned_steps import NotPlannable
from support.units import stack_objects

STACK = stack_objects.make_stack()
LARGE = {"metadata": {"name": "large"}, "data": {"text": "x" * (limits.PLAN_READS * 2 // 3)}}


class Server:
    """The connection to a server with the Stack and one large Secret."""

    async def request(self, method: str, path: str, **_: Any) -> Object:
        """Return the Stack, or a list with the Secret."""
        is_list = path.endswith("/secrets")
        return {"items": [LARGE]} if is_list else {"metadata": {"uid": STACK.uid, "generation": STACK.generation}}


class Lister:
    """Takes the place of the previewer, and reads the Secrets."""

    lists = 1
    hangs = 0
    """The number of previews that never end, before others do."""

    def __init__(self, session: Session, **_: Any) -> None:
        self._session = session

    async def preview(self, raw: Object, wanted: Object) -> Preview:
        """Return a preview without changes."""
        if Lister.hangs:
            Lister.hangs -= 1
            await asyncio.Event().wait()
        for _ in range(self.lists):
            await self._session.list(SECRET, STACK.namespace)
        return Preview(kind=STACK.kind, namespace=STACK.namespace, name=STACK.name, is_new=False)


@pytest.fixture
def previews(monkeypatch: pytest.MonkeyPatch) -> KubeChangePreviews:
    monkeypatch.setattr(change_previews, "StackPreviewer", Lister)
    return KubeChangePreviews(cast("Connection", Server()), tenancy=Tenancy(), hashes=stack_objects.HASHES)


async def test_one_preview_reads_as_much_as_fits_into_its_memory(
    previews: KubeChangePreviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lister, "lists", 2)

    with pytest.raises(ListTooLarge, match="the list of secrets has more than 24 MiB"):
        await previews.preview(STACK)


async def test_each_preview_has_the_whole_memory(previews: KubeChangePreviews) -> None:
    for _ in range(2):
        assert (await previews.preview(STACK)).steps == ()


async def test_a_slow_preview_ends(previews: KubeChangePreviews, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_previews, "PREVIEW_SECONDS", 0.0)
    monkeypatch.setattr(Lister, "hangs", 1)

    with pytest.raises(NotPlannable, match="the preview takes longer than 0 seconds"):
        await previews.preview(STACK)


async def test_the_wait_for_a_slow_preview_is_no_time_of_the_next_one(
    previews: KubeChangePreviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lister, "hangs", 1)
    slow = asyncio.create_task(previews.preview(STACK))
    await pass_turns()
    with monkeypatch.context() as patch:
        patch.setattr(change_previews, "PREVIEW_SECONDS", 0.0)
        waiting = asyncio.create_task(previews.preview(STACK))
        await pass_turns()
        assert not waiting.done()
    slow.cancel()

    assert (await waiting).steps == ()


SETTINGS = ObjectRef(group="", kind="ConfigMap", namespace="ns", name="settings")
INSTANCE = ObjectRef(group="platform.example", kind="WebApp", namespace="ns", name="web")
CLAIM = ObjectRef(group="", kind="PersistentVolumeClaim", namespace="ns", name="data")
READER = {"kind": "Stack", "metadata": {"name": "a", "namespace": "ns"}, "spec": {"templateRef": {"name": "settings"}}}


class Stacks:
    """A session with one Stack."""

    is_too_large = False

    def __init__(self) -> None:
        self.lists = list[tuple[str, str]]()

    async def list_allowed(self, kind: Kind, namespace: str) -> list[Object]:
        """Return the Stack, or raise ListTooLarge."""
        self.lists.append((kind.name, namespace))
        if self.is_too_large:
            raise ListTooLarge(kind, "one")
        return [READER] if (kind.name, namespace) == ("Stack", "ns") else []


DEFINITIONS = ("StackDefinition", "")


@pytest.mark.parametrize(
    ("written", "lists"),
    [
        pytest.param(SETTINGS, [DEFINITIONS, ("Stack", "ns"), ("ResourceGroup", "ns")], id="source"),
        pytest.param(INSTANCE, [DEFINITIONS], id="custom kind"),
        pytest.param(CLAIM, [], id="other kind"),
    ],
)
async def test_stacks_are_listed_only_if_they_may_read_a_written_object(
    written: ObjectRef, lists: list[tuple[str, str]]
) -> None:
    session = Stacks()
    found = await change_previews.read_source_readers(cast("Session", session), make_nested(written))

    assert session.lists == lists
    assert (SETTINGS in found.by_source) == (written == SETTINGS)


async def test_too_many_stacks_may_be_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stacks, "is_too_large", True)
    found = await change_previews.read_source_readers(cast("Session", Stacks()), make_nested(SETTINGS))

    assert not found.is_complete


def make_nested(written: ObjectRef) -> Preview:
    """The preview of a Stack with another that writes this object."""
    change = Change(action=Action.UPDATE, resource="x", ref=written)
    inner = Preview(kind="Stack", namespace="ns", name="inner", is_new=False, changes=(change,))
    return Preview(kind="Stack", namespace="ns", name="shop", is_new=False, nested=(inner,))


async def pass_turns() -> None:
    """Let the tasks run that can."""
    for _ in range(20):
        await asyncio.sleep(0)
