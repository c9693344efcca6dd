"""Restores the logging configuration of the process after a test, so that later tests do not see its changes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import structlog

from hearth.serve import logs


@contextlib.contextmanager
def restored_logging() -> Iterator[None]:
    """Restore the process's logging configuration."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in logs.LIBRARY_LEVELS}
    try:
        yield
    finally:
        structlog.reset_defaults()
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, number in levels.items():
            logging.getLogger(name).setLevel(number)
