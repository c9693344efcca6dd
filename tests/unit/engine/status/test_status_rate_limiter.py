"""Of a large Stack a repair that is over in a moment is not told: the status would cost the server more than the repair."""

from __future__ import annotations

import asyncio

import pytest

from hearth.engine.status import status_rate_limiter
from hearth.model.child import Object
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server.request_queue import Desk
from support.stories.world import Address

STACK = Address(api_version="hearth.dev/v1alpha1", kind="Stack", namespace="default", name="shop")
CHILD = Address(api_version="v1", kind="ConfigMap", namespace="default", name="shop-a")
SMALL, LARGE = 10, 2 * status_rate_limiter.BYTES_PER_SECOND


def make_stack(size: int) -> Object:
    """A Stack of two ConfigMaps, whose template takes about so many bytes."""
    resources = {
        name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x" * (size // 2)}}}
        for name in ("a", "b")
    }
    metadata = {"name": STACK.name, "namespace": STACK.namespace}
    return {
        "apiVersion": STACK.api_version,
        "kind": STACK.kind,
        "metadata": metadata,
        "spec": {"template": {"resources": resources}},
    }


async def break_it(world: FakeWorld, size: int) -> list[str]:
    """Have an object of a Stack of that size deleted, and repaired; what was sent until all was at rest."""
    await world.user.create(make_stack(size))
    await asyncio.sleep(20)
    before = len(world.traffic.requests)
    await world.user.delete(CHILD)
    await asyncio.sleep(20)
    assert expectations.status_of(await world.user.find(STACK))["phase"] == "CreateComplete"
    return [request.verb for request in world.traffic.requests[before:]]


@pytest.mark.parametrize(("size", "expected"), [pytest.param(SMALL, 2, id="small"), pytest.param(LARGE, 0, id="large")])
def test_a_short_repair_is_told_of_a_small_stack_only(size: int, expected: int) -> None:
    """There it costs next to nothing."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        sent = await break_it(world, size)
        assert (sent.count("apply"), sent.count("status")) == (1, expected)

    fake_world.run(story)


def test_a_repair_that_takes_its_time_is_told() -> None:
    """A large Stack says that it is not ready, and that it is again."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        world.controllers[0].wire.desk = Desk(places=2, seconds=1.5)
        sent = await break_it(world, LARGE)
        assert (sent.count("apply"), sent.count("status")) == (1, 2)

    fake_world.run(story)
