"""Each object is processed once at a time, again if it changed meanwhile, and later after a failure."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from hearth.engine.writes import object_loop
from hearth.engine.writes.object_loop import ObjectLoop
from hearth.model import names
from hearth.model.child import Object
from support import virtual_time
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories.world import Address
from support.virtual_time import VirtualClock


class Looks:
    """Counts the steps of each object; `steps` is the number of consecutive steps."""

    def __init__(self, *, steps: int = 1) -> None:
        self.taken: list[tuple[float, str]] = []
        self.steps = steps
        self.failures = 0
        self.seconds = 0.0
        self.clock = VirtualClock()
        self.loop = ObjectLoop(where="test", advance=self.advance, enqueue=self.enqueue, clock=self.clock)
        self.loop.start()

    def enqueue(self, uid: str) -> None:
        """Enqueue an object as its owner does."""
        self.loop.enqueue("shop", uid)

    async def advance(self, uid: str) -> bool:
        """Take a step."""
        self.taken.append((self.clock.monotonic(), uid))
        await asyncio.sleep(self.seconds)
        if self.failures:
            self.failures -= 1
            raise ValueError
        return len(self.taken) % self.steps != 0


@virtual_time.in_virtual_time
async def test_steps_follow_each_other_until_there_is_nothing_to_do() -> None:
    looks = Looks(steps=3)
    looks.enqueue("a")
    await asyncio.sleep(1)
    assert [uid for _, uid in looks.taken] == ["a", "a", "a"]


@virtual_time.in_virtual_time
async def test_a_change_meanwhile_is_not_lost() -> None:
    looks = Looks()
    looks.seconds = 5
    looks.enqueue("a")
    await asyncio.sleep(1)
    looks.enqueue("a")
    looks.enqueue("a")
    await asyncio.sleep(20)
    assert looks.taken == [(0, "a"), (5, "a")]


@virtual_time.in_virtual_time
async def test_the_last_timer_counts() -> None:
    looks = Looks()
    looks.loop.enqueue_later("a", 2)
    looks.loop.enqueue_later("a", 7)
    looks.loop.enqueue_later("b", 3)
    looks.loop.cancel("b")
    await asyncio.sleep(20)
    assert looks.taken == [(7, "a")]
    looks.loop.enqueue_later("a", 7)
    await looks.loop.stop()
    await asyncio.sleep(20)
    assert len(looks.taken) == 1


@virtual_time.in_virtual_time
async def test_a_failure_is_retried_and_the_others_continue() -> None:
    looks = Looks()
    looks.failures = object_loop.WORKERS + 1
    looks.enqueue("a")
    await asyncio.sleep(0.01)
    assert len(looks.taken) == 1
    await asyncio.sleep(600)
    assert len(looks.taken) == object_loop.WORKERS + 2
    looks.enqueue("b")
    await asyncio.sleep(1)
    assert looks.taken[-1][1] == "b"


@virtual_time.in_virtual_time
async def test_an_object_that_is_written_forever_is_an_internal_error() -> None:
    looks = Looks(steps=1000)
    looks.enqueue("a")
    await asyncio.sleep(0.01)
    assert len(looks.taken) == object_loop.MAX_STEPS
    looks.steps = 1
    looks.enqueue("b")
    await asyncio.sleep(0.01)
    assert looks.taken[-1][1] == "b"


@virtual_time.in_virtual_time
async def test_a_step_that_takes_long_makes_room_and_continues_later() -> None:
    looks = Looks()
    looks.seconds = 100.0
    looks.enqueue("a")
    for _ in range(60):
        await asyncio.sleep(10)
        assert looks.loop.find_stall() == ""
    started = [at for at, _ in looks.taken]
    assert len(started) == 3  # After 30 and 60 seconds it had not ended; after 100 it had.
    assert started[1] - started[0] >= object_loop.STEP_SECONDS


@virtual_time.in_virtual_time
async def test_long_steps_of_one_namespace_leave_a_worker_to_others() -> None:
    looks = Looks()
    looks.seconds = 20.0
    for number in range(20):
        looks.loop.enqueue("attacker", f"a{number}")
    await asyncio.sleep(1)
    assert len(looks.taken) == object_loop.WORKERS - 1
    looks.loop.enqueue("other", "b")
    await asyncio.sleep(0.1)
    assert looks.taken[-1][1] == "b"


@virtual_time.in_virtual_time
async def test_a_change_at_the_moment_of_its_turn_is_no_second_turn() -> None:
    for moment in range(8):
        looks = Looks()
        looks.seconds = 5
        looks.enqueue("a")
        for _ in range(moment):
            await asyncio.sleep(0)
        looks.enqueue("a")
        await asyncio.sleep(20)
        begun = [at for at, _ in looks.taken]
        assert all(later - earlier >= 5 for earlier, later in itertools.pairwise(begun))
        await looks.loop.stop()


# ---------------------------------------------------------------- deletions whose event is late

LATE = 3.0
"""Seconds until an event arrives."""


def make(kind: str, spec: dict[str, Any]) -> Object:
    """An object of Hearth."""
    metadata = {"name": "shop", "namespace": "default"}
    return {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("kind", "spec", "verb"),
    [
        pytest.param("StackSnapshot", {"stackName": "shop"}, "snapshot-status", id="a StackSnapshot"),
        pytest.param(
            "HealthMark",
            {"markUnhealthy": True, "stackName": "shop", "resource": "a"},
            "mark-status",
            id="a HealthMark",
        ),
    ],
)
@fake_world.in_world
async def test_what_the_server_no_longer_has_is_not_written_again(
    world: FakeWorld, kind: str, spec: dict[str, Any], verb: str
) -> None:
    world.event_delay = LATE
    await world.start_controller()
    address = Address.of(await world.user.create(make(kind, spec)))
    await asyncio.sleep(LATE / 2)
    await world.user.delete(address)
    await asyncio.sleep(3 * LATE)
    assert [each.name for each in world.traffic.requests if each.verb == verb] == ["shop"]
