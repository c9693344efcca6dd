"""Lists in a sentence: a message stays short, however many objects it is about."""

from __future__ import annotations

import itertools

import pytest

from hearth.model.text import enumeration


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(0, "", id="none"),
        pytest.param(1, "0", id="one"),
        pytest.param(3, "0, 1, 2", id="as many as may be named"),
        pytest.param(4, "0, 1, 2 and 1 more", id="one beyond"),
        pytest.param(1000, "0, 1, 2 and 997 more", id="many"),
    ],
)
def test_names(count: int, text: str) -> None:
    """The first names, and the number of the others."""
    assert enumeration.enumerate_names([str(number) for number in range(count)], most=3) == text


def test_only_what_is_shown_is_read() -> None:
    """The names of a thousand objects are not made for a sentence about three."""
    names = map(str, itertools.count())
    assert enumeration.enumerate_first(names, count=1000, most=3) == "0, 1, 2 and 997 more"
    assert next(names) == "3"


def test_clauses() -> None:
    """Clauses have commas of their own, so that a semicolon divides them."""
    clauses = ["a waits", "b, too", "c fails"]
    assert enumeration.enumerate_clauses(clauses, count=3, most=3) == "a waits; b, too; c fails"
    assert enumeration.enumerate_clauses(clauses, count=3, most=1) == "a waits; and 2 more"
