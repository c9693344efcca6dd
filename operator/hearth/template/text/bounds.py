"""Whether a value of JSON is larger or deeper than what Hearth goes through. Knows counts, not what a value means."""

from __future__ import annotations

from typing import Any

from hearth.model import limits
from hearth.model.mistakes import Mistake


def check(value: Any, *, path: str, depth: int = limits.JSON_DEPTH, nodes: int = limits.JSON_NODES) -> list[Mistake]:
    """The mistake that a value at `path` is deeper or larger than the limits, none where it is not."""
    excess = find_excess(value, depth=depth, nodes=nodes)
    return [Mistake(path=path, message=excess)] if excess else []


def find_excess(value: Any, *, depth: int = limits.JSON_DEPTH, nodes: int = limits.JSON_NODES) -> str:
    """How a value exceeds the limits, "" where it does not. Goes level by level, so no depth exhausts the stack."""
    count = 0
    level = [value]
    # Texts and numbers on the level below the last one are no level of their own.
    for _ in range(depth + 1):
        count += len(level)
        if count > nodes:
            return f"holds more than {nodes} values; divide it"
        level = find_inner(level)
        if not level:
            return ""
    return f"is nested more than {depth} levels deep; flatten it"


def find_inner(level: list[Any]) -> list[Any]:
    """All values directly within those of `level`."""
    inner: list[Any] = []
    for value in level:
        # By the exact type, which is twice as fast; JSON has no others.
        if type(value) is dict:
            inner += value.values()
        elif type(value) is list:
            inner += value
    return inner


def has_large_integer(value: Any) -> bool:
    """Whether `value` is or holds an integer of more than 64 bits, which no expression can hold."""
    level = [value]
    while level:
        if any(type(each) is int and not -(2**63) <= each < 2**63 for each in level):
            return True
        level = find_inner(level)
    return False
