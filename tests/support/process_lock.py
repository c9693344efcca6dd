"""File locks between the processes of one test run.

A lock disappears with the process that holds it, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

FOLDER = Path(tempfile.gettempdir())
KINDS = "kinds"
"""The lock of tests that create kinds shared by stories, or need those kinds to be missing."""
DEFINERS = "definers"
"""The lock of operators that serve StackDefinitions. These are cluster-scoped, and two operators would conflict."""
RECORDINGS = "recordings"
"""The lock of the namespace for recordings."""


@contextlib.contextmanager
def held(name: str, *, is_shared: bool = False) -> Iterator[None]:
    """Wait for a lock, and hold it exclusively or shared."""
    with (FOLDER / f"hearth-tests-{name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
        yield


@contextlib.asynccontextmanager
async def held_meanwhile(name: str) -> AsyncIterator[None]:
    """Hold an exclusive lock; waiting for it does not block the event loop."""
    with contextlib.ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, held(name))
        yield
