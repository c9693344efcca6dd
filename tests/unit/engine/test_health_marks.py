"""The loop of HealthMarks in a world: what it costs, and what happens around Stacks that come and go."""

from __future__ import annotations

from typing import Any

from hearth.model import names
from hearth.model.child import Object
from support import expectations, fake_world, probe_player
from support.fake_world import FakeWorld
from support.world import Address

API = f"{names.GROUP}/{names.VERSION}"
PROBE = Address(api_version="testing.hearth.dev/v1", kind="Probe", namespace="default", name="shop-a")


def stack(name: str = "shop", **spec: Any) -> Object:
    """A Stack of one probe."""
    resources = {"a": {"manifest": probe_player.manifest({"value": 1})}}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": API,
        "kind": "Stack",
        "metadata": metadata,
        "spec": {"template": {"resources": resources}, **spec},
    }


def mark(name: str = "bad", **spec: Any) -> Object:
    """A HealthMark on that probe."""
    said = {"markUnhealthy": True, **(spec or {"stackName": "shop", "resource": "a"})}
    return {"apiVersion": API, "kind": "HealthMark", "metadata": {"name": name, "namespace": "default"}, "spec": said}


async def find_nothing() -> list[str]:
    """Nothing in particular is waited for."""
    return []


async def read(world: FakeWorld, name: str = "bad") -> dict[str, Any]:
    """What the status of a mark says: by condition its status, and the reason."""
    found = await world.user.find(Address.of(mark(name)))
    ready, resolved = (expectations.find_condition(found, each) for each in ("Ready", "Resolved"))
    return {"ready": ready.get("status"), "resolved": resolved.get("status"), "reason": ready.get("reason")}


def test_a_mark_whose_stack_goes_is_done_with() -> None:
    """And a Stack of the same name later is none of its business."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(stack(healing={"policy": "OnUpdate"}))
        await world.wait_rest(find_nothing)
        await world.user.create(mark())
        await world.wait_rest(find_nothing)
        assert await read(world) == {"ready": "True", "resolved": "False", "reason": "Marked"}
        await world.user.delete(Address.of(stack()))
        await world.wait_rest(find_nothing)
        assert await read(world) == {"ready": "True", "resolved": "True", "reason": "Gone"}
        await world.user.create(stack())
        await world.wait_rest(find_nothing)
        assert world.traffic.count()["mark"] == 1

    fake_world.run(story)


def test_an_object_that_is_nobodys_is_looked_for_without_a_write() -> None:
    """For an hour, and by one timer however often the mark is touched."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        target = {"apiVersion": "testing.hearth.dev/v1", "kind": "Probe", "name": "shop-a"}
        await world.user.create(mark(target=target))
        await world.wait_rest(find_nothing)
        assert (await read(world))["reason"] == "TargetNotFound"
        before = len(world.traffic.requests)
        for number in range(20):
            await world.user.patch(Address.of(mark()), {"metadata": {"labels": {"n": str(number)}}})
        await world.wait(3600)
        assert len(world.traffic.requests) == before

    fake_world.run(story)


def test_a_mark_that_may_not_be_written_says_so_and_is_tried_again() -> None:
    """More and more slowly."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(stack(healing={"policy": "OnUpdate"}))
        await world.wait_rest(find_nothing)
        world.traffic.denied.add(("patch", "Probe"))
        await world.user.create(mark())
        await world.wait(600)
        assert await read(world) == {"ready": "False", "resolved": "False", "reason": "Denied"}
        assert 4 <= world.traffic.count()["mark"] <= 12
        world.traffic.denied.clear()
        await world.wait(600)
        assert await read(world) == {"ready": "True", "resolved": "False", "reason": "Marked"}

    fake_world.run(story)


def test_marks_cost_nothing_while_nothing_changes() -> None:
    """Not after a restart either."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(stack())
        await world.wait_rest(find_nothing)
        for number in range(30):
            await world.user.create(mark(f"m{number}"))
        await world.wait_rest(find_nothing)
        spent = world.traffic.count()
        assert spent["mark-status"] <= 4 * 30
        before = len(world.traffic.requests)
        await world.kill_controller()
        await world.start_controller()
        await world.wait(600)
        assert world.traffic.count(before)["mark"] == world.traffic.count(before)["mark-status"] == 0

    fake_world.run(story)
