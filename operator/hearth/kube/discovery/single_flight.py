"""One call for many callers: concurrent callers share one run, and runs have a minimum interval.

Must not know what is run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hearth import supervision


class SingleFlight:
    """A coroutine function whose callers share runs.

    A caller never gets a run that began before its call. Runs begin at least `interval` seconds apart, one at a time.
    """

    def __init__(self, run: Callable[[], Awaitable[None]], *, interval: float) -> None:
        self._run = run
        self._interval = interval
        self._next: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self._running = asyncio.Lock()

    async def __call__(self) -> None:
        """Wait for a run that begins after this call, and share its result, including an error."""
        if self._next is None:
            self._next = supervision.start(self._wait_and_run(), name="shared run")
            # A run without remaining callers must not warn about an error that was never retrieved.
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._next)

    async def _wait_and_run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with self._running:
                await asyncio.sleep(self._not_before - loop.time())
                self._next = None
                self._not_before = loop.time() + self._interval
                await self._run()
        finally:
            # The run was cancelled before it began: the next caller starts another one.
            if self._next is asyncio.current_task():
                self._next = None
