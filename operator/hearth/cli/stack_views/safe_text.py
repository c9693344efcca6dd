"""Escapes text of objects for a terminal, so that the author of an object cannot control the reader's screen.

Control characters, terminal escape sequences, and characters that reorder or hide text become visible escapes.
"""

from __future__ import annotations

import re
from typing import Final

from hearth.model.text import invisible

UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, with the beginning of each escape sequence
    "\ud800-\udfff"  # cannot be encoded
    f"{invisible.INVISIBLE}]"
)
LINE_ENDS: Final = re.compile(r"\r\n?")
SPACE: Final = re.compile(r"\s*\n\s*|\t")


def clean(text: object) -> str:
    """Return the text, including line breaks, without any character that controls a terminal."""
    return UNSAFE.sub(_escape, LINE_ENDS.sub("\n", str(text))).replace("\t", " ")


def one_line(text: object) -> str:
    """Return the whole text on one line."""
    return SPACE.sub(" ", clean(text)).strip()


def first_line(text: object) -> str:
    """Return the first line, with an ellipsis if there are others."""
    lines = clean(text).strip().split("\n")
    return lines[0] + (" …" if len(lines) > 1 else "")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
