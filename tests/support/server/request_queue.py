"""A fake API server that takes its time: so many requests at once, each for so long, the others in a line.

Must not know what a request is about.
"""

from __future__ import annotations

import asyncio
import heapq


class Desk:
    """Where the requests of all engines are served, in the order in which they came."""

    def __init__(self, *, places: int, seconds: float) -> None:
        """places: requests that are served at once; seconds: for each."""
        self._seconds = seconds
        self._free = [0.0] * places

    async def serve(self) -> None:
        """Returns once a request that comes now was served."""
        now = asyncio.get_running_loop().time()
        end = max(now, heapq.heappop(self._free)) + self._seconds
        heapq.heappush(self._free, end)
        await asyncio.sleep(end - now)
