"""Profiles a run to a file for `python -m pstats FILE` or snakeviz.

It measures CPU time of the calling thread, so waiting does not count. Other threads (kopf, leader election, name
resolution) are not profiled.
"""

from __future__ import annotations

import contextlib
import cProfile
import time
from collections.abc import Iterator
from pathlib import Path


def claim(text: str) -> str:
    """Return the path if the file is writable. Checks at the start, so that no profile is lost. Raises ValueError."""
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
