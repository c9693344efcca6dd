"""Marks are collected per Stack and handed out once, oldest Stack first. A task is not started while it runs."""

from __future__ import annotations

import asyncio

from hearth.engine.named_tasks import NamedTasks
from hearth.engine.work_queue import CacheSynced, DirtyScope, WorkQueue
from support.units.blueprints import CONFIG_MAP


def test_marks_of_one_stack_are_one_pass() -> None:
    queue = WorkQueue(iter((5.0,)).__next__)
    queue.on_child("s", "a")
    queue.on_child("s", "b")
    queue.on_stack("s")
    assert (queue.get(), queue.get()) == (("s", {"a", "b", DirtyScope.STACK}, 5.0), None)


def test_the_stack_that_waits_longest_comes_first() -> None:
    queue = WorkQueue(iter((5.0, 6.0)).__next__)
    for uid in ("s", "t", "s"):
        queue.on_child(uid, "a")
    assert [queue.get(), queue.get()] == [("s", {"a"}, 5.0), ("t", {"a"}, 6.0)]


async def test_a_mark_ends_the_wait() -> None:
    queue = WorkQueue()
    waiting = asyncio.create_task(queue.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.on_stack("s")
    await waiting
    queue.get()
    queue.get()
    assert not asyncio.create_task(queue.wait()).done()


async def test_a_broadcast_ends_the_wait_too() -> None:
    queue = WorkQueue()
    queue.on_synced(CONFIG_MAP)
    queue.get()
    await queue.wait()
    assert (queue.take_broadcasts(), queue.take_broadcasts()) == ({CacheSynced(CONFIG_MAP)}, set())


def test_namespaces_take_turns() -> None:
    queue = WorkQueue(lambda: 0.0)
    queue.share_turns(lambda uid: uid[0])
    for number in range(1000):
        queue.on_stack(f"a{number}")
    queue.on_stack("b0")
    taken = [queue.get() for _ in range(3)]
    assert [each[0] for each in taken if each is not None] == ["a0", "b0", "a1"]


# ---------------------------------------------------------------- tasks of one owner


async def test_what_is_requested_after_the_end_is_done_even_before_the_end_is_reported() -> None:
    begun: list[int] = []

    async def act() -> None:
        begun.append(len(begun))
        # It runs after this action has ended, but before the end is reported.
        if len(begun) == 1:
            asyncio.get_running_loop().call_soon(tasks.run, "act", act)

    tasks = NamedTasks(lambda name, error: None)
    tasks.run("act", act)
    for _ in range(5):
        await asyncio.sleep(0)

    assert begun == [0, 1]


async def test_what_runs_already_is_not_begun_again() -> None:
    begun: list[int] = []

    async def act() -> None:
        begun.append(len(begun))
        await asyncio.sleep(0)

    tasks = NamedTasks(lambda name, error: None)
    tasks.run("act", act)
    tasks.run("act", act)
    for _ in range(5):
        await asyncio.sleep(0)
    tasks.run("act", act)
    await asyncio.sleep(0)

    assert begun == [0, 1]
