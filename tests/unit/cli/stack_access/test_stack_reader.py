"""Reading a Stack's revisions and other data about it, and Helm releases."""

from __future__ import annotations

import asyncio
import base64
import gzip
import random
from collections.abc import Collection, Mapping
from typing import Any, cast

import orjson
import pytest

from hearth.cli.stack_access import helm_releases, revisions
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_views.tree.snapshot import FoundChild
from hearth.engine.cluster_objects import Revision
from hearth.kube.objects import controller_revision
from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.model.kinds import Kind
from support.units import stack_objects

SCHEMA = {"properties": {"status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}


class FakeSession:
    """The part of a session that loads schemas."""

    def __init__(self) -> None:
        self.schemas = self
        self.loaded: list[Kind] = []

    async def load(self, kinds: Collection[Kind]) -> None:
        """Record the kinds."""
        self.loaded += kinds

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """The schema of a kind that was loaded."""
        return SCHEMA if kind in self.loaded else None


def make_child(group: str, name: str, status: Any = None) -> FoundChild:
    """An object with that status."""
    kind = Kind(group=group, version="v1", name=name, plural=f"{name.lower()}s", namespaced=True)
    return FoundChild(kind, {"metadata": {"name": name.lower()}, **({"status": status} if status else {})})


async def test_schemas_are_read_only_for_objects_that_say_nothing() -> None:
    session = FakeSession()
    silent = make_child("example.com", "Widget")
    others = [
        make_child("", "ConfigMap"),
        make_child("", "Service"),
        make_child("apps", "Deployment"),
        make_child("cert-manager.io", "Certificate"),
        make_child("example.com", "Gadget", {"phase": "Up"}),
    ]
    used = cast(Session, session)
    found = await StackReader(used).add_schemas(used, [silent, *others])
    assert session.loaded == [silent.kind]
    assert [child.schema for child in found] == [SCHEMA, None, None, None, None, None]


# ---------------------------------------------------------------- definitions of stored revisions

HUGE: Object = {"template": {"a": random.Random(1).randbytes(1_500_000).hex()}, "parameters": {}}
STACK = stack_objects.make_stack(namespace="prod")
REVISION = Revision(name="shop-x", number=1, hash="h", kinds=frozenset(), namespace="prod", owner="u")


class Shelf:
    """A session with these objects."""

    def __init__(self, *objects: Object) -> None:
        self._objects = {each["metadata"]["name"]: each for each in objects}

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """As a session does."""
        if (kind.name, namespace) != ("ControllerRevision", "prod") or name not in self._objects:
            raise errors.ApiStatusError(code=404, status={"reason": "NotFound"})
        return self._objects[name]


def read(shelf: Shelf, revision: Object) -> Object:
    """Return the definition of a revision."""
    return asyncio.run(revisions.get_definition(cast("Session", shelf), revision))


def test_a_definition_in_several_objects_is_read() -> None:
    *parts, last = controller_revision.make_objects(STACK, REVISION, HUGE)
    assert read(Shelf(*parts, last), last) == HUGE
    with pytest.raises(
        errors.TamperedRevision, match=r"shop-x contains no definition \(shop-x-part-2 does not exist\)"
    ):
        read(Shelf(*parts[:1], last), last)


# ---------------------------------------------------------------- releases of Helm, also hostile ones


def make_release(content: bytes, *, version: str = "1", status: str = "deployed") -> dict[str, Any]:
    """A Secret with that content, encoded as Helm and the API server do it."""
    return {
        "type": "helm.sh/release.v1",
        "metadata": {"name": f"v{version}", "labels": {"version": version, "status": status}},
        "data": {"release": base64.b64encode(base64.b64encode(content)).decode()},
    }


def test_the_newest_deployed_revision_counts() -> None:
    secrets = [make_release(b"", version=version) for version in ("9", "10", "x")] + [
        make_release(b"", version="11", status="failed")
    ]

    found = helm_releases.find_deployed([*secrets, {**make_release(b"", version="12"), "type": "Opaque"}])

    assert found == secrets[1]
    assert helm_releases.find_deployed([]) is None


def test_the_manifest_and_its_hooks_are_read() -> None:
    hooks = [{"kind": "Job", "name": "migrate", "events": ["pre-upgrade", "post-install"]}, {"kind": 7}, "x"]
    content = orjson.dumps({"manifest": "kind: ConfigMap", "hooks": hooks})

    release = helm_releases.parse(make_release(gzip.compress(content)))

    assert release.text.content == "kind: ConfigMap"
    assert release.hooks == ("job/migrate (pre-upgrade, post-install)", "7/None")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="not compressed"),
        pytest.param(gzip.compress(b"{}")[:-9], id="cut"),
        pytest.param(gzip.compress(b"[" * 100_000), id="deep"),
        pytest.param(gzip.compress(b"[]"), id="a list"),
        pytest.param(gzip.compress(b'{"manifest": {}}'), id="no text"),
        pytest.param(gzip.compress(bytes(limits.HELM_RELEASE_BYTES + 1), compresslevel=1), id="a bomb"),
    ],
)
def test_what_is_no_release_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidDefinition, match="secret/v1: holds no release of Helm"):
        helm_releases.parse(make_release(content))
