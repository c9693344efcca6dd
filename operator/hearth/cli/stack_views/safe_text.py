"""Text of objects, made safe for a terminal: the author of an object must not control the screen of its reader.

Control characters, terminal escape sequences and characters that reorder or hide text appear as visible escapes.
"""

from __future__ import annotations

import re
from typing import Final

UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, with the beginning of each escape sequence
    "\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # invisible, or changes the direction of what follows
    "\ud800-\udfff\U000e0000-\U000e007f]"  # cannot be encoded, or is invisible
)
LINE_ENDS: Final = re.compile(r"\r\n?")
SPACE: Final = re.compile(r"\s*\n\s*|\t")


def clean(text: object) -> str:
    """Return the text with its lines, and without any character that a terminal would obey."""
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
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
