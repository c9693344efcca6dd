"""Steps run in turn, at most a bounded number at a time, and obsolete steps are dropped."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from hearth.engine.writes.concurrency_limiter import MIN_LIMIT_BY_LATENCY
from hearth.engine.writes.fair_executor import FairExecutor
from hearth.model.child import Object
from hearth.runtime import LoopClock
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_connection import Desk
from support.stories import stack_manifests
from support.stories.world import Address


class Steps:
    """Records started steps and lets the test finish each one."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        self.gate = asyncio.Event()

    async def take(self, stack_uid: str, key: str) -> None:
        """The callback of the executor."""
        self.taken.append((stack_uid, key))
        await self.gate.wait()


async def turn_over() -> None:
    """Let all runnable tasks continue."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_than_the_workers_are_in_flight() -> None:
    steps = Steps()
    executor = FairExecutor(workers=2, take_step=steps.take, clock=LoopClock())
    executor.start()
    executor.enqueue("s", ["a", "b", "c"])
    await turn_over()
    assert len(steps.taken) == 2
    steps.gate.set()
    await turn_over()
    assert len(steps.taken) == 3
    await executor.stop()


async def test_a_large_stack_does_not_keep_a_small_one_waiting() -> None:
    steps = Steps()
    steps.gate.set()
    executor = FairExecutor(workers=1, take_step=steps.take, clock=LoopClock())
    executor.enqueue("large", [str(number) for number in range(100)])
    executor.enqueue("small", ["x"])
    executor.start()
    await turn_over()
    assert steps.taken.index(("small", "x")) == 1
    await executor.stop()


async def test_a_key_that_waits_is_not_queued_twice() -> None:
    steps = Steps()
    steps.gate.set()
    executor = FairExecutor(workers=1, take_step=steps.take, clock=LoopClock())
    for _ in range(3):
        executor.enqueue("s", ["a"])
    executor.start()
    await turn_over()
    assert steps.taken == [("s", "a")]
    await executor.stop()


async def test_offering_nothing_leaves_no_trace() -> None:
    steps = Steps()
    steps.gate.set()
    executor = FairExecutor(workers=1, take_step=steps.take, clock=LoopClock())
    executor.enqueue("empty", [])
    executor.enqueue("s", ["a"])
    executor.start()
    await turn_over()
    assert steps.taken == [("s", "a")]
    await executor.stop()


async def test_so_many_work_as_there_is_room_for_at_the_moment() -> None:
    steps, room = Steps(), 1
    executor = FairExecutor(workers=8, take_step=steps.take, clock=LoopClock(), find_room=lambda: room)
    executor.start()
    executor.enqueue("s", "abcdef")
    await turn_over()
    assert len(steps.taken) == executor.in_flight == 1
    room = 3
    executor.wake()
    await turn_over()
    assert len(steps.taken) == executor.in_flight == 3
    assert executor.count_queued() == 3
    room = 0
    steps.gate.set()
    await turn_over()
    assert (len(steps.taken), executor.in_flight) == (3, 0)
    room = 1
    executor.wake()
    await turn_over()
    assert [key for _, key in steps.taken] == list("abcdef")
    await executor.stop()


async def test_where_every_write_of_a_large_stack_hangs_others_find_a_place() -> None:
    steps = Steps()
    executor = FairExecutor(workers=16, take_step=steps.take, clock=LoopClock())
    executor.start()
    executor.enqueue("large", [str(number) for number in range(100)])
    await turn_over()
    await turn_over()
    assert Counter(stack for stack, _ in steps.taken) == {"large": 14}
    executor.enqueue("small", ["a", "b"])
    executor.enqueue("gone", ["c"])
    await turn_over()
    assert steps.taken[14:] == [("small", "a"), ("gone", "c")]
    await executor.stop()


async def test_stacks_take_turns_however_long_their_steps_take() -> None:
    steps = Steps()
    executor = FairExecutor(workers=5, take_step=steps.take, clock=LoopClock())
    for stack in "xyz":
        executor.enqueue(stack, ["1", "2", "3"])
    executor.start()
    await turn_over()
    assert [stack for stack, _ in steps.taken] == ["x", "y", "z", "x"]  # One place is left for a fourth Stack.
    steps.gate.set()
    await turn_over()
    assert len(steps.taken) == 9
    await executor.stop()


async def test_the_time_in_the_queue_is_reported() -> None:
    waited: list[float] = []
    steps, moments = Steps(), iter([0.0, 10.0, 11.0, 13.5, 14.0])

    class Clock(LoopClock):
        def monotonic(self) -> float:
            return next(moments)

    executor = FairExecutor(workers=1, take_step=steps.take, clock=Clock(), on_start=waited.append)
    executor.enqueue("s", ["a"])
    executor.enqueue("s", ["a"])
    executor.start()
    await turn_over()
    assert waited == [3.5]
    await executor.stop()


async def test_step_that_raises_ends_no_worker() -> None:
    taken: list[str] = []
    is_over = asyncio.Event()
    failed: list[tuple[str, str]] = []

    async def take(_stack_uid: str, key: str) -> None:
        if key.startswith("bad"):
            raise TypeError(key)
        if key == "last":
            is_over.set()
        else:
            taken.append(key)

    executor = FairExecutor(
        workers=2, take_step=take, clock=LoopClock(), on_error=lambda stack_uid, key: failed.append((stack_uid, key))
    )
    executor.start()
    executor.enqueue("shop", [f"bad{number}" for number in range(40)])
    executor.enqueue("shop", ["last"])
    executor.enqueue("canary", ["good"])
    await is_over.wait()
    await executor.stop()

    assert taken == ["good"]
    assert failed == [("shop", f"bad{number}") for number in range(40)]
    assert (executor.in_flight, executor.count_queued()) == (0, 0)


class ManualClock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def call_later(self, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        """Not used: the executor must not start timers."""
        raise AssertionError


async def test_queue_that_is_not_served_is_a_stall() -> None:
    clock, room = ManualClock(), [4]
    executor = FairExecutor(workers=4, take_step=Steps().take, clock=clock, find_room=lambda: room[0])
    executor.enqueue("shop", ["a"])
    clock.seconds = 60.0
    assert executor.find_stall() == ""
    clock.seconds = 61.0
    assert executor.find_stall() == "1 step tasks are queued, and none has started or ended for 61 s"
    room[0] = 0
    assert executor.find_stall() == ""


async def test_steps_that_hang_are_a_stall_once_each_request_must_have_ended() -> None:
    clock, steps = ManualClock(), Steps()
    executor = FairExecutor(workers=1, take_step=steps.take, clock=clock)
    executor.start()
    executor.enqueue("shop", ["a", "b"])
    await turn_over()
    clock.seconds = 170.0
    assert executor.find_stall() == ""
    clock.seconds = 181.0
    assert executor.find_stall() == "1 step tasks are queued, and none has started or ended for 181 s"
    steps.gate.set()
    await turn_over()
    assert executor.find_stall() == ""
    await executor.stop()


async def test_a_slow_step_beside_a_free_worker_is_no_stall() -> None:
    clock, steps = ManualClock(), Steps()
    executor = FairExecutor(workers=4, take_step=steps.take, clock=clock)
    executor.start()
    executor.enqueue("shop", ["a", "b", "c", "d"])
    await turn_over()
    clock.seconds = 10_000.0
    assert (executor.in_flight, executor.count_queued()) == (3, 1)
    assert executor.find_stall() == ""

    executor.enqueue("blog", ["a"])
    await turn_over()
    assert executor.in_flight == 4
    clock.seconds += 181.0
    assert executor.find_stall() == "1 step tasks are queued, and none has started or ended for 181 s"
    await executor.stop()


async def test_a_queue_with_a_free_worker_is_a_stall_also_beside_a_step_in_flight() -> None:
    clock, steps, room = ManualClock(), Steps(), [1]
    executor = FairExecutor(workers=4, take_step=steps.take, clock=clock, find_room=lambda: room[0])
    executor.start()
    executor.enqueue("shop", ["a"])
    executor.enqueue("blog", ["a"])
    await turn_over()
    clock.seconds = 61.0
    assert executor.find_stall() == ""
    room[0] = 4
    assert executor.find_stall() == "1 step tasks are queued, and none has started or ended for 61 s"
    await executor.stop()


def test_nothing_to_do_is_no_stall() -> None:
    clock = ManualClock()
    executor = FairExecutor(workers=4, take_step=Steps().take, clock=clock)
    clock.seconds = 10_000.0
    assert executor.find_stall() == ""


async def test_stacks_of_one_namespace_leave_places_to_another() -> None:
    steps = Steps()
    executor = FairExecutor(workers=4, take_step=steps.take, clock=LoopClock())
    executor.start()
    for number in range(50):
        executor.enqueue(f"many{number}", ["a"], namespace="many")
    await turn_over()
    await turn_over()
    assert len(steps.taken) == 3
    executor.enqueue("other", ["b"], namespace="other")
    await turn_over()
    assert steps.taken[3:] == [("other", "b")]
    await executor.stop()


# ---------------------------------------------------------------- a small and a large Stack on a busy server

LARGE = 280
"""Number of resources: their writes take the server longer than everything else here."""
SECONDS = 0.02
"""Server time per request. The server handles two requests at once, so a hundred per second."""
LATEST = 10.0
Story = Callable[["Site"], Awaitable[None]]


class Site:
    """Two users of one operator and one slow server."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.statuses: list[float] = []
        """Times when statuses of the large Stack were written."""
        self._numbers = itertools.count()

    async def start(self) -> None:
        """Run the operator and record its requests."""
        # The limit that the limiter reaches on such a server, according to its own tests.
        self.world.concurrency = MIN_LIMIT_BY_LATENCY
        await self.world.start_controller()
        self.world.controllers[0].wire.desk = Desk(places=2, seconds=SECONDS)
        self.world.traffic.listeners.append(
            lambda request: self.statuses.append(now()) if (request.verb, request.name) == ("status", "large") else None
        )

    async def create(self, name: str, size: int, *, is_chain: bool = False) -> Address:
        """A Stack of that many ConfigMaps; in a chain, each requires the previous one."""
        resources: Object = {}
        for number in range(size):
            resources[f"c{number}"] = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
            if is_chain and number:
                resources[f"c{number}"]["dependsOn"] = [f"c{number - 1}"]
        stack = stack_manifests.make_stack({"template": {"resources": resources}}, name=name)
        return Address.of(await self.world.user.create(stack))

    async def measure_life(self) -> tuple[float, float]:
        """The seconds that a Stack of four objects takes to become complete, and to be deleted."""
        begun = now()
        address = await self.create(f"small-{next(self._numbers)}", 4, is_chain=True)
        await self._wait(address, "CreateComplete")
        completed = now()
        await self.world.user.delete(address)
        await self._wait(address, None)
        return completed - begun, now() - completed

    async def is_rolling_out(self, address: Address) -> bool:
        """Whether the server still has work."""
        status = expectations.status_of(await self.world.user.find(address))
        return status.get("phase") != "CreateComplete"

    async def _wait(self, address: Address, phase: str | None) -> None:
        for _ in range(round(LATEST / 0.01)):
            found = await self.world.user.find(address)
            if (expectations.status_of(found).get("phase") if found is not None else None) == phase:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{address} is not {phase} after {LATEST} s")


