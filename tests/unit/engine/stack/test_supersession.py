"""An outdated target is superseded as soon as a newer one is noticed, and resumed if the newer one is rejected."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from hearth.engine.stack import stack_reconciler
from hearth.engine.stack.stack_reconciler import Supersession
from hearth.engine.work_queue import WorkQueue
from hearth.model import retry_delays
from hearth.model.child import Object
from hearth.plan.status.ready_condition import DefinitionRejection
from support import virtual_time
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_connection import Desk
from support.server import fake_kinds, request_faults
from support.server.request_faults import Trouble
from support.stories import probe_controller, stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address
from support.units import stack_objects
from support.virtual_time import VirtualClock

VALUES = Address(api_version="v1", kind="ConfigMap", namespace="default", name="values")
SEEN = stack_objects.make_stack(namespace="default", resource_version=1)
SIZE, IN_FLIGHT = 100, 8
Edit: TypeAlias = Callable[[FakeWorld, str], Awaitable[None]]


def make_spec(value: str) -> Object:
    """ConfigMaps with only that value."""
    config = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value}}}
    return {"template": {"resources": {f"c{number}": config for number in range(SIZE)}}}


def make_values(value: str) -> Object:
    """A source with that value, outside the Stack."""
    metadata = {"name": VALUES.name, "namespace": VALUES.namespace}
    return {
        "apiVersion": VALUES.api_version,
        "kind": VALUES.kind,
        "metadata": metadata,
        "data": {"value": value, "of": "all"},
    }


async def edit_spec(world: FakeWorld, value: str) -> None:
    """Change a value in the spec."""
    await world.user.replace_spec(STACK, make_spec(value))


async def edit_source(world: FakeWorld, value: str) -> None:
    """Change a value in the source that the spec refers to."""
    await world.user.patch(VALUES, {"data": {"value": value}})


def count(world: FakeWorld, value: str) -> int:
    """How many children have that value."""
    children = world.server.list_all(fake_kinds.CONFIG_MAP.kind)
    return sum(child.get("data") == {"value": value} for child in children)


async def wait_for(check: Callable[[], bool]) -> None:
    """Wait until the condition holds, at most a minute."""
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110 -- the fake cluster has no event for it
            await asyncio.sleep(0.01)


async def begin(world: FakeWorld, edit: Edit = edit_spec) -> None:
    """A Stack whose change from `one` to `two` is in progress on a slow server."""
    world.concurrency = IN_FLIGHT
    await world.start_controller()
    await world.user.create(make_values("one"))
    by_reference = make_spec("${params.value}")
    by_reference["template"]["parameters"] = {"value": {"type": "string"}}
    by_reference["parametersFrom"] = [{"configMapRef": {"name": VALUES.name}}]
    await world.user.create(stack_manifests.make_stack(make_spec("one") if edit is edit_spec else by_reference))
    await wait_for(lambda: count(world, "one") == SIZE)
    world.controllers[0].wire.desk = Desk(places=2, seconds=0.02)
    await edit(world, "two")
    await wait_for(lambda: count(world, "two") >= SIZE // 4)


@pytest.mark.parametrize("edit", [edit_spec, edit_source])
def test_nothing_is_started_for_a_superseded_target(edit: Edit) -> None:
    async def story(world: FakeWorld) -> None:
        await begin(world, edit)
        before = count(world, "two")
        most = before
        await edit(world, "three")

        def is_over() -> bool:
            nonlocal most
            most = max(most, count(world, "two"))
            return count(world, "three") == SIZE

        await wait_for(is_over)
        assert most <= before + IN_FLIGHT

    fake_world.run(story)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(make_spec("three"), id="that cannot be stored"),
        pytest.param(make_spec("${ghost.metadata.name}"), id="with a mistake"),
    ],
)
@fake_world.in_world
async def test_a_newer_target_that_is_rejected_stops_no_rollout(world: FakeWorld, spec: Object) -> None:
    await begin(world)
    world.traffic.troubles.append(
        Trouble(refusal=request_faults.REFUSALS["server-error"], verbs=frozenset({"revision"}))
    )
    asked = sum(request.verb == "revision" for request in world.traffic.requests)
    begun = asyncio.get_running_loop().time()
    await world.user.replace_spec(STACK, spec)
    await wait_for(lambda: count(world, "two") == SIZE)
    seconds = asyncio.get_running_loop().time() - begun
    asked = sum(request.verb == "revision" for request in world.traffic.requests) - asked
    assert seconds < stack_reconciler.MAX_HOLD
    assert asked <= 2 + seconds / retry_delays.DEFINITION.first


def make(generation: int) -> tuple[Supersession, Any, WorkQueue]:
    """A Stack that has accepted that generation."""
    definition_sync: Any = SimpleNamespace(generation=generation, rejection=None)
    definition_sync.has_unprocessed_spec = lambda stack: stack.generation != definition_sync.generation
    queue = WorkQueue()
    services: Any = SimpleNamespace(clock=VirtualClock(), queue=queue)
    return Supersession(SEEN.uid, services=services, definition_sync=definition_sync), definition_sync, queue


def update(held: Supersession, generation: int) -> bool:
    """Show it that generation of its Stack; return whether it is then active."""
    held.update(dataclasses.replace(SEEN, generation=generation))
    return held.is_active


@virtual_time.in_virtual_time
async def test_a_spec_that_takes_too_long_holds_nothing_up() -> None:
    held, definition_sync, queue = make(1)
    assert update(held, 2)
    await asyncio.sleep(stack_reconciler.MAX_HOLD + 1)
    assert queue.get() is not None
    assert not update(held, 3)

    definition_sync.generation = 3
    update(held, 3)
    assert update(held, 4)


@virtual_time.in_virtual_time
async def test_work_continues_beside_a_refusal() -> None:
    held, definition_sync, _ = make(1)
    held.update(dataclasses.replace(SEEN, generation=2))
    definition_sync.rejection = DefinitionRejection(reason="RevisionStoreFailed", message="no")
    held.update(dataclasses.replace(SEEN, generation=2))
    assert not held.is_active


# ---------------------------------------------------------------- a rollout that is changed every two seconds

LAYERS, WIDTH, EDITS = 10, 8, 20


def make_layers(values: list[int]) -> Object:
    """Layers of slow probes: each probe waits for one in the previous layer."""
    resources: Object = {}
    for index, value in enumerate(values):
        resources[f"r{index}"] = {"manifest": probe_controller.manifest({"value": value, "readyAfter": 3})}
        if index >= WIDTH:
            resources[f"r{index}"]["dependsOn"] = [f"r{index - WIDTH}"]
    return {"template": {"resources": resources}}


async def is_complete(world: FakeWorld) -> list[str]:
    """The remaining work, in one word."""
    phase = str(expectations.status_of(await world.user.find(STACK)).get("phase"))
    return [] if phase.endswith("Complete") else [phase]


@fake_world.in_world
async def test_a_rollout_interrupted_again_and_again_wastes_nothing(world: FakeWorld) -> None:
    chance = random.Random(20)
    values = [0] * (LAYERS * WIDTH)
    await world.start_controller()
    await world.user.create(stack_manifests.make_stack(make_layers(values)))
    changed = 0
    for _ in range(EDITS):
        await asyncio.sleep(2)
        which = chance.randrange(len(values))
        address = Address(api_version="testing.hearth.dev/v1", kind="Probe", namespace="default", name=f"shop-r{which}")
        changed += await world.user.find(address) is not None
        values[which] += 1
        await world.user.replace_spec(STACK, make_layers(values))
    assert not await world.wait_rest(lambda: is_complete(world))

    spent = world.traffic.count(0)
    assert 0 < changed < EDITS
    assert spent["apply"] <= len(values) + changed
    assert (spent["delete"], spent["get"]) == (0, 0)
