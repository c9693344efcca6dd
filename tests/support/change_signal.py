"""Waiting for a condition without sleeping: anyone who changes something beats, anyone who waits looks again at each beat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pulse:
    """One heart for all that a test watches."""

    def __init__(self) -> None:
        self._beats: set[asyncio.Future[None]] = set()

    def beat(self) -> None:
        """Something changed, perhaps."""
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
