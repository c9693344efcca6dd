"""A burst of new Stacks starts in portions, namespaces take turns, and nothing that hangs keeps the others waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from hearth.engine.stack.loaded_stacks import (
    COUNTED_STEPS,
    FIRST_ASSUMPTION,
    START_LASTS,
    STEPS_PER_WRITE,
    StartLimiter,
)
from hearth.engine.work_queue import DirtyScope, WorkQueue
from support import virtual_time
from support.virtual_time import VirtualClock


def make(in_line: Collection[str] = ()) -> tuple[StartLimiter, WorkQueue]:
    """A limiter of two starts at once, as long as their steps are not planned, and the queue that it fills.

    in_line: the Stacks that wait for their turn.
    """
    queue = WorkQueue()
    assert STEPS_PER_WRITE == 2 * FIRST_ASSUMPTION
    limiter = StartLimiter(concurrency=1, queue=queue, clock=VirtualClock(), is_in_line=lambda uid: uid in in_line)
    return limiter, queue


def start(limiter: StartLimiter, uid: str, namespace: str = "one") -> bool:
    """As the controller does with a Stack that has no reconciler."""
    is_admitted = limiter.admit(uid, namespace)
    if is_admitted:
        limiter.begin(uid)
    return is_admitted


def take(queue: WorkQueue) -> list[str]:
    """The Stacks that were enqueued."""
    uids = []
    while (taken := queue.get()) is not None:
        assert taken[1] == {DirtyScope.ALL_RESOURCES}
        uids.append(taken[0])
    return uids


def test_a_stack_starts_when_another_has_started() -> None:
    """However often it asks meanwhile."""

    async def run() -> None:
        limiter, queue = make()
        assert [start(limiter, uid) for uid in ("a", "b", "c", "d", "c")] == [True, True, False, False, False]
        assert take(queue) == []
        limiter.finish("a")
        limiter.finish("a")
        assert take(queue) == ["c"]
        assert start(limiter, "c")
        assert not start(limiter, "e")

    virtual_time.run(run)


def test_namespaces_take_turns() -> None:
    """The first Stack of a namespace does not wait for a thousand of another one."""

    async def run() -> None:
        limiter, queue = make()
        order = [(f"flood-{number}", "one") for number in range(1000)] + [("alone", "two"), ("second", "two")]
        for uid, namespace in order:
            start(limiter, uid, namespace)
        for number in range(3):
            limiter.finish(f"flood-{number}")
        assert take(queue) == ["flood-2", "alone", "flood-3"]

    virtual_time.run(run)


def test_a_start_that_hangs_ends() -> None:
    """Its time runs from its first reconcile: the queue before it may be long."""

    async def run() -> None:
        limiter, queue = make()
        for uid in ("a", "b", "c", "d", "e"):
            start(limiter, uid)
        await asyncio.sleep(START_LASTS * 1.01)
        assert take(queue) == ["c", "d"]
        await asyncio.sleep(START_LASTS * 3)
        assert (take(queue), start(limiter, "c")) == ([], True)
        await asyncio.sleep(START_LASTS * 1.01)
        assert take(queue) == ["e"]

    virtual_time.run(run)


def test_a_start_that_waits_in_line_does_not_end() -> None:
    """To let others start would only make the line longer, and take memory."""

    async def run() -> None:
        in_line = {"a", "b"}
        limiter, queue = make(in_line)
        for uid in ("a", "b", "c"):
            start(limiter, uid)
        await asyncio.sleep(START_LASTS * 9.5)
        assert take(queue) == []
        in_line.discard("a")
        await asyncio.sleep(START_LASTS)
        assert take(queue) == ["c"]

    virtual_time.run(run)


def test_a_start_ends_with_the_steps_that_it_counts_for() -> None:
    """The other steps of a large Stack may wait for long, in turn with those of the others."""

    async def run() -> None:
        limiter, queue = make()
        for uid in ("a", "b", "c", "d", "e"):
            start(limiter, uid)
        limiter.weigh("a", 2)
        limiter.weigh("b", 5000)
        for _ in range(2):
            assert take(queue) == []
            limiter.take_step("a")
        for _ in range(COUNTED_STEPS):
            assert take(queue) == []
            limiter.take_step("b")
        assert take(queue) == ["c"]
        limiter.take_step("unknown")

    virtual_time.run(run)


def test_small_stacks_start_in_larger_numbers() -> None:
    """What counts is the number of their steps; a large Stack counts for a limited number."""

    async def run() -> None:
        limiter, queue = make()
        for number in range(12):
            start(limiter, str(number))
        limiter.weigh("0", 1)
        limiter.weigh("1", 1)
        assert take(queue) == ["2"]
        limiter.weigh("2", 5000)
        limiter.finish("0")
        limiter.finish("1")
        assert take(queue) == []
        limiter.finish("2")
        assert take(queue) == ["3"]

    virtual_time.run(run)


def test_stacks_are_expected_to_be_like_those_before() -> None:
    """Of Stacks with one step each, as many start as there is room for steps."""

    async def run() -> None:
        limiter, queue = make()
        for number in range(200):
            start(limiter, str(number))
        started = ["0", "1"]
        for number in range(100):
            limiter.weigh(started[number], 1)
            limiter.finish(started[number])
            started += take(queue)
        assert len(started) - 100 == STEPS_PER_WRITE - 1

    virtual_time.run(run)