def now() -> float:
    """Virtual seconds."""
    return asyncio.get_running_loop().time()


def play(story: Story) -> None:
    """Run a story at a site of its own."""

    async def begin(world: FakeWorld) -> None:
        site = Site(world)
        await site.start()
        await story(site)

    fake_world.run(begin)


def measure_alone() -> tuple[float, float]:
    """The life of a small Stack with nothing else to do."""
    found: list[tuple[float, float]] = []

    async def story(site: Site) -> None:
        found.append(await site.measure_life())

    play(story)
    return found[0]


def test_a_small_stack_waits_behind_few_requests_of_a_large_one() -> None:
    alone = measure_alone()

    async def story(site: Site) -> None:
        large = await site.create("large", LARGE)
        await asyncio.sleep(0.5)
        created, deleted = await site.measure_life()
        assert await site.is_rolling_out(large)
        # Six and seven requests, one after the other, each delayed by at most the requests in flight.
        assert created <= alone[0] + 6 * MIN_LIMIT_BY_LATENCY / 2 * SECONDS
        assert deleted <= alone[1] + 7 * MIN_LIMIT_BY_LATENCY / 2 * SECONDS
        await asyncio.sleep(LARGE * SECONDS)
        gaps = [later - sooner for sooner, later in itertools.pairwise(site.statuses)]
        assert max(gaps) < 1.5

    play(story)
