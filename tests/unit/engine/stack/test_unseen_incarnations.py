"""Objects of a resource that no list shows yet count when the next one is numbered, so none of them goes too early."""

from __future__ import annotations

import asyncio

from hearth.model import names
from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import probe_controller, stack_manifests
from support.stories.world import Address

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


def make_spec(e: Object, **a: object) -> Object:
    """Two resources: `e` of any kind, and `a`, on which it depends when the Stack is complete."""
    return {"template": {"resources": {"e": {"manifest": e}, "a": {"manifest": probe_controller.manifest(dict(a))}}}}


def list_objects(world: FakeWorld) -> list[tuple[str, str]]:
    """Kind and incarnation of each object of `e`."""
    found = [raw for _, raw in world.server.everything() if is_of(raw, "e")]
    return sorted((raw["kind"], raw["metadata"]["annotations"][names.ANNOTATION_INCARNATION]) for raw in found)


def is_of(raw: Object, resource: str) -> bool:
    """Whether the object is one of that resource."""
    return (raw["metadata"].get("labels") or {}).get(names.LABEL_RESOURCE) == resource


def test_the_next_object_waits_until_the_earlier_ones_are_seen() -> None:
    """Otherwise it would have the number of an earlier one, and the object in use would be deleted at once."""

    async def story(world: FakeWorld) -> None:
        probe = probe_controller.manifest({"value": 1})
        await world.start_controller()
        first = make_spec(probe, value=1)
        address = Address.of(await world.user.create(stack_manifests.make_stack(first)))
        await asyncio.sleep(10)
        await world.user.replace_spec(address, make_spec(CONFIG, value=1))
        await asyncio.sleep(10)
        assert list_objects(world) == [("ConfigMap", "2")]

        await world.kill_controller()
        await world.user.replace_spec(address, make_spec(probe, value=1, fails="as written"))
        world.traffic.unanswered.add("ConfigMap")
        await world.start_controller()
        await asyncio.sleep(10)
        assert list_objects(world) == [("ConfigMap", "2")]

        await world.kill_controller()
        world.traffic.unanswered.clear()
        await world.start_controller()
        await asyncio.sleep(60)
        assert list_objects(world) == [("ConfigMap", "2"), ("Probe", "3")]

    fake_world.run(story)
