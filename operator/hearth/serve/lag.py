"""How late the event loop is: the one figure that tells whether something blocks it. Knows only a loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

INTERVAL = 5.0
"""Seconds; often enough to see stalls between two scrapes. To be woken costs a process at rest a quarter of a millisecond:
once a second that was a third of all that it did."""


async def measure(report: Callable[[float], None], *, interval: float = INTERVAL) -> None:
    """Tell `report` again and again by how many seconds the loop woke us too late; ends when cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        asked = loop.time() + interval
        await asyncio.sleep(interval)
        report(max(0.0, loop.time() - asked))
