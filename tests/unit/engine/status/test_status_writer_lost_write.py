"""A status whose write was lost is reported in full by the next one, though only what seems to differ is sent."""

from __future__ import annotations

from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import request_faults
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

CHILD = Address(api_version="v1", kind="ConfigMap", namespace="default", name="shop-a")


def make_spec(value: str) -> Object:
    """One ConfigMap."""
    return {
        "template": {"resources": {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": value}}}}}
    }


def test_phase_after_a_lost_write() -> None:
    """Events come so late that the lost write is not seen before the next one."""

    async def play(world: FakeWorld) -> None:
        world.event_delay = 3.0
        await world.start_controller()
        await world.user.create(stack_manifests.make_stack(make_spec("1")))
        await world.wait_rest()
        await world.user.replace_spec(STACK, make_spec("2"))
        await world.wait_rest()
        lost = request_faults.Trouble(refusal=request_faults.REFUSALS["lost"], verbs=frozenset({"status"}), times=1)
        world.traffic.troubles.append(lost)
        await world.user.replace_spec(STACK, make_spec("3"))
        await world.user.delete(CHILD)
        await world.wait_rest()
        stack = await world.user.find(STACK) or {}
        assert (lost.times, stack["status"]["phase"], stack["status"]["revision"]) == (0, "UpdateComplete", 3)

    fake_world.run(play)
