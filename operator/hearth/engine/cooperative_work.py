"""Long work in the event loop, done in turns with whatever else waits there. Must not know what the work is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hearth.template.chunked_work import ChunkedWork, Result

CHUNKS_PER_YIELD = 32
"""Before others get a turn: some ten milliseconds."""
SECONDS_IN_A_ROW = 0.02
"""After which others get a turn earlier, where pieces take longer than usual."""


async def share(pieces: ChunkedWork[Result], *, begin: Callable[[], None] = lambda: None) -> Result:
    """The result of the work, done while others have their turns. begin: called before each piece."""
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
