"""What the person in front of the screen sees: one line per step, with its seconds while it runs; and what stands in the way.

On a terminal the seconds count in place; elsewhere a line says what begins and one what it took.
All goes to standard error, so that the output of a command stays its answer.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

Tick = Callable[[], None]


class Impossible(Exception):
    """The person at the keyboard has to act; the text says what stands in the way on this machine, where, and the next step."""


def say(sentence: str) -> None:
    """Print one line."""
    print(sentence, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(title: str) -> Iterator[Tick]:
    """Show that `title` runs, and what it took; the caller calls the tick that it gets once in a while."""
    started = time.monotonic()
    on_terminal = sys.stderr.isatty()

    def show(ending: str) -> None:
        line = f"{title} … {time.monotonic() - started:.0f} s{ending}"
        print(f"\r\033[K{line}" if on_terminal else line, end="", file=sys.stderr, flush=True)

    def tick() -> None:
        if on_terminal:
            show("")

    if not on_terminal:
        say(f"{title} …")
    try:
        yield tick
    except BaseException:
        show("  stopped\n")
        raise
    show("\n")
