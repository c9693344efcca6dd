"""Marks gather by Stack and are handed out once, oldest Stack first."""

from __future__ import annotations

import asyncio

from hearth.engine.work_queue import CacheSynced, DirtyScope, WorkQueue
from support.units.blueprints import CONFIG_MAP


def test_marks_of_one_stack_are_one_pass() -> None:
    """However many events there were; it counts from the first, and nobody asks for the time of the others."""
    inbox = WorkQueue(iter((5.0,)).__next__)
    inbox.on_child("s", "a")
    inbox.on_child("s", "b")
    inbox.on_stack("s")
    assert (inbox.get(), inbox.get()) == (("s", {"a", "b", DirtyScope.STACK}, 5.0), None)


def test_the_stack_that_waits_longest_comes_first() -> None:
    """A Stack that is marked again keeps its place."""
    inbox = WorkQueue(iter((5.0, 6.0)).__next__)
    for uid in ("s", "t", "s"):
        inbox.on_child(uid, "a")
    assert [inbox.get(), inbox.get()] == [("s", {"a"}, 5.0), ("t", {"a"}, 6.0)]


async def test_a_mark_ends_the_wait() -> None:
    """And an empty inbox begins it anew."""
    inbox = WorkQueue()
    waiting = asyncio.create_task(inbox.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    inbox.on_stack("s")
    await waiting
    inbox.get()
    inbox.get()
    assert not asyncio.create_task(inbox.wait()).done()


async def test_a_broadcast_ends_the_wait_too() -> None:
    """It is taken once, and not lost by a look for marks before."""
    inbox = WorkQueue()
    inbox.on_synced(CONFIG_MAP)
    inbox.get()
    await inbox.wait()
    assert (inbox.take_broadcasts(), inbox.take_broadcasts()) == ({CacheSynced(CONFIG_MAP)}, set())
