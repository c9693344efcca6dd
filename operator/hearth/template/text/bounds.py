"""Checks the size and depth of JSON values against limits."""

from __future__ import annotations

import itertools
from typing import Any

import orjson

from hearth.model import limits
from hearth.model.errors import Mistake


def check(value: Any, *, path: str, depth: int = limits.JSON_DEPTH, nodes: int = limits.JSON_NODES) -> list[Mistake]:
    """Return an error if a value at `path` is deeper or larger than the limits, otherwise nothing."""
    excess = find_excess(value, depth=depth, nodes=nodes)
    return [Mistake(path=path, message=excess)] if excess else []


def find_excess(value: Any, *, depth: int = limits.JSON_DEPTH, nodes: int = limits.JSON_NODES) -> str:
    """Describe how a value exceeds the limits, "" if it does not.

    Proceeds level by level, so no depth exhausts the stack.
    """
    count = 0
    level = [value]
    # Texts and numbers below the last level do not count as a level.
    for _ in range(depth + 1):
        count += len(level)
        if count > nodes:
            return f"contains more than {nodes} values; split it"
        level = find_inner(level)
        if not level:
            return ""
    return f"is nested more than {depth} levels deep; flatten it"


def find_inner(level: list[Any]) -> list[Any]:
    """Return all direct children of the values of `level`."""
    # The elements of a long list usually have one type, which is faster to check than each value.
    types = set(map(type, level))
    if dict not in types and list not in types:
        return []
    if len(types) == 1:
        return list(itertools.chain.from_iterable(map(dict.values, level) if dict in types else level))
    inner: list[Any] = []
    for value in level:
        # Comparing exact types is twice as fast, and JSON has no subtypes.
        if type(value) is dict:
            inner += value.values()
        elif type(value) is list:
            inner += value
    return inner


def has_large_integer(value: Any) -> bool:
    """Return whether `value` is or contains an integer of more than 64 bits, which no expression can hold."""
    level = [value]
    while level:
        if any(type(each) is int and not -(2**63) <= each < 2**63 for each in level):
            return True
        level = find_inner(level)
    return False


class TooLarge(ValueError):
    """A value that is larger or deeper than its location allows; the message contains the figure."""


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
    # Count the brackets first, which is cheap: most values have fewer brackets than allowed levels.
    if written.count(b"[") + written.count(b"{") > depth and find_excess(value, depth=depth, nodes=len(written)):
        raise TooLarge(f"is nested more than {depth} levels deep; flatten it")
    return len(written)


def refuse_large(size: int, most: int = limits.OBJECT_BYTES, *, what: str = "makes the object") -> None:
    """Raise TooLarge if `size` is more than `most` bytes."""
    if size > most:
        raise TooLarge(f"{what} larger than {most} bytes; shorten or split it")
