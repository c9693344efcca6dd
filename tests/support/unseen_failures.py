"""Fails a test if a task or a future failed during it and no code retrieved the exception.

asyncio reports it when it collects the garbage, so the reported test may be a later one of the same process; the
message names the task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from hearth import supervision

UNSEEN = "never retrieved"
"""Part of asyncio's message about an exception that was not retrieved."""


class Collector(logging.Handler):
    """Collects the reports of asyncio's exception handler."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, with its exception."""
        message = record.getMessage()
        if UNSEEN in message:
            error = record.exc_info[1] if record.exc_info else None
            self.found.append(f"{message}: {error!r}")

    def take(self) -> list[str]:
        """The reports since the last call."""
        found, self.found = self.found, []
        return found


COLLECTOR = Collector()


def pytest_configure() -> None:
    logging.getLogger(asyncio.__name__).addHandler(COLLECTOR)


@pytest.fixture(autouse=True)
def no_unseen_failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail the test after unseen failures, whether or not the loop has the operator's own handler."""
    handle = supervision.handle_loop_error

    def see(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        if UNSEEN in str(context.get("message", "")):
            COLLECTOR.found.append(f"{context['message']}: {context.get('exception')!r}")
        handle(loop, context)

    monkeypatch.setattr(supervision, "handle_loop_error", see)
    yield
    assert COLLECTOR.take() == []
