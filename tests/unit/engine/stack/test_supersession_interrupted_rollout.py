"""A rollout that is changed again every two seconds: nothing is written but what the targets themselves ask for."""

from __future__ import annotations

import asyncio
import random

from hearth.model.child import Object
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import probe_controller, stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

LAYERS, WIDTH, EDITS = 10, 8, 20


def make_spec(values: list[int]) -> Object:
    """Layers of probes, each of which waits for one of the layer before; every one takes a while to be ready."""
    resources: Object = {}
    for index, value in enumerate(values):
        resources[f"r{index}"] = {"manifest": probe_controller.manifest({"value": value, "readyAfter": 3})}
        if index >= WIDTH:
            resources[f"r{index}"]["dependsOn"] = [f"r{index - WIDTH}"]
    return {"template": {"resources": resources}}


async def is_complete(world: FakeWorld) -> list[str]:
    """What is still to be done, in a word."""
    phase = str(expectations.status_of(await world.user.find(STACK)).get("phase"))
    return [] if phase.endswith("Complete") else [phase]


def test_a_rollout_interrupted_again_and_again_wastes_nothing() -> None:
    """At most one write for each change of an object that had been written already; no revision is waited for."""

    async def story(world: FakeWorld) -> None:
        chance = random.Random(20)
        values = [0] * (LAYERS * WIDTH)
        await world.start_controller()
        await world.user.create(stack_manifests.make_stack(make_spec(values)))
        changed = 0
        for _ in range(EDITS):
            await asyncio.sleep(2)
            which = chance.randrange(len(values))
            address = Address(
                api_version="testing.hearth.dev/v1", kind="Probe", namespace="default", name=f"shop-r{which}"
            )
            changed += await world.user.find(address) is not None
            values[which] += 1
            await world.user.replace_spec(STACK, make_spec(values))
        assert not await world.wait_rest(lambda: is_complete(world))

        spent = world.traffic.count(0)
        assert 0 < changed < EDITS
        assert spent["apply"] <= len(values) + changed
        assert (spent["delete"], spent["get"]) == (0, 0)

    fake_world.run(story)
