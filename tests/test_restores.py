"""A cluster that was lost and restored from a backup: the Stacks continue, and nothing is created or deleted."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.server.fake_objects import copy
from support.stories import story, story_runner, volume_driver
from support.stories.snapshot_scene import Scene
from support.stories.story import Step, Story
from support.stories.volume_driver import StatusBinder
from support.stories.world import Address

KEPT = ("name", "namespace", "labels", "annotations", "finalizers")
"""The metadata that a backup tool restores: new objects get new UIDs, and no owner references."""
NOT_SAVED = ("Namespace", "CustomResourceDefinition", "Event")
PLAYED = [
    "abandon",
    "adopt",
    "chain",
    "collection",
    "create",
    "F31-basic-life",
    "finished-at-once",
    "finished-group",
    "finished-members",
    "finished-nested",
    "finished-stays-finished",
    "M01-mark-by-name",
    "M09-mark-on-nothing",
    "C19-update-user-replace",
    "replace-create-first",
    "group-create",
    "group-nested",
    "group-of-stacks",
    "nested-levels",
    "P01-suspend-and-resume",
    "replace-data-warned",
    "retain-deleted",
    "sensitive",
]
"""Stories; each is lost after the last step that leaves its Stack complete."""
Saved: TypeAlias = list[tuple[Kind, Object]]


def is_workload_pod(kind: Kind, raw: Object) -> bool:
    """Whether a controller made it, and makes it again of a restored workload."""
    return kind == fake_kinds.POD.kind and any(
        each.get("controller") for each in raw["metadata"].get("ownerReferences", ())
    )


def save(world: FakeWorld) -> Saved:
    """All objects, as a backup tool stores them."""
    saved = []
    for kind, raw in world.server.everything():
        if kind.name in NOT_SAVED or is_workload_pod(kind, raw):
            continue
        metadata = {key: raw["metadata"][key] for key in KEPT if key in raw["metadata"]}
        saved.append(
            (kind, copy({**{key: value for key, value in raw.items() if key != "status"}, "metadata": metadata}))
        )
    return saved


def lose(world: FakeWorld, saved: Saved) -> None:
    """Delete all of it, with its finalizers."""
    for kind, raw in saved:
        namespace, name = raw["metadata"].get("namespace", ""), raw["metadata"]["name"]
        if world.server.find(kind, namespace, name) is not None:
            world.server.patch(kind, namespace, name, {"metadata": {"finalizers": None}}, manager="disaster")
        if world.server.find(kind, namespace, name) is not None:
            world.server.delete(kind, namespace, name)
    for pod in world.server.list_all(fake_kinds.POD.kind):
        # Its node is lost too.
        world.server.end_pod(pod)


def put_back(world: FakeWorld, saved: Saved) -> None:
    """Create it again, in this order."""
    for _, raw in saved:
        world.server.create(copy(raw), manager="velero-server")


def is_stack(kind: Kind) -> bool:
    """Whether it is a Stack or a group."""
    return kind in fake_kinds.STACK_KINDS.values()


ORDERS: dict[str, Callable[[Saved], Saved]] = {
    "stacks last": lambda saved: sorted(saved, key=lambda each: is_stack(each[0])),
    "stacks first": lambda saved: sorted(saved, key=lambda each: not is_stack(each[0])),
    "any order": lambda saved: random.Random(7).sample(saved, len(saved)),
}


def list_objects(world: FakeWorld) -> dict[str, str]:
    """The UIDs of all objects that a user cares for, by kind and name."""
    return {
        f"{kind.name} {raw['metadata'].get('namespace', '')}/{raw['metadata']['name']}": raw["metadata"]["uid"]
        for kind, raw in world.server.everything()
        if kind.name not in (*NOT_SAVED, "ControllerRevision") and not is_workload_pod(kind, raw)
    }


def note_created(created: list[str], kind: Kind, before: Object | None, after: Object | None) -> None:
    """Note an object that a user cares for, if it is new."""
    is_internal = kind.name in (*NOT_SAVED, "ControllerRevision")
    if before is None and after is not None and not is_internal and not is_workload_pod(kind, after):
        created.append(f"{kind.name} {after['metadata']['name']}")


class LostPlay(story_runner.Play):
    """A performance that ends with the loss and the restore of everything, once a step leaves its Stack complete."""

    def __init__(self, played: Story, world: FakeWorld, *, order: str) -> None:
        super().__init__(played, world)
        self.order = order
        self.fake = world

    async def restore(self) -> None:
        """Lose and restore everything; all is as before then."""
        await self.fake.kill_controller()
        saved = save(self.fake)
        before = list_objects(self.fake).keys()
        lose(self.fake, saved)
        put_back(self.fake, ORDERS[self.order](saved))
        restored = list_objects(self.fake)
        assert restored.keys() == before
        created: list[str] = []
        self.fake.server.watchers.append(functools.partial(note_created, created))
        await self.fake.start_controller()
        await self.fake.wait_rest(patience=60.0)
        assert (created, list_objects(self.fake)) == ([], restored)
        stacks = [raw for kind, raw in self.fake.server.everything() if is_stack(kind)]
        phases = {raw["metadata"]["name"]: expectations.status_of(raw).get("phase") for raw in stacks}
        assert {name: phase for name, phase in phases.items() if not str(phase).endswith("Complete")} == {}
        uids = {raw["metadata"]["uid"] for raw in stacks}
        labelled = {
            raw["metadata"]["labels"][names.LABEL_STACK_UID]
            for kind, raw in self.fake.server.everything()
            if names.LABEL_STACK_UID in raw["metadata"].get("labels", {}) and kind.name != "ControllerRevision"
        }
        assert labelled <= uids


def find_steps(played: Story) -> Sequence[Step]:
    """The steps up to the last one that leaves the Stack complete."""
    complete = [at for at, step in enumerate(played.steps) if str(step.expect.get("phase", "")).endswith("Complete")]
    return played.steps[: complete[-1] + 1]


@fake_world.in_world
async def test_finished_work_stays_finished_after_two_restores_until_it_is_retried(world: FakeWorld) -> None:
    played = next(each for each in story.load_all() if each.slug == "finished-at-once")
    await world.start_controller()
    play = LostPlay(played, world, order="stacks last")
    await play._play_step(played.steps[0], where="step 0")
    await play.restore()
    await play.restore()

    created: list[str] = []
    world.server.watchers.append(functools.partial(note_created, created))
    stack = next(raw for kind, raw in world.server.everything() if is_stack(kind))
    await world.user.patch(Address.of(stack), {"metadata": {"annotations": {names.REQUEST_RETRY: "migrate/1"}}})
    await world.wait_rest(patience=60.0)
    assert created == ["Probe shop-migrate"]
    await play.restore()


async def lose_and_restore(world: FakeWorld, order: str) -> list[str]:
    """Lose and restore everything; return the list of objects that are created from then on."""
    await world.kill_controller()
    saved = save(world)
    lose(world, saved)
    put_back(world, ORDERS[order](saved))
    created: list[str] = []
    world.server.watchers.append(functools.partial(note_created, created))
    await world.start_controller()
    return created


async def forget_records(world: FakeWorld) -> None:
    """Remove the records of finished work of the present Stack, as if the operator could not write them yet."""
    (stack,) = [raw for kind, raw in world.server.everything() if is_stack(kind)]
    uid = stack["metadata"]["uid"]
    for raw in await world.user.find_revisions(uid):
        if raw["metadata"]["labels"][names.LABEL_STACK_UID] == uid:
            await world.user.patch(Address.of(raw), {"metadata": {"annotations": {names.ANNOTATION_FINISHED: None}}})


@fake_world.in_world
async def test_a_retry_before_the_first_record_of_a_restored_stack_survives_another_restore(world: FakeWorld) -> None:
    played = next(each for each in story.load_all() if each.slug == "finished-at-once")
    await world.start_controller()
    play = LostPlay(played, world, order="stacks last")
    for number, step in enumerate(played.steps[:2]):
        await play._play_step(step, where=f"step {number}")
    await world.wait_rest(patience=60.0)
    assert await lose_and_restore(world, "stacks last") == []
    await world.wait_rest(patience=60.0)
    await forget_records(world)

    (stack,) = [raw for kind, raw in world.server.everything() if is_stack(kind)]
    await world.user.patch(Address.of(stack), {"metadata": {"annotations": {names.REQUEST_RETRY: "migrate/1"}}})
    await world.wait(2)
    (probe,) = [raw for _, raw in world.server.everything() if raw["metadata"]["name"] == "shop-migrate"]
    await world.kill_controller()
    # The backup does not contain the unfinished object.
    await world.user.patch(Address.of(probe), {"metadata": {"finalizers": None}})
    await world.user.delete(Address.of(probe))
    created = await lose_and_restore(world, "stacks last")
    await world.wait_rest(patience=60.0)
    assert created == ["Probe shop-migrate"]


GROUP = fake_kinds.DEFINED_GROUP
NAME = f"sites.{GROUP}"
DEFINITION = Address(api_version="hearth.dev/v1alpha1", kind="StackDefinition", namespace="", name=NAME)
KIND = Address(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", namespace="", name=NAME)
SITE = Address(api_version=f"{GROUP}/v1alpha1", kind="Site", namespace="default", name="one")


async def define_sites(world: FakeWorld) -> None:
    """A definition with two revisions, and an instance."""
    page: Object = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"layout": "one"}}}
    spec = {
        "group": GROUP,
        "names": {"kind": "Site", "plural": "sites"},
        "versions": [{"name": "v1alpha1"}],
        "scope": "Namespaced",
        "options": ["adoptionPolicy"],
        "template": {"parameters": {"title": {"type": "string", "default": "x"}}, "resources": {"page": page}},
    }
    head = {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind}
    await world.user.create({**head, "metadata": {"name": NAME}, "spec": spec})
    await world.wait_rest()
    metadata = {"name": SITE.name, "namespace": SITE.namespace}
    await world.user.create({"apiVersion": SITE.api_version, "kind": SITE.kind, "metadata": metadata, "spec": {}})
    await world.wait_rest()
    layout = {"template": {"resources": {"page": {"manifest": {"data": {"layout": "two"}}}}}}
    await world.user.patch(DEFINITION, {"spec": layout})
    await world.wait_rest(patience=60.0)


async def read_status(world: FakeWorld, address: Address) -> Object:
    """The status of an object."""
    return (await world.user.find(address) or {}).get("status") or {}


@pytest.mark.parametrize("order", ORDERS)
@fake_world.in_world
async def test_a_restored_definition_takes_its_kind_and_instances_back(world: FakeWorld, order: str) -> None:
    await world.start_controller()
    await define_sites(world)
    for _ in range(2):
        created = await lose_and_restore(world, order)
        await world.wait_rest(patience=600.0)
        definition, site = await read_status(world, DEFINITION), await read_status(world, SITE)
        assert created == []
        assert expectations.find_condition({"status": definition}, "Ready")["status"] == "True"
        assert (definition["revision"], definition["instances"], site["phase"]) == (2, 1, "CreateComplete")


@fake_world.in_world
async def test_a_kind_of_another_definition_is_not_taken_until_it_is_handed_over(world: FakeWorld) -> None:
    await world.start_controller()
    await define_sites(world)
    await world.kill_controller()
    await world.user.patch(KIND, {"metadata": {"annotations": {names.ANNOTATION_SIGNATURE: "forged"}}})
    await world.start_controller()
    await world.wait(60)
    ready = expectations.find_condition({"status": await read_status(world, DEFINITION)}, "Ready")
    uid = (await world.user.find(DEFINITION) or {})["metadata"]["uid"]
    assert (ready["reason"], f"{names.ANNOTATION_ADOPT} to {uid}" in ready["message"]) == ("KindTaken", True)

    await world.user.patch(KIND, {"metadata": {"annotations": {names.ANNOTATION_ADOPT: "another"}}})
    await world.wait(600)
    ready = expectations.find_condition({"status": await read_status(world, DEFINITION)}, "Ready")
    assert ready["reason"] == "KindTaken"
    await world.user.patch(KIND, {"metadata": {"annotations": {names.ANNOTATION_ADOPT: uid}}})
    await world.wait(600)
    ready = expectations.find_condition({"status": await read_status(world, DEFINITION)}, "Ready")
    assert ready["status"] == "True"


async def take_snapshot(world: FakeWorld) -> Scene:
    """A Stack with a claim, a complete snapshot of its first revision, and a second revision."""
    await world.start_controller()
    await world.user.create(volume_driver.definition())
    scene = Scene(world, StatusBinder(world))
    await scene.apply({"data": scene.claim(), "web": scene.config(a="b")}, revisionHistoryLimit=0)
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    await scene.reach_snapshot("Complete", "Complete")
    await scene.apply({"data": scene.claim(), "web": scene.config(a="c")}, revisionHistoryLimit=0)
    await scene.reach_stack("UpdateComplete")
    return scene


@pytest.mark.parametrize("order", ORDERS)
@fake_world.in_world
async def test_a_complete_snapshot_keeps_its_content(world: FakeWorld, order: str) -> None:
    scene = await take_snapshot(world)
    (volume,) = (await scene.read())["volumes"]
    for _ in range(2):
        created = await lose_and_restore(world, order)
        status = await scene.reach_snapshot("Complete", "Complete")
        await scene.reach_stack("CreateComplete")
        assert (created, status["revision"]) == ([], 1)
        assert [each["snapshot"] for each in status["volumes"]] == [volume["snapshot"]]

    await scene.report()
    await scene.request(toSnapshot="before")
    await scene.reach_stack("RollbackComplete")
    claim = await scene.find_claim()
    assert claim["spec"]["dataSource"]["name"] == volume["snapshot"]

    # The data that was written since then is not replaced again.
    created = await lose_and_restore(world, order)
    await scene.reach_snapshot("Complete", "Complete")
    await scene.reach_stack("RollbackComplete")
    assert created == []
    await scene.delete("StackSnapshot", "before")
    await scene.reach_gone(scene.address("StackSnapshot", "before"))
    await scene.reach_gone(scene.address_of_volume(volume["snapshot"]))


@fake_world.in_world
async def test_the_content_of_a_snapshot_counts_for_no_other_snapshot(world: FakeWorld) -> None:
    scene = await take_snapshot(world)
    found = await world.user.find(scene.address("StackSnapshot", "before"))
    content = (found or {})["metadata"]["annotations"][names.ANNOTATION_CONTENT]
    for name, text in (
        ("copied", content),
        ("forged", content.replace('"revision":1', '"revision":2')),
        ("broken", "["),
    ):
        spec = {"stackName": "shop"}
        metadata = {"name": name, "namespace": world.namespace, "annotations": {names.ANNOTATION_CONTENT: text}}
        head = {"apiVersion": "hearth.dev/v1alpha1", "kind": "StackSnapshot"}
        await world.user.create({**head, "metadata": metadata, "spec": spec})
        await scene.reach_taken(name)
        await scene.report(name)
        status = await scene.reach_snapshot("Complete", "Complete", name=name)
        assert status["revision"] == 2


async def lose_volumes(world: FakeWorld, scene: Scene) -> tuple[Saved, str]:
    """Lose everything and restore it without the VolumeSnapshot; return that, and the message of the StackSnapshot."""
    await world.kill_controller()
    saved = save(world)
    lose(world, saved)
    volumes = [each for each in saved if each[0].name == volume_driver.VOLUME_SNAPSHOT.name]
    put_back(world, [each for each in saved if each not in volumes])
    await world.start_controller()
    status = await scene.reach_snapshot("InProgress", "VolumeSnapshotsNotFound")
    return volumes, expectations.find_condition({"status": status}, "Ready")["message"]


@fake_world.in_world
async def test_a_restored_snapshot_is_complete_once_its_volume_snapshots_are_restored(world: FakeWorld) -> None:
    scene = await take_snapshot(world)
    (name,) = [each["snapshot"] for each in (await scene.read())["volumes"]]
    for _ in range(2):
        volumes, message = await lose_volumes(world, scene)
        assert f"volumesnapshot/{name} does not exist" in message
        await world.wait(600)
        assert [each["kind"] for _, each in world.server.everything() if each["kind"] == "VolumeSnapshot"] == []
        put_back(world, volumes)
        status = await scene.reach_snapshot("Complete", "Complete")
        assert (status["revision"], len(status["volumes"])) == (1, 1)
    await scene.delete("StackSnapshot", "before")
    await scene.reach_gone(scene.address("StackSnapshot", "before"))
    await scene.reach_gone(scene.address_of_volume(name))


@fake_world.in_world
async def test_a_snapshot_created_again_from_its_manifest_is_not_complete_without_its_volumes(world: FakeWorld) -> None:
    scene = await take_snapshot(world)
    address = scene.address("StackSnapshot", "before")
    found = await world.user.find(address) or {}
    (volume,) = found["status"]["volumes"]
    metadata = {key: found["metadata"][key] for key in ("name", "namespace", "annotations")}
    await scene.delete("StackSnapshot", "before")
    await scene.reach_gone(address)
    again = {key: value for key, value in found.items() if key != "status"} | {"metadata": metadata}
    await world.user.create(again)
    await scene.reach_snapshot("InProgress", "VolumeSnapshotsNotFound")

    # Another object with its name does not count.
    spec = {"source": {"persistentVolumeClaimName": volume["claim"]}}
    place = {"name": volume["snapshot"], "namespace": world.namespace}
    kind = volume_driver.VOLUME_SNAPSHOT
    await world.user.create({"apiVersion": kind.api_version, "kind": kind.name, "metadata": place, "spec": spec})
    await world.wait(600)
    status = await scene.reach_snapshot("InProgress", "VolumeSnapshotsNotFound")
    assert "was not created for this" in expectations.find_condition({"status": status}, "Ready")["message"]
    await scene.request(toSnapshot="before")
    await scene.reach_reason("VolumeSnapshotNotReady")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "played", [each for each in story.load_all() if each.slug in PLAYED], ids=lambda each: each.slug
)
@fake_world.in_world
async def test_a_restored_stack_continues_with_its_objects(world: FakeWorld, played: Story, order: str) -> None:
    await world.start_controller()
    play = LostPlay(played, world, order=order)
    for number, step in enumerate(find_steps(played)):
        await play._play_step(step, where=f"step {number}")
    await play.restore()
    for kind, raw in list(world.server.everything()):
        if is_stack(kind) and world.server.find(kind, raw["metadata"]["namespace"], raw["metadata"]["name"]):
            await world.user.delete(Address.of(raw))
    await world.wait_rest(patience=60.0)
    assert [name for name in list_objects(world) if name.startswith(("Stack ", "ResourceGroup "))] == []


async def read_stack(world: FakeWorld) -> tuple[str, str]:
    """The phase of the only Stack, and the message of its condition Ready."""
    (stack,) = [raw for kind, raw in world.server.everything() if is_stack(kind)]
    return expectations.status_of(stack)["phase"], expectations.find_condition(stack, "Ready")["message"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("slug", "steps", "phase", "said"),
    [
        pytest.param("window", 2, "UpdateStopped", "revision 1 runs", id="a change that waits for its window"),
        pytest.param("window-sources", 3, "CreateComplete", "ready", id="secret values, outside of its window"),
        pytest.param("window-failed", 2, "CreateFailed", "cannot", id="a change that failed and was rolled back"),
    ],
)
@fake_world.in_world
async def test_a_restored_stack_keeps_its_objects_and_waits_for_its_window(
    world: FakeWorld, slug: str, steps: int, phase: str, said: str, order: str
) -> None:
    await world.start_controller()
    played = next(each for each in story.load_all() if each.slug == slug)
    play = LostPlay(played, world, order=order)
    for number, step in enumerate(played.steps[:steps]):
        await play._play_step(step, where=f"step {number}")
    before = list_objects(world)
    created = await lose_and_restore(world, order)
    await world.wait_rest(patience=60.0)
    assert (created, list_objects(world).keys()) == ([], before.keys())
    found, message = await read_stack(world)
    assert (found, said in message) == (phase, True)


@fake_world.in_world
async def test_the_end_of_a_rollback_waits_for_the_window_after_a_restore(world: FakeWorld) -> None:
    await world.start_controller()
    played = next(each for each in story.load_all() if each.slug == "window-rollback")
    play = LostPlay(played, world, order="stacks last")
    for number, step in enumerate(played.steps[:3]):
        await play._play_step(step, where=f"step {number}")
    await lose_and_restore(world, "stacks last")
    await world.wait_rest(patience=60.0)
    assert (await read_stack(world))[0] == "RollbackComplete"
    (stack,) = [raw for kind, raw in world.server.everything() if is_stack(kind)]
    await world.user.patch(Address.of(stack), {"spec": {"rollback": None}})
    await world.wait_rest(patience=60.0)
    assert (await read_stack(world))[0] == "UpdateStopped"
