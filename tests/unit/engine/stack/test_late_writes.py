"""An apply in flight may create an object that is not wanted any more; no list shows it before."""

from __future__ import annotations

import asyncio

from hearth.model.child import Object
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import stack_manifests
from support.stories.world import Address

SLOW = 10.0
"""Seconds until an apply takes effect, as with a slow webhook."""


async def start(world: FakeWorld, *resources: str) -> Address:
    """A Stack of ConfigMaps, which are not awaited."""
    await world.start_controller()
    spec = {"template": {"resources": make_resources(*resources)}}
    return Address.of(await world.user.create(stack_manifests.make_stack(spec)))


def make_resources(*resources: str) -> Object:
    """The resources of a template."""
    return {name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}} for name in resources}


def list_objects(world: FakeWorld) -> list[str]:
    """The names of all ConfigMaps."""
    return [raw["metadata"]["name"] for kind, raw in world.server.everything() if kind.name == "ConfigMap"]


def test_no_object_outlives_the_stack() -> None:
    """The finalizer goes after the write, and after the object that it creates."""

    async def story(world: FakeWorld) -> None:
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

    fake_world.run(story)


def test_no_stack_is_complete_before_it() -> None:
    """The definition no longer has the resource, and says why it waits."""

    async def story(world: FakeWorld) -> None:
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

    fake_world.run(story)
