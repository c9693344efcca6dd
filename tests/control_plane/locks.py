"""Locks between processes, as files: they vanish with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def only_one(path: Path, *, when_waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock at `path` exclusively; `when_waiting` is called if another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if not _take(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
            when_waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Attendance:
    """Counts the concurrent users of a shared resource. The last one to leave is notified."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a")

    def enter(self) -> None:
        """Count as a user from now on."""
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """Stop counting as a user; True if no other user is left.

                No other process may enter between this result and the reaction to it, so hold the lock of the thing
        around both.
        """
        is_last = _take(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file.close()
        return is_last


def _take(file: IO[str], operation: int) -> bool:
    try:
        fcntl.flock(file, operation)
    except BlockingIOError:
        return False
    return True
