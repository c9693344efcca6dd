"""Sensitive values are taken out of texts and of anything that holds texts."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.text import redaction


@pytest.mark.parametrize(
    ("text", "hidden", "expected"),
    [
        ("the word is sesame!", ["sesame"], "the word is …!"),
        ("sesame-open or sesame", ["sesame", "sesame-open"], "… or …"),
        ('found "two\\nlines"', ["two\nlines"], 'found "…"'),
        ("an x", ["x", "an"], "an x"),
        ("Invalid value: c2VzYW1l", ["sesame"], "Invalid value: …"),
        ("nothing", [], "nothing"),
    ],
    ids=["within", "the longest first", "escaped", "too short", "in Base64", "nothing to hide"],
)
def test_texts(text: str, hidden: list[str], expected: str) -> None:
    """However they are quoted."""
    assert redaction.redact(text, hidden) == expected


def test_values() -> None:
    """A text that holds one is not shown at all."""
    value: Any = {"a": ["x sesame", "y"], "n": 4711, "t": True, "sesame": None}
    shown = {"a": ["(sensitive)", "y"], "n": "(sensitive)", "t": True, "…": None}
    assert redaction.redact_within(value, {"sesame", "4711"}) == shown


def test_texts_of_a_value() -> None:
    """Numbers as they are written; what says nothing is left out."""
    assert set(redaction.find_texts({"a": ["x", 5, 1.5, True, None], "b": "y\n"})) == {"x", "5", "1.5", "y\n", "y"}
