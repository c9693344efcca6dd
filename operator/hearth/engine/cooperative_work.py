"""Long work that yields to the event loop between chunks. Must not know what the work is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hearth.template.chunked_work import ChunkedWork, Result

CHUNKS_PER_YIELD = 32
"""Chunks before the work yields, about ten milliseconds."""
SECONDS_IN_A_ROW = 0.02
"""The work yields after this time even if fewer chunks are done."""


async def share(pieces: ChunkedWork[Result], *, begin: Callable[[], None] = lambda: None) -> Result:
    """Run the work to its result and yield regularly. begin: called before each chunk."""
    done, begun = 0, time.perf_counter()
    while True:
        begin()
        try:
            next(pieces)
        except StopIteration as end:
            result: Result = end.value
            return result
        done += 1
        if done == CHUNKS_PER_YIELD or time.perf_counter() - begun > SECONDS_IN_A_ROW:
            await asyncio.sleep(0)
            done, begun = 0, time.perf_counter()
