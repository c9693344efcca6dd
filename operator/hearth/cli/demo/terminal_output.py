"""Output of the demo: a terminal that is redrawn, or plain lines about changes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self

import rich.console
import rich.live
import rich.text

from hearth.cli.demo import tree_view
from hearth.cli.demo.stack_view import StackView


class DemoOutput(Protocol):
    """Output of the demo."""

    stays: bool
    """Whether the output is a terminal. The demo then continues after the Stack is ready."""

    def __enter__(self) -> Self:
        """Start the output."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and leave the last view visible."""

    def say(self, lines: Iterable[str]) -> None:
        """Print lines permanently."""

    def show(self, view: StackView, *, seconds: float) -> None:
        """Show the current view."""


class TerminalOutput:
    """Draws the tree in place, below the printed lines."""

    stays = True

    def __init__(self, console: rich.console.Console) -> None:
        self._console = console
        self._live = rich.live.Live(console=console, auto_refresh=False, vertical_overflow="visible")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, lines: Iterable[str]) -> None:
        """Print lines above the tree. Commands are not wrapped, so that they can be copied."""
        for line in lines:
            self._console.print(rich.text.Text(line), soft_wrap=True)

    def show(self, view: StackView, *, seconds: float) -> None:
        """Replace the previous view."""
        drawn = rich.text.Text("\n").join(
            rich.text.Text.assemble(*line) for line in tree_view.draw(view, seconds=seconds)
        )
        drawn.no_wrap, drawn.overflow = True, "ellipsis"
        self._live.update(drawn, refresh=True)


class LineOutput:
    """Prints a line for each change."""

    stays = False

    def __init__(self, console: rich.console.Console) -> None:
        self._console = console
        self._before: StackView | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to stop."""

    def say(self, lines: Iterable[str]) -> None:
        """Print the lines."""
        for line in lines:
            self._console.print(rich.text.Text(line), soft_wrap=True)

    def show(self, view: StackView, *, seconds: float) -> None:
        """Print the changes since the previous view, after the seconds."""
        self.say(f"{seconds:6.1f} s  {line}" for line in tree_view.describe_changes(self._before, view))
        self._before = view


@contextlib.contextmanager
def opened(console: rich.console.Console) -> Iterator[DemoOutput]:
    """Open the output that suits the console."""
    screen: DemoOutput = TerminalOutput(console) if console.is_terminal else LineOutput(console)
    with screen:
        yield screen
