"""Keeps sensitive values out of texts that people read: statuses, Events, logs.

Must not know where a value or a text comes from.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator
from typing import Any

from hearth.model import limits

SENSITIVE = "(sensitive)"
"""What is shown in place of a value that nobody is to see."""
ELLIPSIS = "…"
"""What is left where a part of a sentence was hidden."""
FORMS_KEPT = 8
"""Definitions whose values are kept as they may be quoted; they are in memory anyway."""
MIN_REDACTED_LENGTH = 3
"""Characters; hiding shorter values would riddle every sentence."""


def redact(text: str, hidden: Collection[str]) -> str:
    """`text` without any of the values `hidden`, however they are quoted; nothing of it where these are too many."""
    if not hidden:
        return text
    if len(hidden) > limits.HIDDEN_TEXTS:
        return ELLIPSIS
    for form in find_forms(frozenset(hidden)):
        if form in text:
            text = text.replace(form, ELLIPSIS)
    return text


@functools.lru_cache(maxsize=FORMS_KEPT)
def find_forms(hidden: frozenset[str]) -> tuple[str, ...]:
    """Each value as it stands, and as JSON or Python quote it; the longest first, since one may be a part of another."""
    forms: dict[str, None] = {}
    for value in sorted(hidden, key=len, reverse=True):
        if len(value) >= MIN_REDACTED_LENGTH:
            forms.update(dict.fromkeys((value, json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])))
    return tuple(forms)


def redact_within(value: Any, hidden: Collection[str]) -> Any:
    """`value`, or SENSITIVE in place of every text in it that holds one of the values `hidden`."""
    match value:
        case str():
            return value if redact(value, hidden) == value else SENSITIVE
        case list():
            return [redact_within(inner, hidden) for inner in value]
        case dict():
            return {redact(str(key), hidden): redact_within(inner, hidden) for key, inner in value.items()}
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
