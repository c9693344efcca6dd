"""Steps are taken in turn, a bounded number at a time, and none that is no longer wanted."""

from __future__ import annotations

import asyncio

from hearth.engine.executor import Executor


class Steps:
    """Records what was taken, and lets each step end when told."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        self.gate = asyncio.Event()

    async def take(self, stack_uid: str, key: str) -> None:
        """As the executor calls it."""
        self.taken.append((stack_uid, key))
        await self.gate.wait()


async def turn_over() -> None:
    """Let every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_than_the_workers_are_in_flight() -> None:
    """The rest follows as they come free."""
    steps = Steps()
    executor = Executor(workers=2, take_step=steps.take)
    executor.start()
    executor.offer("s", ["a", "b", "c"])
    await turn_over()
    assert len(steps.taken) == 2
    steps.gate.set()
    await turn_over()
    assert len(steps.taken) == 3
    await executor.stop()


async def test_a_large_stack_does_not_keep_a_small_one_waiting() -> None:
    """They take turns."""
    steps = Steps()
    steps.gate.set()
    executor = Executor(workers=1, take_step=steps.take)
    executor.offer("large", [str(number) for number in range(100)])
    executor.offer("small", ["x"])
    executor.start()
    await turn_over()
    assert steps.taken.index(("small", "x")) == 1
    await executor.stop()


async def test_a_key_that_waits_is_not_queued_twice() -> None:
    """Offering again changes nothing."""
    steps = Steps()
    steps.gate.set()
    executor = Executor(workers=1, take_step=steps.take)
    for _ in range(3):
        executor.offer("s", ["a"])
    executor.start()
    await turn_over()
    assert steps.taken == [("s", "a")]
    await executor.stop()


async def test_offering_nothing_leaves_no_trace() -> None:
    """A pass that planned nothing."""
    steps = Steps()
    steps.gate.set()
    executor = Executor(workers=1, take_step=steps.take)
    executor.offer("empty", [])
    executor.offer("s", ["a"])
    executor.start()
    await turn_over()
    assert steps.taken == [("s", "a")]
    await executor.stop()
