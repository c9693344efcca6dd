"""Renders the terminal output of a command as an SVG for the documentation."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

FOREIGN = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)
"""Comments, and fonts that the browser would download."""
PIECE = 65536


def record(command: Sequence[str], *, width: int, environment: Mapping[str, str]) -> str:
    """Run a command in a terminal of that width and return its output with colors."""
    ours, theirs = pty.openpty()
    sizes = {"COLUMNS": str(width), "LINES": "40", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env={**environment, **sizes}
    )
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, PIECE)
        except OSError:
            break  # the program has ended
        if not piece:
            break
        pieces.append(piece)
    os.close(ours)
    process.wait()
    return b"".join(pieces).decode().replace("\r\n", "\n")


def draw(text: str, *, title: str, width: int) -> str:
    """Draw the output as a window."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text.rstrip("\n")))
    return FOREIGN.sub("", console.export_svg(title=title, theme=DIMMED_MONOKAI, unique_id="terminal"))
