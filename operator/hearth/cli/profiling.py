"""A profile of a run, in the form of Python's own profiler: `python -m pstats FILE` reads it, and so does snakeviz.

Counts the CPU of the thread that it is begun in, so that waiting counts as nothing; other threads (kopf's, the
election's, name resolution) are not seen. Must not know what is profiled.
"""

from __future__ import annotations

import contextlib
import cProfile
import time
from collections.abc import Iterator
from pathlib import Path


def claim(text: str) -> str:
    """Check at the start that the file is writable, before a profile could be lost. Raises ValueError."""
    try:
        Path(text).open("ab").close()
    except OSError as error:
        raise ValueError(f"cannot write {text}: {error.strerror}") from error
    return text


@contextlib.contextmanager
def profiled(file: str | None) -> Iterator[None]:
    """Profile the block into that file, even if it raises. None: no profile."""
    if file is None:
        yield
        return
    profile = cProfile.Profile(time.thread_time)
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(file)
