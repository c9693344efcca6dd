"""How late the event loop is."""

from __future__ import annotations

import asyncio
import contextlib
import time

from hearth.serve import process_upkeep

STALL = 0.05


async def test_a_loop_that_is_blocked_comes_late() -> None:
    """By as much as it was blocked, less the interval asked for."""
    lags = asyncio.Queue[float]()
    task = asyncio.create_task(process_upkeep.measure_lag(lags.put_nowait, interval=0.001))
    await asyncio.sleep(0)

    blocked_until = time.monotonic() + STALL
    while time.monotonic() < blocked_until:
        pass

    assert await asyncio.wait_for(lags.get(), 5) >= STALL - 0.002
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_loop_is_never_early() -> None:
    """Clocks round; a histogram does not take less than nothing."""
    lags = asyncio.Queue[float]()
    task = asyncio.create_task(process_upkeep.measure_lag(lags.put_nowait, interval=0.0))

    assert all([await asyncio.wait_for(lags.get(), 5) >= 0.0 for _ in range(20)])
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def test_loop_that_is_late_again_and_again_is_reported() -> None:
    """Once or twice may be a machine that was suspended."""
    lateness = process_upkeep.Lateness()
    found = []
    for seconds in (3600.0, 6.0, 0.1, 6.0, 6.0, 6.0, 0.1):
        lateness.note(seconds)
        found.append(lateness.find_trouble())

    assert found == [[], [], [], [], [], ["the event loop was more than 5 s late 3 times in a row"], []]
