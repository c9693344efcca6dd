"""Lag of the event loop, which shows blocking code. Must not know more than the loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

INTERVAL = 5.0
"""Seconds; often enough to see stalls between two scrapes. To be woken costs a process at rest a quarter of a millisecond:
once a second that was a third of all that it did."""


TOO_LATE = 5.0
"""Seconds; renewals of the lease and answers to probes have little more."""
TIMES = 3
"""In a row: a machine that was suspended for an hour is late once."""


class Lateness:
    """Detector of an event loop that is late repeatedly."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def note(self, seconds: float) -> None:
        """Record one lag."""
        self._in_a_row = self._in_a_row + 1 if seconds > TOO_LATE else 0

    def find_trouble(self) -> list[str]:
        """Return a sentence if the loop is late repeatedly, else nothing."""
        if self._in_a_row < TIMES:
            return []
        return [f"the event loop was more than {TOO_LATE:.0f} s late {self._in_a_row} times in a row"]


async def measure(report: Callable[[float], None], *, interval: float = INTERVAL) -> None:
    """Report periodically by how many seconds the loop is late, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        report(max(0.0, loop.time() - due))
