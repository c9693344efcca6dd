"""Small phrases that help somebody to mend a mistake. Knows words only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_LISTED = 12
_LONGEST_EXPRESSION = 200


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'image'?`, or nothing where no candidate is like `word`."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    if word.lower() in by_lower:
        return f"; did you mean '{by_lower[word.lower()]}'?"
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return f"; did you mean '{by_lower[close[0]]}'?" if close else ""


def list_words(words: Sequence[str]) -> str:
    """`a, b and c`; the first dozen where there are many."""
    if len(words) > _LISTED:
        return f"{', '.join(words[:_LISTED])} and {len(words) - _LISTED} more"
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def describe(value: object) -> str:
    """What was found, shortly: `the text 'abc'`, `a list`, `3`."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {quote(value)}"
        case int() | float():
            return f"the number {value}"
        case list():
            return "a list"
        case dict():
            return "a map"
    return type(value).__name__


def quote(text: str) -> str:
    """`text` in quotes, cut where it is long."""
    short = text if len(text) <= 60 else text[:57] + "…"
    return "'" + short.replace("\n", "⏎") + "'"


def quote_expression(text: str) -> str:
    """An expression within a sentence."""
    short = text if len(text) <= _LONGEST_EXPRESSION else text[: _LONGEST_EXPRESSION - 1] + "…"
    return f"`{short}`"


def write_key(key: str) -> str:
    """One step of a path as kubectl writes it: `.spec`, `[app.kubernetes.io/name]`."""
    return f".{key}" if key.isidentifier() or key.replace("-", "_").isidentifier() else f"[{key}]"
