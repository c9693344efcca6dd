"""Writes tables, lines and objects to standard output, and notes and progress to standard error."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from hearth.cli.stack_views import safe_text, text_table

if TYPE_CHECKING:
    from hearth.cli.stack_views.text_table import Cell

ERASE_LINE = "\r\x1b[2K"


def write_text(text: str) -> None:
    """Write a text of an object, made safe."""
    click.echo(safe_text.clean(text))


def write_note(text: str) -> None:
    """Write a note on standard error."""
    click.echo(f"note: {safe_text.one_line(text)}", err=True)


def write_warning(text: str) -> None:
    """Write a warning on standard error."""
    click.echo(f"warning: {safe_text.one_line(text)}", err=True)


def write_segments(segments: Sequence[tuple[str, str]]) -> None:
    """Write one line of safe segments; a style is a color, `bold` or `dim`."""
    click.echo("".join(style(text, name) for text, name in segments).rstrip(" "))


def write_lines(lines: Iterable[Sequence[tuple[str, str]]]) -> None:
    """Write several lines of safe segments."""
    for line in lines:
        write_segments(line)


def style(text: str, name: str) -> str:
    """Return the text in that style."""
    if not name or not text:
        return text
    if name in ("bold", "dim"):
        return click.style(text, bold=name == "bold" or None, dim=name == "dim" or None)
    return click.style(text, fg=name)


def find_width() -> int | None:
    """Return the columns of the terminal; None for any other output, where lines are not cut or wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def write_table(
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    is_wide: bool,
    with_header: bool = True,
    optional: Sequence[str] = (),
) -> None:
    """Write a table. On a terminal, the last column is cut to the available width, except in wide output.

    optional: titles of columns that a narrow terminal does not show, the least important first.
    """
    lines = text_table.align(header, rows, width=None if is_wide else find_width(), optional=optional)
    write_lines(lines if with_header else lines[1:])


def write_object(content: Any, *, output: str) -> None:
    """Write an object as JSON or YAML; both escape control characters."""
    if output == "json":
        click.echo(json.dumps(content, indent=4))
        return
    from hearth.template.text import kubectl_yaml

    click.echo(kubectl_yaml.write(content), nl=False)


class ProgressOutput:
    """Progress of a wait: one line that is redrawn on a terminal, otherwise a line for each change. Both on standard
    error.
    """

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._began = time.monotonic()
        self.last = "no status was observed yet"

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
        """Write an empty line before the next output."""
        if self._is_terminal:
            sys.stderr.write(ERASE_LINE)
            sys.stderr.flush()


@contextlib.contextmanager
def open_progress() -> Iterator[ProgressOutput]:
    """Open the progress output that suits standard error."""
    output = ProgressOutput(is_terminal=sys.stderr.isatty())
    try:
        yield output
    finally:
        output.close()
