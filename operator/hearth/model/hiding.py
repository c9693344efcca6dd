"""Keeps sensitive values out of texts that people read: statuses, Events, logs.

Must not know where a value or a text comes from.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

SENSITIVE = "(sensitive)"
"""What is shown in place of a value that nobody is to see."""
GAP = "…"
"""What is left where a part of a sentence was hidden."""
SHORTEST_HIDDEN = 3
"""Characters; hiding shorter values would riddle every sentence."""


def hide(text: str, hidden: Collection[str]) -> str:
    """`text` without any of the values `hidden`, however they are quoted."""
    # The longest first, since one value may be a part of another; a quoted echo has its line ends and quotes escaped.
    for value in sorted(hidden, key=len, reverse=True):
        if len(value) >= SHORTEST_HIDDEN:
            text = text.replace(value, GAP).replace(json.dumps(value, ensure_ascii=False)[1:-1], GAP)
            text = text.replace(repr(value)[1:-1], GAP)
    return text


def hide_within(value: Any, hidden: Collection[str]) -> Any:
    """`value`, or SENSITIVE in place of every text in it that holds one of the values `hidden`."""
    match value:
        case str():
            return value if hide(value, hidden) == value else SENSITIVE
        case list():
            return [hide_within(inner, hidden) for inner in value]
        case dict():
            return {hide(str(key), hidden): hide_within(inner, hidden) for key, inner in value.items()}
        case int() | float() if not isinstance(value, bool) and str(value) in hidden:
            return SENSITIVE
    return value


def find_texts(value: Any) -> Iterator[str]:
    """Every text in a value, and its numbers as they are written; true, false and null say nothing."""
    match value:
        case str():
            yield value
            if (stripped := value.strip()) != value:
                yield stripped
        case bool() | None:
            return
        case int() | float():
            yield str(value)
        case list():
            for inner in value:
                yield from find_texts(inner)
        case dict():
            for inner in value.values():
                yield from find_texts(inner)
