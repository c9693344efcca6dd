"""Runs long work in chunks, and yields to the event loop between them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from hearth.model.chunked_work import ChunkedWork, Result

CHUNKS_PER_YIELD = 32
"""Chunks before the work yields."""
SECONDS_IN_A_ROW = 0.005
"""The work yields after this time even if fewer chunks are done."""


TakeTurn: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Waits for a turn among the work of all namespaces."""


async def finish(
    pieces: ChunkedWork[Result],
    *,
    begin: Callable[[], None] = lambda: None,
    take_turn: TakeTurn = contextlib.nullcontext,
) -> Result:
    """Run the work to its result and yield regularly. begin: called before each chunk; take_turn: waits for some in a row."""
    while True:
        async with take_turn():
            since = time.perf_counter()
            for _ in range(CHUNKS_PER_YIELD):
                begin()
                try:
                    next(pieces)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                if time.perf_counter() - since > SECONDS_IN_A_ROW:
                    break
            # Yield before the turn ends. Otherwise, no other work could ask for a turn while this work has it.
            await asyncio.sleep(0)
