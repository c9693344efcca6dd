"""Writes to one cluster do not wait for writes to another cluster; responses of its API server set how many run at
once.
"""

from __future__ import annotations

import asyncio

import pytest

from hearth.engine.writes.write_lanes import WriteLane, WriteLanes, WriteThrottle
from hearth.model import limits
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.plan.retry.backoff import ServerResponse, StepFailure
from hearth.plan.state.steps import Apply
from hearth.runtime import LoopClock
from support import virtual_time
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds, request_faults
from support.server.request_faults import Request
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.virtual_time import VirtualClock


class Writes:
    """Writes that hang for the Stack `slow`."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.begun: list[tuple[str, str]] = []
        self.released = asyncio.Event()
        self.lanes = WriteLanes(
            concurrency=16,
            clock=LoopClock(),
            take_step=self._take,
            on_start=lambda _seconds: None,
            on_error=lambda _stack, _key: None,
        )
        self.lanes.start()

    async def _take(self, lane: WriteLane, stack_uid: str, key: str) -> None:
        assert lane in self.lanes.list_all()
        self.begun.append((stack_uid, key))
        if stack_uid == "slow":
            await self.released.wait()
        self.done.append((stack_uid, key))


async def settle() -> None:
    """Let all runnable tasks continue."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_cluster_that_hangs_delays_no_other() -> None:
    writes = Writes()
    writes.lanes.enqueue("east", "slow", [f"r{number}" for number in range(100)], namespace="shop")
    await settle()
    assert 0 < len(writes.begun) <= limits.CLUSTER_WRITES
    for cluster, uid in (("", "home"), ("west", "far")):
        writes.lanes.enqueue(cluster, uid, ["a", "b"], namespace="shop")
    await settle()

    assert sorted(writes.done) == [("far", "a"), ("far", "b"), ("home", "a"), ("home", "b")]
    writes.released.set()
    await writes.lanes.stop()


async def test_a_lane_ends_after_its_cluster_was_unused_twice() -> None:
    writes = Writes()
    writes.lanes.enqueue("east", "far", ["a"], namespace="shop")
    writes.lanes.enqueue("north", "idle", [], namespace="shop")
    await settle()
    assert len(writes.lanes.list_all()) == 2
    for used, left in ((["", "east"], 2), ([""], 2), (["", "east"], 2), ([""], 2), ([""], 1), ([""], 1)):
        writes.lanes.retain(used)
        assert len(writes.lanes.list_all()) == left
    writes.lanes.enqueue("east", "far", ["b"], namespace="shop")
    await settle()

    assert writes.done == [("far", "a"), ("far", "b")]
    await writes.lanes.stop()


# ---------------------------------------------------------------- limits from the API server's responses

SIZE = 100
STEP = Apply(
    resource="a",
    kind=fake_kinds.CONFIG_MAP.kind,
    ref=ObjectRef(group="", kind="ConfigMap", namespace="default", name="a"),
    manifest={},
    hash="h",
    uid=None,
)


def make_stack(kinds: dict[str, int]) -> Object:
    """A Stack of that many objects of each kind."""
    resources = {
        f"{kind.lower()}{number}": {"manifest": {"apiVersion": "v1", "kind": kind}}
        for kind, count in kinds.items()
        for number in range(count)
    }
    return stack_manifests.make_stack({"template": {"resources": resources}})


class Log:
    """Records the time of each write of a child."""

    def __init__(self, world: FakeWorld) -> None:
        self.moments: list[tuple[float, Request]] = []
        self._begun = asyncio.get_running_loop().time()
        world.traffic.listeners.append(self._hear)

    def _hear(self, request: Request) -> None:
        if request.verb == "apply":
            self.moments.append((asyncio.get_running_loop().time() - self._begun, request))

    def count(self, since: float, until: float, kind: str = "ConfigMap") -> int:
        """Writes of that kind in that time."""
        return sum(since <= moment < until for moment, request in self.moments if request.kind.name == kind)


async def wait_complete(world: FakeWorld) -> float:
    """Wait until the Stack is complete; return the duration in seconds."""

    async def check() -> list[str]:
        phase = str(expectations.status_of(await world.user.find(STACK)).get("phase"))
        return [] if phase == "CreateComplete" else [phase]

    begun = asyncio.get_running_loop().time()
    assert await world.wait_until(check) == []
    return asyncio.get_running_loop().time() - begun


@fake_world.in_world
async def test_a_busy_server_is_left_alone_for_as_long_as_it_asks_for(world: FakeWorld) -> None:
    log = Log(world)
    await world.start_controller()
    world.traffic.troubles.append(request_faults.Trouble(refusal=request_faults.REFUSALS["busy"], times=4))
    await world.user.create(make_stack({"ConfigMap": SIZE}))
    seconds = await wait_complete(world)

    first = log.moments[0][0]
    assert log.count(0, first + 2.0) == 4
    assert log.count(first + 2.0, first + 2.5) == SIZE
    assert seconds < first + 3.5
    assert len(log.moments) == SIZE + 4


@fake_world.in_world
async def test_a_server_that_is_busy_for_long_is_asked_once_in_a_while(world: FakeWorld) -> None:
    log = Log(world)
    await world.start_controller()
    busy = request_faults.Trouble(refusal=request_faults.REFUSALS["busy"])
    world.traffic.troubles.append(busy)
    await world.user.create(make_stack({"ConfigMap": SIZE}))
    await asyncio.sleep(60)
    assert len(log.moments) <= 4 + 2 + 60 / 2
    busy.times = 0
    assert await wait_complete(world) < 5


@pytest.mark.parametrize("word", ["not-now", "internal", "unavailable", "quota"])
@fake_world.in_world
async def test_what_one_kind_is_refused_for_holds_nothing_else_back(world: FakeWorld, word: str) -> None:
    log = Log(world)
    await world.start_controller()
    world.traffic.troubles.append(request_faults.Trouble(refusal=request_faults.REFUSALS[word], kind="Secret", times=8))
    await world.user.create(make_stack({"Secret": 8, "ConfigMap": SIZE}))
    await wait_complete(world)

    first = log.moments[0][0]
    assert log.count(0, first + 0.5) == SIZE


@virtual_time.in_virtual_time
async def test_a_hold_ends_by_itself() -> None:
    loop, woken = asyncio.get_running_loop(), list[float]()
    throttle = WriteThrottle(most=32, clock=VirtualClock())
    for after in (2.0, 3.0, 1.0):
        trouble = StepFailure(reason="Unavailable", message="busy", retry_after=after, server=ServerResponse.BUSY)
        throttle.on_result(STEP, trouble, begun=0.0, in_flight=4, wake=lambda: woken.append(loop.time()))
    assert throttle.find_limit() == 0
    await asyncio.sleep(10)
    assert woken == [3.0]
    assert throttle.find_limit() == throttle.limit == 2


@fake_world.in_world
async def test_what_waits_is_reported(world: FakeWorld) -> None:
    await world.start_controller()
    engine = world.controllers[0].engine
    assert engine.count_writes() == {"limit": 4, "in_flight": 0, "queued": 0}
    world.traffic.troubles.append(request_faults.Trouble(refusal=request_faults.REFUSALS["busy"], times=4))
    await world.user.create(make_stack({"ConfigMap": SIZE}))
    await asyncio.sleep(1)
    assert engine.count_writes() == {"limit": 2, "in_flight": 0, "queued": SIZE - 4}
    await wait_complete(world)
    assert engine.count_writes()["queued"] == 0
