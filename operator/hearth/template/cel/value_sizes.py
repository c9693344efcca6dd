"""The sizes of expression results, measured before they are used. Knows bytes only."""

from __future__ import annotations

from typing import Any

import orjson

from hearth.model import limits
from hearth.template.text import bounds


class TooLarge(ValueError):
    """A value that is larger or deeper than its location allows; the message states the figure."""


def measure(value: Any, *, depth: int = limits.JSON_DEPTH) -> int:
    """Estimate the bytes of `value` as JSON. Raises TooLarge if it has more levels than `depth`."""
    if type(value) is str:
        return len(value)
    if type(value) is not dict and type(value) is not list:
        return 8
    try:
        written = orjson.dumps(value)
    except TypeError:
        raise TooLarge(f"is nested more than {depth} levels deep; flatten it") from None
    # Hardly any value contains as many brackets as it may have levels.
    if written.count(b"[") + written.count(b"{") > depth and bounds.find_excess(value, depth=depth, nodes=len(written)):
        raise TooLarge(f"is nested more than {depth} levels deep; flatten it")
    return len(written)


def check(size: int, most: int = limits.OBJECT_BYTES, *, what: str = "makes the object") -> None:
    """Raise TooLarge if `size` is more than `most` bytes."""
    if size > most:
        raise TooLarge(f"{what} larger than {most} bytes; shorten or split it")
