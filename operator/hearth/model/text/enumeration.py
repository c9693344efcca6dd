"""Formats lists of names or clauses in a sentence: the first few, and the number of the others."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

NAMED_AT_MOST = 5
"""Maximum number of names in a message. The others are counted."""


def enumerate_names(names: Sequence[str], *, most: int = NAMED_AT_MOST) -> str:
    """Join names: `a, b, c and 12 more`."""
    return enumerate_first(names, count=len(names), most=most)


def enumerate_first(names: Iterable[str], *, count: int, most: int = NAMED_AT_MOST) -> str:
    """Join the first of `count` names, like `enumerate_names`. The others are not read."""
    named = ", ".join(itertools.islice(names, most))
    return f"{named} and {count - most} more" if count > most else named


def enumerate_clauses(clauses: Iterable[str], *, count: int, most: int = NAMED_AT_MOST) -> str:
    """Join the first of `count` clauses: `a is missing; b is unhealthy; and 12 more`. The others are not read."""
    named = "; ".join(itertools.islice(clauses, most))
    return f"{named}; and {count - most} more" if count > most else named
