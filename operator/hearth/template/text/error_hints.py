"""Short phrases for error messages that help the user fix the error."""

from __future__ import annotations

import difflib
import heapq
import itertools
from collections.abc import Iterable, Sequence

from hearth.model import limits
from hearth.model.text import enumeration

_LIKENESS = 0.7
_COMPARED = 10
_SHORT = 64
_LARGEST_SHOWN = 256
"""Bits."""
_LISTED = 12
_LONGEST_EXPRESSION = 200


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean 'image'?`, or nothing if no candidate is similar to `word`.

    Takes a few milliseconds at most: of many or long candidates, only some are compared.
    """
    if len(word) > limits.HINTED_LENGTH:
        return ""
    known = (each for each in candidates if len(each) <= limits.HINTED_LENGTH)
    by_lower = {candidate.lower(): candidate for candidate in itertools.islice(known, limits.HINTED_CANDIDATES)}
    close = word.lower() if word.lower() in by_lower else find_closest(word.lower(), by_lower)
    return f"; did you mean '{by_lower[close]}'?" if close else ""


def find_closest(word: str, candidates: Iterable[str]) -> str:
    """Find the candidate that is most similar to `word`, "" if none is similar."""
    matcher = difflib.SequenceMatcher()
    matcher.set_seq2(word)
    # Filter by a cheap upper bound first. The exact measure takes hundreds of microseconds for texts with the same
    # letters.
    hopeful: list[tuple[float, str]] = []
    for candidate in candidates:
        matcher.set_seq1(candidate)
        if matcher.real_quick_ratio() >= _LIKENESS and (bound := matcher.quick_ratio()) >= _LIKENESS:
            hopeful.append((bound, candidate))
    best = ""
    likeness = _LIKENESS
    for _, candidate in heapq.nlargest(_COMPARED, hopeful):
        matcher.set_seq1(candidate)
        if (found := matcher.ratio()) >= likeness:
            best, likeness = candidate, found
    return best


def list_words(words: Sequence[str]) -> str:
    """Return `a, b and c`; the first dozen if there are many."""
    if len(words) > _LISTED:
        return enumeration.enumerate_names(words, most=_LISTED)
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def describe(value: object) -> str:
    """Describe a value briefly: `the text 'abc'`, `a list`, `3`."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {quote(value)}"
        case int() | float():
            # Python cannot write integers of thousands of digits; a bit length is equally informative.
            is_huge = isinstance(value, int) and value.bit_length() > _LARGEST_SHOWN
            return "a number of many digits" if is_huge else f"the number {value}"
        case list():
            return "a list"
        case dict():
            return "a map"
    return type(value).__name__


def quote(text: str) -> str:
    """Return `text` in quotes, truncated if it is long."""
    short = text if len(text) <= 60 else text[:57] + "…"
    return "'" + short.replace("\n", "⏎") + "'"


def quote_expression(text: str) -> str:
    """Quote an expression within a sentence."""
    short = text if len(text) <= _LONGEST_EXPRESSION else text[: _LONGEST_EXPRESSION - 1] + "…"
    return f"`{short}`"


def shorten(text: str) -> str:
    """Return `text`, truncated if it is long."""
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def write_key(key: str) -> str:
    """Format one step of a path as kubectl writes it: `.spec`, `[app.kubernetes.io/name]`; truncated if it is long."""
    if len(key) > _SHORT:
        key = shorten(key)
    return f".{key}" if key.isidentifier() or key.replace("-", "_").isidentifier() else f"[{key}]"
