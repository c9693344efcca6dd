"""Where a demonstration is shown: a terminal that is redrawn, or plain lines about what changed."""

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
    """Output of the demonstration."""

    stays: bool
    """Whether the output is a terminal. The demonstration then continues after the Stack is ready."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave what was shown last."""

    def say(self, lines: Iterable[str]) -> None:
        """Lines that stay."""

    def show(self, view: StackView, *, seconds: float) -> None:
        """The Stack as it is now."""


class TerminalOutput:
    """Draws the tree in place, below what was said."""

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
        """Above the tree. A command is never broken: it must come off the screen in one piece."""
        for line in lines:
            self._console.print(rich.text.Text(line), soft_wrap=True)

    def show(self, view: StackView, *, seconds: float) -> None:
        """In place of what was drawn before."""
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
        """Nothing to tidy up."""

    def say(self, lines: Iterable[str]) -> None:
        """As they are."""
        for line in lines:
            self._console.print(rich.text.Text(line), soft_wrap=True)

    def show(self, view: StackView, *, seconds: float) -> None:
        """What changed, with the seconds in front."""
        self.say(f"{seconds:6.1f} s  {line}" for line in tree_view.describe_changes(self._before, view))
        self._before = view


@contextlib.contextmanager
def opened(console: rich.console.Console) -> Iterator[DemoOutput]:
    """The screen that fits where the console writes to."""
    screen: DemoOutput = TerminalOutput(console) if console.is_terminal else LineOutput(console)
    with screen:
        yield screen
