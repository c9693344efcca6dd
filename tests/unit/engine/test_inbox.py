"""Marks gather by Stack and are handed out once, oldest Stack first."""

from __future__ import annotations

import asyncio

from hearth.engine.work_queue import STACK, Inbox
from support.units.blueprints import CONFIG_MAP


def test_marks_of_one_stack_are_one_pass() -> None:
    """However many events there were; it counts from the first, and nobody asks for the time of the others."""
    inbox = Inbox(iter((5.0,)).__next__)
    inbox.on_child("s", "a")
    inbox.on_child("s", "b")
    inbox.on_stack("s")
    assert (inbox.take(), inbox.take()) == (("s", {"a", "b", STACK}, 5.0), None)


def test_the_stack_that_waits_longest_comes_first() -> None:
    """A Stack that is marked again keeps its place."""
    inbox = Inbox(iter((5.0, 6.0)).__next__)
    for uid in ("s", "t", "s"):
        inbox.on_child(uid, "a")
    assert [inbox.take(), inbox.take()] == [("s", {"a"}, 5.0), ("t", {"a"}, 6.0)]


async def test_a_mark_ends_the_wait() -> None:
    """And an empty inbox begins it anew."""
    inbox = Inbox()
    waiting = asyncio.create_task(inbox.wait_arrival())
    await asyncio.sleep(0)
    assert not waiting.done()
    inbox.on_stack("s")
    await waiting
    inbox.take()
    inbox.take()
    assert not asyncio.create_task(inbox.wait_arrival()).done()


async def test_a_broadcast_ends_the_wait_too() -> None:
    """It is taken once, and not lost by a look for marks before."""
    inbox = Inbox()
    inbox.on_synced(CONFIG_MAP)
    inbox.take()
    await inbox.wait_arrival()
    assert (inbox.take_broadcasts(), inbox.take_broadcasts()) == ({CONFIG_MAP}, set())
