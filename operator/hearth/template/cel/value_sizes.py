"""How large values become once expressions are evaluated, asked before anything is made of them. Knows bytes only."""

from __future__ import annotations

from typing import Any

import orjson

from hearth.model import limits
from hearth.template.text import bounds


class TooLarge(ValueError):
    """A value that is larger or deeper than its place allows; the message gives the figure."""


def measure(value: Any, *, depth: int = limits.JSON_DEPTH) -> int:
    """About how many bytes `value` takes as JSON. Raises TooLarge where it has more levels than `depth`."""
    if type(value) is str:
        return len(value)
    if type(value) is not dict and type(value) is not list:
        return 8
    try:
        written = orjson.dumps(value)
    except TypeError:
        raise TooLarge(f"is nested more than {depth} levels deep; flatten it") from None
    # Hardly any value holds as many brackets as it may have levels.
    if written.count(b"[") + written.count(b"{") > depth and bounds.find_excess(value, depth=depth, nodes=len(written)):
        raise TooLarge(f"is nested more than {depth} levels deep; flatten it")
    return len(written)


def check(size: int, most: int = limits.OBJECT_BYTES, *, what: str = "makes the object") -> None:
    """Raises TooLarge where `size` is more than `most` bytes."""
    if size > most:
        raise TooLarge(f"{what} larger than {most} bytes; shorten or divide it")
