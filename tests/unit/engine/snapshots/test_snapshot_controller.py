"""StackSnapshots in a world: every scenario, undisturbed and with the operator killed at every write."""

from __future__ import annotations

import pytest

from hearth.model import limits, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds, request_faults
from support.server.request_faults import Interruption
from support.stories import restore_scenarios, snapshot_scenarios, stack_manifests, volume_driver
from support.stories.snapshot_scenarios import Scenario
from support.stories.snapshot_scene import API, Scene
from support.stories.volume_driver import StatusBinder

WAYS = ("kill-after", "lost", "kill-before")
"""Each write is disturbed in one of these ways, its neighbors in the others; trying all ways at all writes would take
minutes.
"""
OTHERS = 60
"""More Stacks than the operator reconciles in one go."""
ALL = pytest.mark.parametrize("scenario", snapshot_scenarios.SCENARIOS, ids=lambda each: each.__name__)


def perform(scenario: Scenario, *, restarts: bool = False, interruption: Interruption | None = None) -> int:
    """Perform a scenario in a world of its own; return the number of writes."""
    worlds: list[FakeWorld] = []

    async def story(world: FakeWorld) -> None:
        worlds.append(world)
        world.traffic.interruption = interruption
        await world.start_controller()
        await world.user.create(volume_driver.definition())
        await scenario(Scene(world, StatusBinder(world), restarts=restarts))

    fake_world.run(story)
    return sum(request.verb in request_faults.WRITES for request in worlds[0].traffic.requests)


@ALL
def test_scenario(scenario: Scenario) -> None:
    perform(scenario)


@ALL
def test_scenario_with_restarts(scenario: Scenario) -> None:
    perform(scenario, restarts=True)


@ALL
def test_scenario_with_a_death_at_every_write(scenario: Scenario) -> None:
    writes = perform(scenario)
    for write in range(1, writes + 1):
        perform(scenario, interruption=Interruption(write=write, how=WAYS[write % len(WAYS)]))


@pytest.mark.parametrize("metadata", [{}, {"name": "archive"}], ids=["by reference", "by name"])
def test_no_claim_is_created_while_a_workload_runs(metadata: dict[str, str]) -> None:
    seen: list[tuple[int, int]] = []

    async def story(world: FakeWorld) -> None:
        def watch(kind: Kind, before: Object | None, after: Object | None) -> None:
            is_new_claim = kind.name == "PersistentVolumeClaim" and before is None and after is not None
            if is_new_claim and "dataSource" in (after or {})["spec"]:
                seen.append(count_pods(world))

        world.server.watchers.append(watch)
        await world.start_controller()
        await world.user.create(volume_driver.definition())
        scene = Scene(world, StatusBinder(world))
        await restore_scenarios.prepare(scene, **metadata)
        scene.is_binding = False
        await scene.request(toSnapshot="before")
        await scene.reach(lambda: restore_scenarios.find_new_claim(scene))
        await world.wait(60)
        assert count_pods(world) == (0, 0)
        scene.is_binding = True
        await scene.reach_stack("RollbackComplete")
        assert count_pods(world) == (1, 1)

    fake_world.run(story)
    assert seen == [(0, 0)]


def count_pods(world: FakeWorld) -> tuple[int, int]:
    """The desired and current Pods of all Deployments."""
    found = world.server.list_all(fake_kinds.DEPLOYMENT.kind)
    wanted = sum(each["spec"]["replicas"] for each in found)
    return wanted, sum((each.get("status") or {}).get("replicas") or 0 for each in found)


async def begin(world: FakeWorld, *, has_kind: bool = True) -> Scene:
    """A scene with an operator. has_kind: whether VolumeSnapshots are served."""
    await world.start_controller()
    if has_kind:
        await world.user.create(volume_driver.definition())
    return Scene(world, StatusBinder(world))


