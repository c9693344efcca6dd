"""A Stack with restarts, late lists and other writers: nothing is written twice, dropped, or left behind."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

import pytest

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.target_tracker import TargetTracker
from hearth.engine.stack.stack_reconciler import CLOCK_CHECK, StackReconciler
from hearth.engine.work_queue import DirtyScope
from hearth.model import names
from hearth.model.child import Object
from hearth.plan.state.steps import Step
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import request_faults
from support.server.request_faults import WRITES
from support.stories import probe_controller, stack_manifests
from support.stories.world import Address

HOUR, DAY = 3600.0, 86400.0
STACKS = 40
"""More Stacks than consecutive passes, so that status writers get their turns between the passes."""
FIRST: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "one"}}
SECOND: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"first": "${first.metadata.name}"}}


def make_stack(number: int) -> Object:
    """Two ConfigMaps; one references the other."""
    return stack_manifests.make_stack(
        {"template": {"resources": {"first": {"manifest": FIRST}, "second": {"manifest": SECOND}}}},
        name=f"stack-{number}",
    )


async def converge(world: FakeWorld, *, stacks: int) -> None:
    """Complete Stacks and an idle operator."""
    await world.start_controller()
    for number in range(stacks):
        await world.user.create(make_stack(number))
    await world.wait_rest()


@fake_world.in_world
async def test_nothing_is_written_after_a_restart(world: FakeWorld) -> None:
    await converge(world, stacks=STACKS)
    await world.kill_controller()
    before = len(world.traffic.requests)
    await world.start_controller()
    await world.wait_rest()

    written = [request for request in world.traffic.requests[before:] if request.verb in WRITES]
    assert written == []


@fake_world.in_world
async def test_nothing_is_said_of_a_stack_before_the_first_look_at_its_children(world: FakeWorld) -> None:
    await converge(world, stacks=1)
    (controller,) = world.controllers
    engine = controller.engine
    (uid,) = engine._services.management_cluster.stacks()
    stack = engine._services.management_cluster.find_stack(uid)
    assert stack is not None
    another = StackReconciler(uid, services=engine._services, builder=engine._builder)
    await another.definition.sync()

    assert another.cache_sync.grace_left() > 0
    while engine._services.queue.get() is not None:
        pass
    another.reconcile(stack, set())
    assert another.cache_sync.grace_left() == 0
    assert another.planner is not None
    assert another.planner.is_complete


@fake_world.in_world
async def test_no_earlier_state_of_a_stack_is_kept(world: FakeWorld) -> None:
    await converge(world, stacks=3)
    (controller,) = world.controllers
    uids = set(controller.engine._services.management_cluster.stacks())
    gc.collect()
    kept = Counter(each.uid for each in gc.get_objects() if isinstance(each, StackObject) and each.uid in uids)

    assert len(uids) == 3
    assert max(kept.values()) <= 1


@fake_world.in_world
async def test_a_change_starts_in_its_window_although_the_clock_was_set_back(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.start_controller()
    window = {"from": "12:00", "to": "13:00"}
    made = stack_manifests.make_stack({"window": window, "template": {"resources": {"first": {"manifest": FIRST}}}})
    await world.user.create(made)
    await world.wait_rest()
    manifest = {"manifest": {"data": {"value": "two"}}}
    await world.user.patch(Address.of(made), {"spec": {"template": {"resources": {"first": manifest}}}})
    await world.wait_rest()
    written = Address(
        api_version="v1", kind="ConfigMap", namespace=world.namespace, name=f"{made['metadata']['name']}-first"
    )
    assert (await world.user.find(written) or {})["data"] == {"value": "one"}

    clock = world.controllers[0].engine._services.clock
    now = clock.now
    back = now() % DAY + DAY - 12.5 * HOUR
    monkeypatch.setattr(clock, "now", lambda: now() - back)
    await world.wait(CLOCK_CHECK + 60.0)
    assert (await world.user.find(written) or {})["data"] == {"value": "two"}


# ---------------------------------------------------------------- steps that must not start


def test_a_step_deferred_between_two_reconciles_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    is_persisted, take_step = vars(TargetTracker)["is_persisted"], StackReconciler.take_step
    deferred: list[str] = []

    def take(self: StackReconciler, key: str) -> Step | None:
        if key in deferred:
            return take_step(self, key)
        deferred.append(key)
        monkeypatch.setattr(TargetTracker, "is_persisted", property(lambda _self: False))
        step = take_step(self, key)
        monkeypatch.setattr(TargetTracker, "is_persisted", is_persisted)
        # The status writer does the same when the status has the target.
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)
        return step

    monkeypatch.setattr(StackReconciler, "take_step", take)

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        config = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
        spec = {"template": {"resources": {"a": config, "b": {**config, "dependsOn": ["a"]}}}}
        address = Address.of(await world.user.create(stack_manifests.make_stack(spec)))
        await asyncio.sleep(5)
        assert expectations.status_of(await world.user.find(address) or {})["phase"] == "CreateComplete"
        assert deferred == ["a", "b"]

    fake_world.run(story)


# ---------------------------------------------------------------- writes that no list shows yet

SLOW = 10.0
"""Seconds until an apply takes effect, as with a slow webhook."""


async def start(world: FakeWorld, *resources: str) -> Address:
    """Create a Stack of ConfigMaps without waiting for them."""
    await world.start_controller()
    spec = {"template": {"resources": make_resources(*resources)}}
    return Address.of(await world.user.create(stack_manifests.make_stack(spec)))


def make_resources(*resources: str) -> Object:
    return {name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}} for name in resources}


def list_objects(world: FakeWorld) -> list[str]:
    """The names of all ConfigMaps."""
    return [raw["metadata"]["name"] for kind, raw in world.server.everything() if kind.name == "ConfigMap"]


@fake_world.in_world
async def test_no_object_outlives_the_stack(world: FakeWorld) -> None:
    address = await start(world)
    world.controllers[0].wire.slow["apply"] = SLOW
    await world.user.replace_spec(address, {"template": {"resources": make_resources("a")}})
    await asyncio.sleep(SLOW / 2)
    await world.user.delete(address)
    await asyncio.sleep(SLOW / 4)
    assert await world.user.find(address) is not None
    await asyncio.sleep(3 * SLOW)
    assert await world.user.find(address) is None
    assert list_objects(world) == []


@fake_world.in_world
async def test_no_stack_is_complete_before_it(world: FakeWorld) -> None:
    address = await start(world, "a")
    await asyncio.sleep(5)
    world.controllers[0].wire.slow["apply"] = SLOW
    await world.user.replace_spec(address, {"template": {"resources": make_resources("a", "b")}})
    await asyncio.sleep(SLOW / 2)
    await world.user.replace_spec(address, {"template": {"resources": make_resources("a")}})
    await asyncio.sleep(SLOW / 4)
    status = expectations.status_of(await world.user.find(address) or {})
    assert (status["phase"], status["observedGeneration"]) == ("UpdateInProgress", 3)
    assert "waits for a write in flight" in expectations.find_condition({"status": status}, "Ready")["message"]
    await asyncio.sleep(3 * SLOW)
    status = expectations.status_of(await world.user.find(address) or {})
    assert (status["phase"], list_objects(world)) == ("UpdateComplete", ["shop-a"])


# ---------------------------------------------------------------- objects that no list shows yet

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


def make_spec(e: Object, **a: object) -> Object:
    """Two resources: `e` of any kind, and `a`, which `e` requires once the Stack is complete."""
    return {"template": {"resources": {"e": {"manifest": e}, "a": {"manifest": probe_controller.manifest(dict(a))}}}}


def list_incarnations(world: FakeWorld) -> list[tuple[str, str]]:
    """Kind and incarnation of each object of `e`."""
    found = [raw for _, raw in world.server.everything() if is_of(raw, "e")]
    return sorted((raw["kind"], raw["metadata"]["annotations"][names.ANNOTATION_INCARNATION]) for raw in found)


def is_of(raw: Object, resource: str) -> bool:
    """Whether the object is one of that resource."""
    return (raw["metadata"].get("labels") or {}).get(names.LABEL_RESOURCE) == resource


@fake_world.in_world
async def test_the_next_object_waits_until_the_earlier_ones_are_seen(world: FakeWorld) -> None:
    probe = probe_controller.manifest({"value": 1})
    await world.start_controller()
    first = make_spec(probe, value=1)
    address = Address.of(await world.user.create(stack_manifests.make_stack(first)))
    await asyncio.sleep(10)
    await world.user.replace_spec(address, make_spec(CONFIG, value=1))
    await asyncio.sleep(10)
    assert list_incarnations(world) == [("ConfigMap", "2")]

    await world.kill_controller()
    await world.user.replace_spec(address, make_spec(probe, value=1, fails="as written"))
    world.traffic.unanswered.add("ConfigMap")
    await world.start_controller()
    await asyncio.sleep(10)
    assert list_incarnations(world) == [("ConfigMap", "2")]

    await world.kill_controller()
    world.traffic.unanswered.clear()
    await world.start_controller()
    await asyncio.sleep(60)
    assert list_incarnations(world) == [("ConfigMap", "2"), ("Probe", "3")]


# ---------------------------------------------------------------- a user who takes a field back

CONTESTED: Object = stack_manifests.make_stack(
    {"template": {"resources": {"a": {"manifest": probe_controller.manifest({"value": 1})}}}}
)
PROBE = Address(api_version="testing.hearth.dev/v1", kind="Probe", namespace="default", name="shop-a")


async def fight(world: FakeWorld, *, seconds: int) -> Counter[str]:
    """The operator's requests by verb while a user sets the value ten times a second."""
    before = len(world.traffic.requests)
    for _ in range(seconds * 10):
        live = await world.user.find(PROBE)
        if live is not None and live["spec"]["value"] != 9:
            await world.user.patch(PROBE, {"spec": {"value": 9}})
        await asyncio.sleep(0.1)
    return world.traffic.count(before)


