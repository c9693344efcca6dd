"""Progress output: one line per step, with its seconds while it runs, and any obstacle.

On a terminal the seconds count in place; elsewhere one line is printed at the start of a step and one at the end.
Everything goes to standard error, so that a command's output stays its result.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

Tick = Callable[[], None]


class Impossible(Exception):
    """Error that the user must resolve; the text has the problem on this machine, its place, and the next step."""


def say(sentence: str) -> None:
    """Print one line."""
    print(sentence, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(title: str) -> Iterator[Tick]:
    """Show that `title` runs, and its duration; the caller must call the returned tick regularly."""
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
