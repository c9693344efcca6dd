"""Progress of a wait: one line that is redrawn on a terminal, else a line for each change. Both on standard error."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator

import click

from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering.goals import GoalState, Verdict

ERASE_LINE = "\r\x1b[2K"


class ProgressOutput:
    """Shows each state that differs from the one before."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._began = time.monotonic()
        self.last = "nothing was observed yet"

    def show(self, stack: StackState | None, state: GoalState) -> None:  # noqa: ARG002 -- followers show more of it
        """Show how far the Stack is; the end is shown by the caller."""
        if state.verdict is Verdict.WAITING:
            self.report(state.message)

    def report(self, message: str) -> None:
        """Show the message, unless it is the last one."""
        message = safe_text.first_line(message)
        if message == self.last:
            return
        self.last = message
        line = f"{time.monotonic() - self._began:5.0f}s  {message}"
        if not self._is_terminal:
            click.echo(line, err=True)
            return
        sys.stderr.write(ERASE_LINE + line[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()

    def close(self) -> None:
        """Leave an empty line for what follows."""
        if self._is_terminal:
            sys.stderr.write(ERASE_LINE)
            sys.stderr.flush()


@contextlib.contextmanager
def opened() -> Iterator[ProgressOutput]:
    """Return the output that fits where it is shown."""
    output = ProgressOutput(is_terminal=sys.stderr.isatty())
    try:
        yield output
    finally:
        output.close()