@fake_world.in_world
async def test_a_restart_among_many_stacks_keeps_what_a_restore_needs(world: FakeWorld) -> None:
    scene = await begin(world)
    manifest = {"apiVersion": "v1", "kind": "ConfigMap"}
    for number in range(OTHERS):
        await world.user.create(
            stack_manifests.make_stack(
                {"template": {"resources": {"a": {"manifest": manifest}}}},
                name=f"other-{number}",
                namespace=world.namespace,
            )
        )
    await restore_scenarios.prepare(scene)
    scene.is_binding = False
    await scene.request(toSnapshot="before")
    await scene.reach(lambda: restore_scenarios.find_new_claim(scene))
    await scene.delete("StackSnapshot", "before")
    await scene.reach_snapshot("Complete", "Deleting")
    await world.kill_controller()
    await world.start_controller()
    await world.wait(60)
    volumes = await scene.find_volumes()
    assert len(volumes) == 1
    assert None not in volumes
    scene.is_binding = True
    await scene.reach_stack("RollbackComplete")
    await scene.reach_gone(scene.address("StackSnapshot", "before"))


@fake_world.in_world
async def test_a_restore_that_waits_asks_seldom(world: FakeWorld) -> None:
    scene = await begin(world)
    await restore_scenarios.begin_copies(scene)
    await world.wait(60)
    before = len(world.traffic.requests)
    await world.wait(600)
    assert 0 < len(world.traffic.requests) - before < 600
    scene.is_copying = True
    await scene.reach_stack("RollbackComplete")


@fake_world.in_world
async def test_volume_snapshots_are_written_as_the_account(world: FakeWorld) -> None:
    scene = await begin(world)
    await scene.apply({"data": scene.claim()}, serviceAccountName="deployer")
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    await scene.reach_snapshot("Complete", "Complete")
    await scene.delete("Stack", "shop")
    await scene.reach_gone(scene.address("Stack", "shop"))
    await scene.delete("StackSnapshot", "before")
    await scene.reach_gone(scene.address("StackSnapshot", "before"))
    about_volumes = [each for each in world.traffic.requests if each.kind == volume_driver.VOLUME_SNAPSHOT]
    assert {"create", "get", "delete-object"} == {each.verb for each in about_volumes}
    assert {each.user for each in about_volumes} == {"system:serviceaccount:default:deployer"}


@fake_world.in_world
async def test_a_denied_volume_snapshot_is_reported_and_tried_again(world: FakeWorld) -> None:
    scene = await begin(world)
    await scene.apply({"data": scene.claim()})
    await scene.reach_stack("CreateComplete")
    refusal = request_faults.REFUSALS["denied"]
    world.traffic.troubles.append(request_faults.Trouble(refusal=refusal, verbs=frozenset({"create"})))
    await scene.snap()
    status = await scene.reach_snapshot("Failed", "VolumeSnapshotFailed")
    assert "forbidden" in expectations.find_condition({"status": status}, "Ready")["message"]
    world.traffic.troubles.clear()
    await scene.reach_taken()
    await scene.report()
    await scene.reach_snapshot("Complete", "Complete")


@fake_world.in_world
async def test_a_deletion_that_is_denied_is_reported_until_retained(world: FakeWorld) -> None:
    scene = await begin(world)
    await scene.apply({"data": scene.claim()})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    refusal = request_faults.REFUSALS["denied"]
    world.traffic.troubles.append(request_faults.Trouble(refusal=refusal, verbs=frozenset({"delete-object"})))
    await scene.delete("StackSnapshot", "before")
    status = await scene.reach_snapshot("InProgress", "Deleting")
    assert "forbidden" in expectations.find_condition({"status": status}, "Ready")["message"]
    address = scene.address("StackSnapshot", "before")
    await world.user.patch(address, {"spec": {"deletionPolicy": "Retain"}})
    await scene.reach_gone(address)


@fake_world.in_world
async def test_without_volume_snapshots_a_snapshot_contains_the_revision_alone(world: FakeWorld) -> None:
    scene = await begin(world, has_kind=False)
    await scene.apply({"data": scene.claim()})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    status = await scene.reach_snapshot("Complete", "Complete")
    assert status["volumes"] == []
    (warning,) = status["warnings"]
    assert "does not serve snapshot.storage.k8s.io/v1 VolumeSnapshot" in warning
    assert "shop-data" in warning


