"""Schedules reads of the served kinds and their schemas.

Concurrent callers share one read, reads have a minimum interval, and no change is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from hearth import answers, supervision

log = structlog.get_logger(__name__)

LATE_KINDS = 2.0
"""Seconds after which the kinds are read once more, because the API server's list of kinds lags behind their
CustomResourceDefinitions."""
SCHEMA_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Seconds before each search for schemas. A schema is published after about a second, or later by a busy server. Until
then, the server returns no schema, or that of a former kind with the same name, so the search continues even after a
schema is found."""


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
            # The run was cancelled before it began, so the next caller starts another one.
            if self._next is asyncio.current_task():
                self._next = None


class KindRefresh:
    """Reads the served kinds again after each change of a CustomResourceDefinition, and once more after a pause.

    A change that arrives during a read may be missing from the response, so it causes another read.
    """

    def __init__(self, refresh: Callable[[], Awaitable[None]], *, where: str) -> None:
        """Read nothing before the first change. refresh: reads the kinds; where: whose work it is, for reports."""
        self._read = refresh
        self._where = where
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def on_change(self) -> None:
        """Read again; call it in the event loop."""
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = supervision.spawn(self._where, self._run, name="refresh kinds")

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        is_last = False
        while True:
            self._changed.clear()
            if error := await answers.find_error(self._read()):
                log.warning("discovery failed", error=str(error))
            if self._changed.is_set():
                is_last = False
            elif is_last:
                return
            else:
                is_last = True
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LATE_KINDS):
                        await self._changed.wait()
                        is_last = False


class LateSchemas:
    """One series of searches for schemas that are published late, which each change of the kinds starts again."""

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
        # If a search reports a change, it starts the next series, and must not cancel itself.
        if self._running is not None and self._running is not asyncio.current_task():
            self._running.cancel()

    async def _run(self) -> None:
        for delay in SCHEMA_DELAYS:
            await asyncio.sleep(delay)
            await self._search()
            if self._running is not asyncio.current_task():
                return