@pytest.mark.parametrize(("seconds", "limit"), [(60, 7), (3600, 25)], ids=["a minute", "an hour"])
@fake_world.in_world
async def test_a_contest_costs_few_writes(world: FakeWorld, seconds: int, limit: int) -> None:
    await world.start_controller()
    await world.user.create(CONTESTED)
    await world.wait_rest()
    spent = await fight(world, seconds=seconds)
    assert 5 <= spent["apply"] <= limit
    assert spent["status"] <= 3 * limit
    assert spent["get"] == 2
    stack = await world.user.find(Address.of(CONTESTED))
    contested = expectations.find_condition(stack, "DriftConflict")
    assert "spec.value, owned by 'kubectl-edit', changed repeatedly" in contested["message"]
    assert expectations.find_condition(stack, "Ready")["status"] == "True"


# ---------------------------------------------------------------- the end of a Stack


@pytest.mark.parametrize(
    ("word", "slowest"),
    [pytest.param("conflict", 0.5, id="the Stack changed"), pytest.param("webhook", 4.0, id="a request is rejected")],
)
@fake_world.in_world
async def test_a_finalizer_that_could_not_be_taken_away(world: FakeWorld, word: str, slowest: float) -> None:
    await world.start_controller()
    template = {"resources": {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}}}
    address = Address.of(await world.user.create(stack_manifests.make_stack({"template": template})))
    await asyncio.sleep(5)
    refusal = request_faults.REFUSALS[word]
    world.traffic.troubles.append(request_faults.Trouble(refusal=refusal, verbs=frozenset({"finalizer"}), times=1))
    begun = asyncio.get_running_loop().time()
    await world.user.delete(address)
    while await world.user.find(address) is not None:  # noqa: ASYNC110 -- in virtual time
        await asyncio.sleep(0.01)
    seconds = asyncio.get_running_loop().time() - begun
    assert seconds < slowest
    assert (word == "conflict") is (seconds < 1.0)


