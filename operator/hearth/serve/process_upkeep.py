"""Periodic checks of the process: the lag of its event loop, and unused memory.

A lag indicates blocking code. glibc's allocator keeps memory that Python frees, so the process returns that memory to
the system after each burst of work.
"""

from __future__ import annotations

import asyncio
import ctypes
import time
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)

INTERVAL = 5.0
"""Seconds between two checks; often enough to see stalls between two scrapes. Each wakeup costs an idle process a
quarter of a millisecond. At one per second, wakeups were a third of its CPU time."""
TOO_LATE = 5.0
"""Seconds of delay that count as a stall; renewals of the lease and probes allow little more."""
TIMES = 3
"""Number of consecutive stalls before a report. A machine that was suspended for an hour is late only once."""
WORTH = 1.0
"""Seconds of CPU after which free memory may have accumulated. A trim takes a quarter of a millisecond per MiB that it
returns, and using the pages again takes as long."""
IDLE = 0.1
"""Maximum seconds of CPU between two checks, five seconds apart, of an idle process."""
LOOKS = 2
"""Consecutive idle checks before the process returns memory."""


class Lateness:
    """Detector of an event loop that is late repeatedly."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def note(self, seconds: float) -> None:
        """Record one lag."""
        self._in_a_row = self._in_a_row + 1 if seconds > TOO_LATE else 0

    def find_trouble(self) -> list[str]:
        """Return a sentence if the loop is late repeatedly, otherwise nothing."""
        if self._in_a_row < TIMES:
            return []
        return [f"the event loop was more than {TOO_LATE:.0f} s late {self._in_a_row} times in a row"]


async def measure_lag(report: Callable[[float], None], *, interval: float = INTERVAL) -> None:
    """Report periodically by how many seconds the loop is late, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        report(max(0.0, loop.time() - due))


class HeapTrimmer:
    """Trims the heap once after each burst of work, when the process is idle."""

    def __init__(
        self,
        trim: Callable[[], object] | None = None,
        *,
        measure_cpu: Callable[[], float] = time.process_time,
        idle: float = IDLE,
    ) -> None:
        """trim: returns the free memory; None where the allocator cannot. measure_cpu: seconds of CPU so far; idle: maximum
        seconds of CPU between two checks of an idle process.
        """
        self._trim = trim
        self._measure_cpu = measure_cpu
        self._idle = idle
        self._last_look = measure_cpu()
        self._last_trim = 0.0
        """Seconds of CPU at the last trim. The first trim returns memory left from the start."""
        self._looks_at_rest = 0

    def look(self) -> None:
        """Trim the heap if the process has just become idle. Call it every few seconds."""
        used, before = self._measure_cpu(), self._last_look
        self._last_look = used
        self._looks_at_rest = self._looks_at_rest + 1 if used - before <= self._idle else 0
        if self._trim is None or self._looks_at_rest < LOOKS or used - self._last_trim < WORTH:
            return
        self._trim()
        self._last_trim = self._measure_cpu()
        log.debug("returned free memory", cpu_seconds=round(self._last_trim - used, 4))


def find_trim() -> Callable[[], object] | None:
    """Return the function of glibc that returns free memory to the system; None with another C library."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    return lambda: trim(0)
