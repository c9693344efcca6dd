"""Repeated searches for schemas, which the API server publishes some time after their kinds are added or changed.

Must not know how a schema is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from hearth import supervision

DELAYS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each search. A schema is published after about a second, by a busy server later. Until then the server
shows none, or that of a former kind of the same name, so a schema that is found does not end the search.
"""


class LateSchemas:
    """One series of searches, which each change of the kinds starts again."""

    def __init__(self, search: Callable[[], Awaitable[None]]) -> None:
        self._search = search
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Search after each of the delays from now on."""
        self._cancel()
        self._running = supervision.spawn("discovery", self._run, name="search for schemas")

    async def close(self) -> None:
        """Stop the searches."""
        self._cancel()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)

    def _cancel(self) -> None:
        # A search that reports a change starts the next series. It must not cancel itself.
        if self._running is not None and self._running is not asyncio.current_task():
            self._running.cancel()

    async def _run(self) -> None:
        for delay in DELAYS:
            await asyncio.sleep(delay)
            await self._search()
            if self._running is not asyncio.current_task():
                return
