"""When free memory is returned to the system, and the delay of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path

import pytest

from hearth.serve import process_upkeep
from hearth.serve.process_upkeep import IDLE, LOOKS, WORTH, HeapTrimmer


class Process:
    """A process with a CPU time that the test sets; records when its heap was trimmed."""

    def __init__(self, *, can_trim: bool = True) -> None:
        """Begin without any CPU time."""
        self.cpu = 0.0
        self.trims: list[float] = []
        trim = (lambda: self.trims.append(self.cpu)) if can_trim else None
        self.trimmer = HeapTrimmer(trim, measure_cpu=lambda: self.cpu)

    def use(self, *seconds: float) -> None:
        """Use that much CPU before each check."""
        for each in seconds:
            self.cpu += each
            self.trimmer.look()


def test_the_heap_is_trimmed_once_after_each_burst() -> None:
    process = Process()
    process.use(WORTH, *[0.0] * LOOKS)
    assert process.trims == [WORTH]
    process.use(*[0.0] * 20)
    assert process.trims == [WORTH]
    process.use(2 * WORTH, *[0.0] * 20)
    assert process.trims == [WORTH, 3 * WORTH]


def test_a_busy_process_is_not_trimmed() -> None:
    process = Process()
    process.use(*[WORTH, 0.0] * 10)
    assert LOOKS > 1
    assert process.trims == []


def test_a_process_that_does_little_is_trimmed_seldom() -> None:
    process = Process()
    looks = 100
    process.use(*[IDLE * 0.99] * looks)
    assert 0 < len(process.trims) <= looks * IDLE / WORTH


def test_another_allocator_is_left_alone() -> None:
    process = Process(can_trim=False)
    process.use(WORTH, *[0.0] * LOOKS)
    assert process.trims == []


@pytest.mark.skipif(
    sys.platform != "linux" or process_upkeep.find_trim() is None, reason="another C library than glibc"
)
def test_free_memory_goes_back_to_the_system() -> None:
    trim = process_upkeep.find_trim()
    assert trim is not None
    blocks = [bytearray(2000) for _ in range(20_000)]
    kept = blocks[::100]
    del blocks
    before = read_resident_pages()
    trim()
    assert read_resident_pages() < before - 5_000
    assert len(kept) == 200


def read_resident_pages() -> int:
    """Read how many pages of memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1])


# The delay of the event loop.


STALL = 0.05


async def test_a_loop_that_is_blocked_comes_late() -> None:
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
    lags = asyncio.Queue[float]()
    task = asyncio.create_task(process_upkeep.measure_lag(lags.put_nowait, interval=0.0))

    assert all([await asyncio.wait_for(lags.get(), 5) >= 0.0 for _ in range(20)])
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def test_loop_that_is_late_again_and_again_is_reported() -> None:
    lateness = process_upkeep.Lateness()
    found = []
    for seconds in (3600.0, 6.0, 0.1, 6.0, 6.0, 6.0, 0.1):
        lateness.note(seconds)
        found.append(lateness.find_trouble())

    assert found == [[], [], [], [], [], ["the event loop was more than 5 s late 3 times in a row"], []]
