"""The loop of HealthMarks in a world: what it costs, and what happens around Stacks that come and go."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from hearth.engine.health_marks import health_mark_controller
from hearth.model import limits, names
from hearth.model.child import Object
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import probe_controller, stack_manifests
from support.stories.world import Address

API = f"{names.GROUP}/{names.VERSION}"
PROBE = Address(api_version="testing.hearth.dev/v1", kind="Probe", namespace="default", name="shop-a")


def stack(name: str = "shop", **spec: Any) -> Object:
    """A Stack of one probe."""
    resources = {"a": {"manifest": probe_controller.manifest({"value": 1})}}
    return stack_manifests.make_stack({"template": {"resources": resources}, **spec}, name=name)


def mark(name: str = "bad", **spec: Any) -> Object:
    """A HealthMark on that probe."""
    said = {"markUnhealthy": True, **(spec or {"stackName": "shop", "resource": "a"})}
    return {"apiVersion": API, "kind": "HealthMark", "metadata": {"name": name, "namespace": "default"}, "spec": said}


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
        await world.wait_rest()
        await world.user.create(mark())
        await world.wait_rest()
        assert await read(world) == {"ready": "True", "resolved": "False", "reason": "Marked"}
        await world.user.delete(Address.of(stack()))
        await world.wait_rest()
        assert await read(world) == {"ready": "True", "resolved": "True", "reason": "ObjectDeleted"}
        await world.user.create(stack())
        await world.wait_rest()
        assert world.traffic.count()["mark"] == 1

    fake_world.run(story)


def test_an_object_that_is_nobodys_is_looked_for_without_a_write() -> None:
    """For an hour, and by one timer however often the mark is touched."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        target = {"apiVersion": "testing.hearth.dev/v1", "kind": "Probe", "name": "shop-a"}
        await world.user.create(mark(target=target))
        await world.wait_rest()
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
        await world.wait_rest()
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
        await world.wait_rest()
        for number in range(30):
            await world.user.create(mark(f"m{number}"))
        await world.wait_rest()
        spent = world.traffic.count()
        assert spent["mark-status"] <= 4 * 30
        before = len(world.traffic.requests)
        await world.kill_controller()
        await world.start_controller()
        await world.wait(600)
        assert world.traffic.count(before)["mark"] == world.traffic.count(before)["mark-status"] == 0

    fake_world.run(story)


def config_maps(count: int) -> Object:
    """A Stack of so many ConfigMaps."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    return stack("maps", template={"resources": {f"n{number}": {"manifest": manifest} for number in range(count)}})


def test_marks_on_what_is_nowhere_cost_next_to_nothing() -> None:
    """8,000 of them less than a hundredth of a core, regardless of what else is in their namespace; here a twentieth of that."""
    marks, hours = 400, 1

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(config_maps(300))
        await world.wait_rest()
        for number in range(marks):
            target = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"nowhere-{number}"}
            await world.user.create(mark(f"m{number}", target=target))
        await world.wait_rest()
        assert (await read(world, "m0"))["reason"] == "TargetNotFound"
        began, requests = time.process_time(), len(world.traffic.requests)
        await world.wait(hours * 3600)
        share = (time.process_time() - began) / (hours * 3600)
        print(f"{share * 8000 / marks:.4%} of a core for 8,000")
        assert share < 0.01 * marks / 8000
        assert len(world.traffic.requests) == requests

    fake_world.run(story)


def test_a_mark_finds_its_object_as_soon_as_that_comes() -> None:
    """However rarely it was looked for by then."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(mark(target={"apiVersion": "testing.hearth.dev/v1", "kind": "Probe", "name": "shop-a"}))
        await world.user.create(mark("other", target={"apiVersion": "v1", "kind": "Probe", "name": "shop-a"}))
        await world.wait(3600)
        await world.user.create(stack())
        await world.wait(1)
        assert (await read(world))["reason"] == "ObjectTooNew"
        assert (await read(world, "other"))["reason"] == "TargetNotFound"

    fake_world.run(story)


def test_an_object_that_went_is_no_longer_found() -> None:
    """Though a mark that looks for another one keeps the index of the namespace."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(stack())
        await world.wait_rest()
        nowhere = {"apiVersion": "testing.hearth.dev/v1", "kind": "Probe", "name": "nowhere"}
        await world.user.create(mark("waits", target=nowhere))
        await world.wait_rest()
        await world.user.delete(Address.of(stack()))
        await world.wait_rest()
        await world.user.create(mark(target={**nowhere, "name": "shop-a"}))
        await world.wait_rest()
        assert (await read(world))["reason"] == "TargetNotFound"

    fake_world.run(story)


def test_there_are_only_so_many_open_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others say so, and the next has its turn when one is done with."""
    monkeypatch.setattr(limits, "HEALTH_MARKS_PER_NAMESPACE", 2)

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        for name in ("one", "two", "three", "four"):
            await world.user.create(mark(name, stackName="ghost", resource="a", markUnhealthy=True))
            await world.wait_rest()
        assert [(await read(world, name))["reason"] for name in ("one", "two", "three", "four")] == [
            "StackNotFound",
            "StackNotFound",
            "TooManyMarks",
            "TooManyMarks",
        ]
        await world.user.delete(Address.of(mark("one")))
        await world.wait_rest()
        reasons = [(await read(world, name))["reason"] for name in ("two", "three", "four")]
        assert reasons == ["StackNotFound", "StackNotFound", "TooManyMarks"]

    fake_world.run(story)


def test_marks_of_one_namespace_leave_room_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a limit in all, each has half of what the others leave; who waits has room as soon as one ends."""
    monkeypatch.setattr(limits, "HEALTH_MARKS", 8)
    reached: list[str] = []
    admission = health_mark_controller.Admission(reached.append)

    def make(uid: str) -> Any:
        return SimpleNamespace(uid=uid, namespace=uid[0])

    many = [f"a{number}" for number in range(20)]
    assert [uid for uid in many if admission.admit(make(uid))] == many[:4]
    assert [uid for uid in ("b0", "b1", "b2") if admission.admit(make(uid))] == ["b0", "b1"]
    assert admission.admit(make("c0"))
    assert len(reached) == 17
    assert [admission.release(uid) for uid in ("a0", "a1", "a2", "a3")] == [None, None, "a4", "b2"]
    assert [uid for uid in ("a4", "b2") if admission.admit(make(uid))] == ["a4", "b2"]


def test_marks_that_are_done_with_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be kept in Git for ever."""
    monkeypatch.setattr(limits, "HEALTH_MARKS_PER_NAMESPACE", 1)

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(stack())
        await world.wait_rest()
        for name in ("one", "two"):
            await world.user.create(mark(name, stackName="shop", resource="a", markUnhealthy=False))
            await world.wait_rest()
        assert [(await read(world, name))["reason"] for name in ("one", "two")] == ["Healthy", "Healthy"]

    fake_world.run(story)
