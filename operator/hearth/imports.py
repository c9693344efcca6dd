"""Cheap imports of large packages: skip optional dependencies and pause the garbage collector."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hide_package(name: str) -> Iterator[None]:
    """Within, the top-level package with that name counts as not installed, unless it is loaded already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # Python's own way to say that a module is not to be had
    try:
        yield
    finally:
        del sys.modules[name]


@contextlib.contextmanager
def freeze_garbage_collector() -> Iterator[None]:
    """Import without garbage collection, and exempt all imported objects from later collections.

    Saves a tenth of the import, and afterwards some ten milliseconds of each full collection, which blocks everything.
    The one collection takes 40 milliseconds and frees a MiB: a dataclass with slots replaces its first class, which is
    garbage.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
