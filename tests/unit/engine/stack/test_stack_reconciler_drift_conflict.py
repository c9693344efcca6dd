"""A user takes a field back ten times a second: what that costs, and that nothing else suffers."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from hearth.model.child import Object
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import probe_controller, stack_manifests
from support.stories.world import Address

STACK: Object = stack_manifests.make_stack(
    {"template": {"resources": {"a": {"manifest": probe_controller.manifest({"value": 1})}}}}
)
PROBE = Address(api_version="testing.hearth.dev/v1", kind="Probe", namespace="default", name="shop-a")


async def fight(world: FakeWorld, *, seconds: int) -> Counter[str]:
    """By verb what it costs the operator that a user sets the value ten times a second."""
    before = len(world.traffic.requests)
    for _ in range(seconds * 10):
        live = await world.user.find(PROBE)
        if live is not None and live["spec"]["value"] != 9:
            await world.user.patch(PROBE, {"spec": {"value": 9}})
        await asyncio.sleep(0.1)
    return world.traffic.count(before)


@pytest.mark.parametrize(("seconds", "limit"), [(60, 7), (3600, 25)], ids=["a minute", "an hour"])
def test_a_contest_costs_few_writes(seconds: int, limit: int) -> None:
    """Of the object and of the status; the object is read once for the first repair and once for the conflict; the stack is as ready as its object."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(STACK)
        await world.wait_rest()
        spent = await fight(world, seconds=seconds)
        assert 5 <= spent["apply"] <= limit
        assert spent["status"] <= 3 * limit
        assert spent["get"] == 2
        stack = await world.user.find(Address.of(STACK))
        contested = expectations.find_condition(stack, "DriftConflict")
        assert "spec.value, owned by 'kubectl-edit', changed repeatedly" in contested["message"]
        assert expectations.find_condition(stack, "Ready")["status"] == "True"

    fake_world.run(story)
