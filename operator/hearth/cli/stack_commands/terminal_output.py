"""Live output of the demo and of `tree -w`: redrawn on a terminal, otherwise one line per change."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final

import rich.console
import rich.live
import rich.text

from hearth.cli.stack_views.tree import tree_view
from hearth.cli.stack_views.tree.stack_view import StackView

AGES_LAST: Final = 10.0
"""Seconds after which an unchanged view is redrawn, to update its ages."""


class ViewOutput(ABC):
    """Output of views as they change."""

    stays: bool
    """Whether the output is a terminal. The demo then continues after the Stack is ready."""

    def __init__(self, console: rich.console.Console) -> None:
        self._console = console

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines permanently. Commands are not wrapped, so that they can be copied."""
        for line in lines:
            self._console.print(rich.text.Text(line), soft_wrap=True)

    @abstractmethod
    def show(self, view: StackView, *, seconds: float, now: float | None = None) -> None:
        """Show the current view. now: seconds since the epoch, to show ages."""


class TerminalOutput(ViewOutput):
    """Draws the tree in place, below the printed lines."""

    stays = True

    def __init__(self, console: rich.console.Console, live: rich.live.Live) -> None:
        super().__init__(console)
        self._live = live
        self._shown: tuple[StackView, float, rich.console.ConsoleDimensions] | None = None

    def show(self, view: StackView, *, seconds: float, now: float | None = None) -> None:
        """Replace the previous view, if it differs or its ages are old."""
        before, size = self._shown, self._console.size
        if before is not None and before[0] == view and before[2] == size and seconds - before[1] < AGES_LAST:
            return
        self._shown = view, seconds, size
        lines = tree_view.draw(view, seconds=seconds, now=now, width=size.width, height=size.height)
        drawn = rich.text.Text("\n").join(rich.text.Text.assemble(*line) for line in lines)
        drawn.no_wrap, drawn.overflow = True, "ellipsis"
        self._live.update(drawn, refresh=True)


class LineOutput(ViewOutput):
    """Prints a line for each change."""

    stays = False
    _before: StackView | None = None

    def show(self, view: StackView, *, seconds: float, now: float | None = None) -> None:  # noqa: ARG002 -- lines show no age
        """Print the elapsed seconds and the changes since the previous view."""
        self.print_lines(f"{seconds:6.1f} s  {line}" for line in tree_view.describe_changes(self._before, view))
        self._before = view


@contextlib.contextmanager
def open_output(console: rich.console.Console) -> Iterator[ViewOutput]:
    """Open the output that suits the console; the last view stays visible."""
    if not console.is_terminal:
        yield LineOutput(console)
        return
    with rich.live.Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield TerminalOutput(console, live)