# ---------------------------------------------------------------- a kind that appears while a definition is read


@pytest.mark.parametrize("is_present", [False, True], ids=["a new Stack", "a Stack that is changed"])
@pytest.mark.parametrize("moment", [0.0, 0.3, 0.6, 0.9, 1.2, 2.5])
@fake_world.in_world
async def test_a_definition_is_checked_against_a_kind_that_appears_at_any_moment(
    world: FakeWorld, moment: float, *, is_present: bool
) -> None:
    await world.start_controller()
    for controller in world.controllers:
        controller.wire.slow["revision"] = 1.0
    late = {"manifest": probe_controller.manifest({"value": 1}, kind="Latecomer")}
    reader = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "${string(late.spec.nothing)}"}}
    shop, spec = stack_manifests.make_stack({"template": {"resources": {}}}), {"late": late, "b": {"manifest": reader}}
    if is_present:
        await world.user.create(shop)
        await world.wait_rest()
        await world.user.replace_spec(Address.of(shop), {"template": {"resources": spec}})
    else:
        await world.user.create({**shop, "spec": {"template": {"resources": spec}}})
    await asyncio.sleep(moment)
    await world.user.create(probe_controller.definition("Latecomer"))
    await world.wait_rest()
    ready = expectations.find_condition(await world.user.find(Address.of(shop)), "Ready")
    assert ready["reason"] == "InvalidTemplate"
    assert "spec.template.resources.b.manifest.data.a" in ready["message"]