@fake_world.in_world
async def test_snapshots_beyond_the_limit_wait_for_room(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SNAPSHOTS_PER_STACK", 2)
    scene = await begin(world)
    await scene.apply({"web": scene.config(a="b")})
    await scene.reach_stack("CreateComplete")
    for name in ("a", "b"):
        await scene.snap(name)
        await scene.reach_snapshot("Complete", "Complete", name=name)
    await scene.snap("c")
    await scene.reach_snapshot("InProgress", "TooManySnapshots", name="c")
    scene.restarts = True
    await scene.step()
    await scene.reach_snapshot("InProgress", "TooManySnapshots", name="c")
    await scene.delete("StackSnapshot", "a")
    await scene.reach_snapshot("Complete", "Complete", name="c")


@fake_world.in_world
async def test_a_stack_waits_for_the_snapshot_that_it_contains(world: FakeWorld) -> None:
    scene = await begin(world)
    await scene.apply({"data": scene.claim()})
    await scene.reach_stack("CreateComplete")
    manifest = {"apiVersion": API, "kind": "StackSnapshot", "spec": {"stackName": "shop"}}
    head = {"apiVersion": API, "kind": "Stack", "metadata": {"name": "ops", "namespace": world.namespace}}
    template = {"resources": {"backup": {"manifest": {**manifest, "metadata": {"name": "before"}}}}}
    await world.user.create({**head, "spec": {"template": template}})
    await scene.reach_taken()
    scene.stack = "ops"
    await scene.reach_stack("CreateInProgress")
    await scene.report(readyToUse=False, error={"message": "the array is full"})
    await scene.reach_stack("CreateFailed")
    await scene.report(error=None)
    await scene.reach_stack("CreateComplete")
    await scene.delete("Stack", "ops")
    await scene.reach_gone(scene.address("Stack", "ops"))
    assert await world.user.find(scene.address("StackSnapshot", "before")) is None


@fake_world.in_world
async def test_a_snapshot_costs_nothing_once_it_is_complete(world: FakeWorld) -> None:
    scene = await begin(world)
    await scene.apply({"data": scene.claim(), "web": scene.config(a="b")})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    await scene.reach_snapshot("Complete", "Complete")
    await world.wait(600)
    before = len(world.traffic.requests)
    await scene.apply({"data": scene.claim(), "web": scene.config(a="c")})
    await scene.reach_stack("UpdateComplete")
    scene.restarts = True
    await scene.step()
    await world.wait(3600)
    kinds = {volume_driver.VOLUME_SNAPSHOT.name, "StackSnapshot"}
    assert [each for each in world.traffic.requests[before:] if each.kind.name in kinds] == []


@fake_world.in_world
async def test_a_taken_name_is_neither_used_nor_deleted(world: FakeWorld) -> None:
    scene = await begin(world)
    await scene.apply({"data": scene.claim()})
    await scene.reach_stack("CreateComplete")
    await scene.snap("first")
    await scene.reach_taken("first")
    (copied,) = await scene.find_volumes("first")
    assert copied is not None
    await world.kill_controller()
    await scene.snap("second")
    snapshot = await world.user.find(scene.address("StackSnapshot", "second"))
    assert snapshot is not None
    uid = snapshot["metadata"]["uid"]
    name = names.volume_snapshot_name(snapshot="second", snapshot_uid=uid, namespace=world.namespace, claim="shop-data")
    metadata = {"name": name, "namespace": world.namespace, "annotations": copied["metadata"]["annotations"]}
    labels = {**copied["metadata"]["labels"], names.LABEL_SNAPSHOT_UID: uid}
    head = {key: copied[key] for key in ("apiVersion", "kind", "spec")}
    await world.user.create({**head, "metadata": {**metadata, "labels": labels}})
    await world.start_controller()
    await scene.reach_snapshot("Failed", "NameTaken", name="second")
    await scene.delete("StackSnapshot", "second")
    await scene.reach_gone(scene.address("StackSnapshot", "second"))
    assert await world.user.find(scene.address_of_volume(name)) is not None


@fake_world.in_world
async def test_a_restored_claim_is_not_replaced_for_its_content(world: FakeWorld) -> None:
    scene = await begin(world)
    claim = {**scene.claim(), "updatePolicy": {"replaceOn": ["spec.dataSource"]}}
    await scene.apply({"data": claim, "web": scene.config(a="b")})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    await scene.reach_snapshot("Complete", "Complete")
    await scene.request(toSnapshot="before")
    await scene.reach_stack("RollbackComplete")
    uid = (await scene.find_claim())["metadata"]["uid"]
    await scene.apply({"data": claim, "web": scene.config(a="c")})
    await scene.reach_stack("UpdateComplete")
    claim = await scene.find_claim()
    assert claim["metadata"]["uid"] == uid
    assert "dataSource" in claim["spec"]
