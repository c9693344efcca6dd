"""Waits for other tasks or threads of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE = 10.0
"""Seconds on a busy machine for actions that take milliseconds."""
POLL = 0.002


async def wait_until(check: Callable[[], bool]) -> None:
    """Wait until `check` holds; raise `TimeoutError` if it never does."""
    async with asyncio.timeout(PATIENCE):
        while not check():  # noqa: ASYNC110 -- any condition, so there is no event
            await asyncio.sleep(POLL)


async def wait_for_tasks() -> None:
    """Wait until every other task of the loop has ended; raise `ValueError` if there are no others."""
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=PATIENCE)
