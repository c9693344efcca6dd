"""Waits for a condition without sleeping: each change sends a pulse, and each pulse makes the waiting tasks check
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pulse:
    """The signal for everything that a test watches."""

    def __init__(self) -> None:
        self._beats: set[asyncio.Future[None]] = set()

    def beat(self) -> None:
        """Report a possible change."""
        for waiting in self._beats:
            if not waiting.done():
                waiting.set_result(None)

    async def until(self, condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
        """Wait until the condition holds; fails after that many seconds."""
        async with asyncio.timeout(seconds):
            while not condition():
                waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._beats.add(waiting)
                try:
                    await waiting
                finally:
                    self._beats.discard(waiting)
