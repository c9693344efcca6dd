"""A revision is trusted only if this operator signed it for the same Stack.

Other revisions are never applied, and block nothing.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import dataclasses
import gzip
from collections.abc import Callable
from typing import Any

import pytest

from hearth.engine import verified_revisions
from hearth.engine.cluster_objects import Revision
from hearth.kube.objects import controller_revision
from hearth.model import limits, names
from hearth.model.child import Object
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.status import conditions
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address
from support.units.stack_objects import HASHES, make_stack

# ---------------------------------------------------------------- contents of a signature

OTHER_KEY = KeyedHasher(b"o" * 32)
KINDS = frozenset({"v1/ConfigMap", "v1/Secret"})


def make_revision(**changes: Any) -> Revision:
    """A revision of the Stack, signed before the changes."""
    plain = Revision(
        name="shop-x", number=3, hash=HASHES.of_stack("u").hash({"v": 1}), kinds=KINDS, namespace="a", owner="u"
    )
    return dataclasses.replace(verified_revisions.sign(plain, make_stack(), HASHES), **changes)


class FixedHome:
    """Holds these revisions."""

    def __init__(self, *found: Revision) -> None:
        self._found = found

    def revisions(self, _stack_uid: str) -> tuple[Revision, ...]:
        return self._found


def load(*found: Revision) -> verified_revisions.RevisionSet:
    home: Any = FixedHome(*found)
    return verified_revisions.load(home, HASHES, make_stack())


def test_a_signed_revision_counts() -> None:
    found = load(make_revision())
    assert (found.verified, found.tampered, found.unsigned) == ((make_revision(),), (), ())
    assert (found.kinds, found.last_number, found.find(3)) == (KINDS, 3, make_revision())
    assert found.knows_all_kinds([3])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"number": 4}, id="another number"),
        pytest.param({"number": 2**63 - 1}, id="an absurd number"),
        pytest.param({"kinds": frozenset({"v1/ConfigMap"})}, id="a kind less"),
        pytest.param({"kinds": frozenset({"v1/ConfigMap", "v1/Secret", "v1/Pod"})}, id="a kind more"),
        pytest.param({"hash": HASHES.of_stack("u").hash({"v": 2})}, id="another definition"),
        pytest.param({"name": "shop-y"}, id="a copy under another name"),
        pytest.param({"owner": ""}, id="without an owner"),
        pytest.param({"owner": "v"}, id="owned by another Stack"),
        pytest.param({"signature": ""}, id="without a signature"),
        pytest.param({"signature": HASHES.hash("x")}, id="signed with a hash"),
        pytest.param({"signature": HASHES.sign("child", "x")}, id="signed for another purpose"),
        pytest.param({"signature": "ä\ud800"}, id="signed with nonsense"),
        pytest.param(
            {"signature": verified_revisions.sign(make_revision(), make_stack(uid="v"), HASHES).signature},
            id="of another Stack",
        ),
        pytest.param(
            {"signature": verified_revisions.sign(make_revision(), make_stack(namespace="b"), HASHES).signature},
            id="of another namespace",
        ),
        pytest.param(
            {"signature": verified_revisions.sign(make_revision(), make_stack(), OTHER_KEY).signature},
            id="signed with another key",
        ),
    ],
)
def test_a_changed_revision_does_not_count(changes: dict[str, Any]) -> None:
    found = load(make_revision(**changes))
    assert (found.verified, len(found.tampered), found.find(found.tampered[0].number)) == ((), 1, None)
    assert found.last_number <= 4
    assert not found.knows_all_kinds([])
    assert "shop-" in verified_revisions.explain_all(found.tampered)


def test_a_revision_that_lost_its_owner_counts_while_its_stack_is_deleted() -> None:
    orphaned = make_revision(owner="")
    deleted = dataclasses.replace(make_stack(), deleting=True)
    assert verified_revisions.sort([orphaned], HASHES, deleted).verified == (orphaned,)
    assert verified_revisions.is_orphaned(orphaned, deleted, HASHES)
    assert not verified_revisions.is_orphaned(make_revision(), deleted, HASHES)
    assert not verified_revisions.is_orphaned(make_revision(owner="", signature=""), deleted, HASHES)


def test_a_revision_in_another_namespace_is_ignored() -> None:
    assert load(make_revision(namespace="b")) == verified_revisions.RevisionSet()


def test_a_revision_of_an_earlier_version_is_no_sign_of_tampering() -> None:
    found = load(make_revision(signature="", hash="k00000000:abc"))
    assert (found.verified, found.tampered, len(found.unsigned)) == ((), (), 1)
    assert (found.last_number, found.kinds) == (3, KINDS)
    assert found.find_unverified(3) is not None


def test_a_missing_revision_makes_the_kinds_unknown() -> None:
    found = load(make_revision())
    assert found.knows_all_kinds([])
    assert not found.knows_all_kinds([3, 4])
    assert not load().knows_all_kinds([])


def test_kinds_of_unverified_revisions_are_bounded() -> None:
    many = frozenset(f"v1/K{number}" for number in range(limits.REVISION_KINDS + 1))
    assert load(make_revision(kinds=many)).kinds == frozenset()
    some = [make_revision(kinds=frozenset({f"v1/K{number}"})) for number in range(100)]
    assert len(load(*some).kinds) == limits.REVISION_HINTS


def test_many_revisions_are_named_in_one_message() -> None:
    forged = [make_revision(number=number, name=f"shop-{number}") for number in range(10, 20)]
    text = verified_revisions.explain_all(forged)
    assert "10 ControllerRevisions" in text
    assert "shop-14" in text
    assert "and 5 more" in text
    assert len(text) < 600


# ---------------------------------------------------------------- in a world with another writer

CHILD = Address(api_version="v1", kind="ConfigMap", namespace="default", name="shop-a")
REVISION = fake_kinds.CONTROLLER_REVISION.kind


def make_spec(value: str, **more: object) -> Object:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": value}}
    return {"template": {"resources": {"a": {"manifest": manifest}}}, **more}


async def begin(world: FakeWorld) -> None:
    """A Stack with the revisions 1 and 2."""
    await world.start_controller()
    await world.user.create(stack_manifests.make_stack(make_spec("1")))
    await world.wait_rest()
    await world.user.replace_spec(STACK, make_spec("2"))
    await world.wait_rest()


async def forge(world: FakeWorld, number: int, change: Callable[[Object], None]) -> None:
    """Delete a revision, and create another one with its name."""
    stored = world.server.list_all(REVISION)
    raw = next(each for each in stored if each["metadata"]["annotations"][names.ANNOTATION_REVISION] == str(number))
    made = copy.deepcopy(raw)
    await world.user.delete(Address.of(raw))
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        made["metadata"].pop(key, None)
    change(made)
    await world.user.create(made)
    await world.wait_rest()


def with_evil_data(raw: Object) -> None:
    """Another definition under the old metadata."""
    raw["data"] = make_evil()


def with_evil_hash(raw: Object) -> None:
    """Another definition, and another hash."""
    with_evil_data(raw)
    raw["metadata"]["annotations"][names.ANNOTATION_HASH] = "k12345678:" + "a" * 32


def without_signature(raw: Object) -> None:
    """A revision as stored by a version without signatures."""
    with_evil_data(raw)
    del raw["metadata"]["annotations"][names.ANNOTATION_SIGNATURE]


def with_bomb(raw: Object) -> None:
    """A revision that would exhaust the memory."""
    bomb = gzip.compress(b'{"template": "' + b"0" * 20_000_000 + b'", "parameters": {}}')
    raw["data"] = {"compressed": base64.b64encode(bomb).decode()}


def make_evil() -> Object:
    """A definition that was not requested."""
    return {"template": make_spec("EVIL")["template"], "parameters": {}}


FORGERIES = [
    pytest.param(with_evil_data, id="data"),
    pytest.param(with_evil_hash, id="data and hash"),
    pytest.param(without_signature, id="unsigned"),
    pytest.param(with_bomb, id="bomb"),
]


@pytest.mark.parametrize("change", FORGERIES)
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
@fake_world.in_world
async def test_a_rollback_to_a_forged_revision_is_refused(
    world: FakeWorld, change: Callable[[Object], None], *, is_restarted: bool
) -> None:
    await begin(world)
    await forge(world, 1, change)
    if is_restarted:
        await world.kill_controller()
        await world.start_controller()
        await world.wait_rest()
    await world.user.replace_spec(STACK, make_spec("2", rollback={"toRevision": 1}))
    await world.wait_rest()
    stack, child = await world.user.find(STACK) or {}, await world.user.find(CHILD) or {}
    ready = conditions.find(stack["status"], "Ready")
    assert (ready["reason"], child["data"], stack["status"]["revision"]) == ("RevisionTampered", {"v": "2"}, 2)
    assert "controllerrevision.apps/shop-" in ready["message"]
    await world.user.replace_spec(STACK, make_spec("3"))
    await world.wait_rest()
    stack, child = await world.user.find(STACK) or {}, await world.user.find(CHILD) or {}
    assert (stack["status"]["phase"], child["data"]) == ("UpdateComplete", {"v": "3"})


@fake_world.in_world
async def test_a_forged_part_holds_no_definition_up(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_revision, "COMPRESSED_FROM", 0)
    monkeypatch.setattr(limits, "PART_BYTES", 60)
    await begin(world)
    known = {raw["metadata"]["name"] for raw in world.server.list_all(REVISION)}
    for value in ("3", "2"):
        await world.user.replace_spec(STACK, make_spec(value))
        await world.wait_rest()
    for raw in [each for each in world.server.list_all(REVISION) if each["metadata"]["name"] not in known]:
        await world.user.delete(Address.of(raw))
        if raw["metadata"]["name"].endswith("-part-1"):
            metadata = {key: raw["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
            await world.user.create({**raw, "metadata": metadata, "data": {"compressed": "evil"}})
    await world.wait_rest()
    await world.user.replace_spec(STACK, make_spec("3"))
    await world.wait_rest()
    await world.kill_controller()
    await world.start_controller()
    await world.wait_rest()
    stack, child = await world.user.find(STACK) or {}, await world.user.find(CHILD) or {}
    assert (stack["status"]["phase"], child["data"]) == ("UpdateComplete", {"v": "3"})


@fake_world.in_world
async def test_a_forged_revision_is_named_though_it_is_not_wanted(world: FakeWorld) -> None:
    await begin(world)
    await forge(world, 1, with_evil_hash)
    stack = await world.user.find(STACK) or {}
    found = conditions.find(stack["status"], "RevisionTampered")
    assert (stack["status"]["phase"], found["status"]) == ("UpdateComplete", "True")
    reported = [event for event in world.traffic.events if event[2] == "RevisionTampered"]
    assert reported == [("shop", "Warning", "RevisionTampered", found["message"])]
    [forged] = [raw for raw in world.server.list_all(REVISION) if raw["metadata"]["name"] in found["message"]]
    await world.user.delete(Address.of(forged))
    await world.wait_rest()
    stack = await world.user.find(STACK) or {}
    assert conditions.find(stack["status"], "RevisionTampered").get("status") != "True"


@fake_world.in_world
async def test_thousands_of_forged_revisions_are_looked_at_once_a_second(world: FakeWorld) -> None:
    await begin(world)
    [raw, _] = world.server.list_all(REVISION)
    [operator] = world.controllers
    home, looks = operator.engine._services.management_cluster, list[float]()
    read = home.revisions

    def count(stack_uid: str) -> tuple[Revision, ...]:
        looks.append(asyncio.get_running_loop().time())
        return read(stack_uid)

    async def forge_another(number: int) -> None:
        metadata = {key: raw["metadata"][key] for key in ("labels", "annotations", "namespace")}
        await world.user.create({**raw, "metadata": {**metadata, "name": f"forged-{number}"}})

    # It loads the idle Stack, which reads all revisions anyway.
    await forge_another(0)
    await world.wait_rest()
    home.revisions = count  # type: ignore[method-assign]  # counts the calls of the real one
    begun = asyncio.get_running_loop().time()
    for number in range(1, 50):
        await forge_another(number)
        await asyncio.sleep(0.05)
    await world.wait_rest()
    assert [round(each - begun) for each in looks] == [0, 1, 2, 3]
    stack = await world.user.find(STACK) or {}
    assert conditions.find(stack["status"], "RevisionTampered")["message"].startswith("50 ControllerRevisions")


@fake_world.in_world
async def test_a_forged_present_revision_is_stored_again_after_a_restart(world: FakeWorld) -> None:
    await begin(world)
    await forge(world, 2, with_evil_hash)
    await world.kill_controller()
    await world.start_controller()
    await world.wait_rest()
    assert (await world.user.find(CHILD) or {})["data"] == {"v": "2"}
    stack = await world.user.find(STACK) or {}
    number = stack["status"]["revision"]
    await world.user.replace_spec(STACK, make_spec("4"))
    await world.wait_rest()
    await world.user.replace_spec(STACK, make_spec("4", rollback={"toRevision": number}))
    await world.wait_rest()
    stack, child = await world.user.find(STACK) or {}, await world.user.find(CHILD) or {}
    assert (number, stack["status"]["phase"], child["data"]) == (3, "RollbackComplete", {"v": "2"})


@fake_world.in_world
async def test_nothing_is_left_behind_though_the_kinds_were_forged(world: FakeWorld) -> None:
    def without_kinds(raw: Object) -> None:
        raw["metadata"]["annotations"][names.ANNOTATION_KINDS] = ""

    await begin(world)
    await forge(world, 2, without_kinds)
    await world.kill_controller()
    await world.user.delete(STACK)
    await world.start_controller()
    await world.wait_rest()
    assert (await world.user.find(STACK), await world.user.find(CHILD)) == (None, None)


@fake_world.in_world
async def test_a_new_stack_takes_forged_revisions_for_no_history_of_its_own(world: FakeWorld) -> None:
    spec = make_spec("1", rollback={"onFailure": True})
    spec["template"]["resources"]["a"]["failedWhen"] = ["a.metadata.name != ''"]
    made = await world.user.create(stack_manifests.make_stack(spec))
    labels = {names.LABEL_STACK_UID: made["metadata"]["uid"]}
    for number in range(1, 4):
        annotations = {names.ANNOTATION_REVISION: str(number)}
        about = {"name": f"forged-{number}", "namespace": "default", "labels": labels, "annotations": annotations}
        await world.user.create(
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": about,
                "revision": number,
                "data": {},
            }
        )
    await world.start_controller()
    await world.wait_rest()
    status = (await world.user.find(STACK) or {})["status"]
    assert (status["phase"], await world.user.find(CHILD)) == ("RollbackComplete", None)
