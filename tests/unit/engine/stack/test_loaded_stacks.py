"""Stacks start in portions and in turns.

Idle ones are unloaded, and the next event loads them, with no visible effect.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection

import pytest

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.stack.loaded_stacks import (
    COUNTED_STEPS,
    FIRST_ASSUMPTION,
    GROWTH,
    INTERVAL,
    START_LASTS,
    STEPS_PER_WRITE,
    UNLOAD_AFTER,
    StartLimiter,
)
from hearth.engine.stack.stack_reconciler import MAX_UNLOADED_RESOURCES
from hearth.engine.stack_controller import StackController
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model.child import Object
from support import virtual_time
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import probe_controller, stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address
from support.virtual_time import VirtualClock


def make(in_line: Collection[str] = ()) -> tuple[StartLimiter, WorkQueue]:
    """A limiter of two starts at once, as long as their steps are not planned, and the queue that it fills.

    in_line: the Stacks that wait for their turn.
    """
    queue = WorkQueue()
    assert STEPS_PER_WRITE == 2 * FIRST_ASSUMPTION
    limiter = StartLimiter(concurrency=1, queue=queue, clock=VirtualClock(), is_in_line=lambda uid: uid in in_line)
    return limiter, queue


def start(limiter: StartLimiter, uid: str, namespace: str = "one") -> bool:
    """As the controller does with a Stack that has no reconciler."""
    is_admitted = limiter.admit(uid, namespace)
    if is_admitted:
        limiter.begin(uid)
    return is_admitted


def take(queue: WorkQueue) -> list[str]:
    """The Stacks that were enqueued."""
    uids = []
    while (taken := queue.get()) is not None:
        assert taken[1] == {DirtyScope.ALL_RESOURCES}
        uids.append(taken[0])
    return uids


@virtual_time.in_virtual_time
async def test_a_stack_starts_when_another_has_started() -> None:
    limiter, queue = make()
    assert [start(limiter, uid) for uid in ("a", "b", "c", "d", "c")] == [True, True, False, False, False]
    assert take(queue) == []
    limiter.finish("a")
    limiter.finish("a")
    assert take(queue) == ["c"]
    assert start(limiter, "c")
    assert not start(limiter, "e")


@virtual_time.in_virtual_time
async def test_namespaces_take_turns() -> None:
    limiter, queue = make()
    order = [(f"flood-{number}", "one") for number in range(1000)] + [("alone", "two"), ("second", "two")]
    for uid, namespace in order:
        start(limiter, uid, namespace)
    for number in range(3):
        limiter.finish(f"flood-{number}")
    assert take(queue) == ["flood-2", "alone", "flood-3"]


@virtual_time.in_virtual_time
async def test_a_start_that_hangs_ends() -> None:
    limiter, queue = make()
    for uid in ("a", "b", "c", "d", "e"):
        start(limiter, uid)
    await asyncio.sleep(START_LASTS * 1.01)
    assert take(queue) == ["c", "d"]
    await asyncio.sleep(START_LASTS * 3)
    assert (take(queue), start(limiter, "c")) == ([], True)
    await asyncio.sleep(START_LASTS * 1.01)
    assert take(queue) == ["e"]


@virtual_time.in_virtual_time
async def test_a_start_that_waits_in_line_does_not_end() -> None:
    in_line = {"a", "b"}
    limiter, queue = make(in_line)
    for uid in ("a", "b", "c"):
        start(limiter, uid)
    await asyncio.sleep(START_LASTS * 9.5)
    assert take(queue) == []
    in_line.discard("a")
    await asyncio.sleep(START_LASTS)
    assert take(queue) == ["c"]


@virtual_time.in_virtual_time
async def test_a_start_ends_with_the_steps_that_it_counts_for() -> None:
    limiter, queue = make()
    for uid in ("a", "b", "c", "d", "e"):
        start(limiter, uid)
    limiter.weigh("a", 2)
    limiter.weigh("b", 5000)
    for _ in range(2):
        assert take(queue) == []
        limiter.take_step("a")
    for _ in range(COUNTED_STEPS):
        assert take(queue) == []
        limiter.take_step("b")
    assert take(queue) == ["c"]
    limiter.take_step("unknown")


@virtual_time.in_virtual_time
async def test_small_stacks_start_in_larger_numbers() -> None:
    limiter, queue = make()
    for number in range(12):
        start(limiter, str(number))
    limiter.weigh("0", 1)
    limiter.weigh("1", 1)
    assert take(queue) == ["2"]
    limiter.weigh("2", 5000)
    limiter.finish("0")
    limiter.finish("1")
    assert take(queue) == []
    limiter.finish("2")
    assert take(queue) == ["3"]


@virtual_time.in_virtual_time
async def test_stacks_are_expected_to_be_like_those_before() -> None:
    limiter, queue = make()
    for number in range(200):
        start(limiter, str(number))
    started = ["0", "1"]
    for number in range(100):
        limiter.weigh(started[number], 1)
        limiter.finish(started[number])
        started += take(queue)
    assert len(started) - 100 == STEPS_PER_WRITE - 1


# ---------------------------------------------------------------- idle Stacks

PROBE = probe_controller.kind_of()
SOON = UNLOAD_AFTER + 2 * INTERVAL
"""Seconds until an idle Stack is unloaded."""
CHILD = Address(api_version="v1", kind="ConfigMap", namespace="default", name="shop-one")
MANIFEST: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "one"}}


def make_stack(name: str = "shop", *, count: int = 1, **spec: object) -> Object:
    """A Stack of that many ConfigMaps."""
    resources = {"one": {"manifest": MANIFEST}} | {f"r{each}": {"manifest": MANIFEST} for each in range(1, count)}
    return stack_manifests.make_stack({"template": {"resources": resources}, **spec}, name=name)


def make_probe_stack(name: str) -> Object:
    """A Stack of a Probe, a custom kind."""
    manifest = {"apiVersion": PROBE.api_version, "kind": PROBE.name, "spec": {"value": 1}}
    stack = make_stack(name)
    return {**stack, "spec": {"template": {"resources": {"probe": {"manifest": manifest}}}}}


def find_engine(world: FakeWorld) -> StackController:
    """The engine of the only controller."""
    (controller,) = world.controllers
    return controller.engine


def list_loaded(world: FakeWorld) -> list[str]:
    """The names of the Stacks that have a reconciler."""
    engine = find_engine(world)
    stacks = engine._services.management_cluster
    return sorted(stack.name for uid in engine._reconcilers if (stack := stacks.find_stack(uid)) is not None)


async def begin(world: FakeWorld, *stacks: Object) -> None:
    """Create these Stacks, and wait long enough to unload idle ones."""
    await world.start_controller()
    for each in stacks:
        await world.user.create(each)
    await world.wait(5 * SOON)


@fake_world.in_world
async def test_an_idle_stack_is_unloaded_and_nothing_is_sent(world: FakeWorld) -> None:
    await begin(world, make_stack())
    assert list_loaded(world) == []
    before = len(world.traffic.requests)
    await world.user.patch(STACK, {"metadata": {"labels": {"team": "a"}}})
    await world.wait(INTERVAL)
    assert list_loaded(world) == ["shop"]
    assert [str(each.verb) for each in world.traffic.requests[before:]] == []


@fake_world.in_world
async def test_what_is_unloaded_leaves_the_memory_at_once(world: FakeWorld) -> None:
    gc.collect()
    gc.disable()
    try:
        await begin(world, *(make_stack(f"shop-{number}") for number in range(3)))
        services = find_engine(world)._services
        alive = [each for each in gc.get_objects() if isinstance(each, DefinitionSync) and each.services is services]
        assert alive == []
    finally:
        gc.enable()


@fake_world.in_world
async def test_each_event_keeps_a_stack_loaded_for_longer(world: FakeWorld) -> None:
    await begin(world, make_stack())
    await world.user.patch(STACK, {"metadata": {"labels": {"team": "a"}}})
    await world.wait(SOON)
    assert list_loaded(world) == ["shop"]
    await world.wait(GROWTH * SOON)
    assert list_loaded(world) == []


@fake_world.in_world
async def test_a_stack_in_conflict_with_another_writer_stays_loaded(world: FakeWorld) -> None:
    await begin(world, make_stack())
    await world.user.patch(CHILD, {"data": {"value": "two"}})
    await world.wait(2 * GROWTH * SOON)
    assert list_loaded(world) == ["shop"]
    await world.wait(3600)
    assert list_loaded(world) == []


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param(make_stack(paused=True), id="paused before it began"),
        pytest.param(make_stack(count=MAX_UNLOADED_RESOURCES + 1), id="large"),
        pytest.param(
            make_stack(parameters={"a": {"valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}}}), id="refused"
        ),
    ],
)
@fake_world.in_world
async def test_some_stacks_stay_loaded(world: FakeWorld, stack: Object) -> None:
    """Stacks that are not at their target, wait for something, or take long to load."""
    await begin(world, stack)
    assert list_loaded(world) == ["shop"]


@fake_world.in_world
async def test_a_status_that_another_writer_wiped_is_restored(world: FakeWorld) -> None:
    await begin(world, make_stack())
    before = await world.user.find(STACK)
    assert before is not None
    await world.user.patch_status(STACK, dict.fromkeys(before["status"]))
    await world.wait(SOON)
    after = await world.user.find(STACK)
    assert after is not None
    ignored = ("conditions",)  # They have changed only now.
    assert {key: after["status"].get(key) for key in before["status"] if key not in ignored} == {
        key: value for key, value in before["status"].items() if key not in ignored
    }


@fake_world.in_world
async def test_a_removed_kind_loads_the_stacks_that_use_it(world: FakeWorld) -> None:
    await begin(world, make_stack(), make_probe_stack("other"))
    definition = Address.of(probe_controller.definition())
    await world.user.delete(definition)
    find_engine(world)._services.queue.on_kinds()
    await world.wait(SOON)
    assert list_loaded(world) == ["other"]


@fake_world.in_world
async def test_new_health_rules_load_the_stacks_of_their_kinds(world: FakeWorld) -> None:
    await begin(world, make_stack(), make_probe_stack("other"))
    assert list_loaded(world) == []
    rule = '[{"kinds": ["ConfigMap"], "cases": [{"when": "true", "state": "progressing", "message": "not yet"}]}]'
    metadata = {"name": "hearth-health-rules", "namespace": "default"}
    await world.user.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"rules": rule}})
    await world.wait(SOON)
    assert list_loaded(world) == ["shop"]
    stack = await world.user.find(STACK)
    assert stack is not None
    assert "not yet" in str(stack["status"]["conditions"])


@fake_world.in_world
async def test_a_deleted_stack_is_loaded_and_deleted(world: FakeWorld) -> None:
    await begin(world, make_stack())
    await world.user.delete(STACK)
    await asyncio.sleep(SOON)
    assert await world.user.find(STACK) is None
    assert await world.user.find(CHILD) is None
    assert STACK.name not in list_loaded(world)
