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
    """The name of a file that can be written, which is told now rather than when a profile is lost. Raises ValueError."""
    try:
        Path(text).open("ab").close()
    except OSError as error:
        raise ValueError(f"cannot write {text}: {error.strerror}") from error
    return text


@contextlib.contextmanager
def profiled(file: str | None) -> Iterator[None]:
    """Whatever happens within is profiled into that file, which is written however it ends; None: nothing is."""
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
