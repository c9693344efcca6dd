"""Time that passes only when nothing is left to do."""

from __future__ import annotations

import asyncio
import contextvars
import time

import pytest

from support import virtual_time


def test_an_hour_takes_no_time() -> None:
    async def test() -> float:
        clock = virtual_time.VirtualClock()
        begun = clock.now()
        await asyncio.gather(asyncio.sleep(1800), asyncio.sleep(3600))
        return clock.now() - begun

    begun = time.perf_counter()
    assert (virtual_time.run(test), time.perf_counter() - begun < 1) == (3600, True)


def test_timers_fire_in_order() -> None:
    async def test() -> list[tuple[str, float]]:
        clock, fired = virtual_time.VirtualClock(), list[tuple[str, float]]()
        clock.call_later(2, lambda: fired.append(("second", clock.monotonic())))
        clock.call_later(1, lambda: fired.append(("first", clock.monotonic())))
        clock.call_later(3, lambda: fired.append(("never", clock.monotonic())))()
        await asyncio.sleep(10)
        return fired

    assert virtual_time.run(test) == [("first", 1), ("second", 2)]


def test_a_stopped_clock_fires_nothing() -> None:
    async def test() -> list[str]:
        clock, fired = virtual_time.VirtualClock(), list[str]()
        clock.call_later(1, lambda: fired.append("late"))
        clock.stop()
        await asyncio.sleep(10)
        return fired

    assert virtual_time.run(test) == []


def test_waiting_for_no_listener_is_notified() -> None:
    async def test() -> None:
        await asyncio.Event().wait()

    with pytest.raises(virtual_time.NothingLeft):
        virtual_time.run(test)


def test_an_endless_repetition_is_noticed() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(virtual_time.TimeStandsStill):
        virtual_time.run(test)


def test_threads_are_not_waited_for() -> None:
    async def test() -> tuple[int, str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, lambda: 42)
        try:
            await loop.run_in_executor(None, lambda: 1 // 0)
        except ZeroDivisionError as error:
            return found, str(error)
        return found, ""

    assert virtual_time.run(test) == (42, "integer division or modulo by zero")


def test_tasks_know_their_owner() -> None:
    async def test() -> tuple[int, int]:
        owned: set[asyncio.Task[None]] = set()
        context = contextvars.copy_context()
        context.run(virtual_time.OWNER.set, owned)

        async def parent() -> None:
            child = asyncio.ensure_future(asyncio.sleep(100))
            await child

        loop = asyncio.get_running_loop()
        mine = loop.create_task(parent(), context=context)
        other = loop.create_task(asyncio.sleep(100))
        await asyncio.sleep(1)
        found = len(owned)
        for task in (mine, other, *owned):
            task.cancel()
        await asyncio.sleep(1)
        return found, len(owned)

    assert virtual_time.run(test) == (2, 0)
