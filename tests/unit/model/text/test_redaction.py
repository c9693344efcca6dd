"""Sensitive values are taken out of texts and of anything that holds texts."""

from __future__ import annotations

import base64
import json
import urllib.parse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        (r'found "p\u0026w-\u003cx\u003e"', ["p&w-<x>"], 'found "…"'),
        (r'found "caf\u00e9-noir"', ["café-noir"], 'found "…"'),
        ("postgres://u:p%26w%2F1@db: refused", ["p&w/1"], "postgres://u:…@db: refused"),
        ("GET /?k=open+sesame+now", ["open sesame now"], "GET /?k=…"),
        ("Basic dXNlcjpvcGVuLXNlc2FtZQ==", ["open-sesame"], "Basic dXNlcjpv…ZQ=="),
        ("bad line: MIIEvQIBADANBgkqhk", ["-----BEGIN-----\nMIIEvQIBADANBgkqhk\nok\n-----END-----"], "bad line: …"),
        ("level: info", ["level: info\npassword: x"], "level: info"),
    ],
    ids=[
        *("within", "the longest first", "escaped", "too short", "in Base64", "nothing to hide"),
        *("as Go writes JSON", "as ASCII", "in a URL", "in a query", "within other Base64", "a line of a key"),
        "an ordinary line",
    ],
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


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=12, max_size=60)
WRITERS = {
    "json": json.dumps,
    "go": lambda text: json.dumps(text).replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"),
    "repr": repr,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "urlsafe": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "url": lambda text: urllib.parse.quote(text, safe=""),
    "query": lambda text: urllib.parse.urlencode({"k": text}),
}
"""By who quotes a text how it does."""


@given(TEXTS, st.sampled_from(sorted(WRITERS)), st.sampled_from(["", "u:", "user=x;"]))
def test_no_quoting_shows_a_value(value: str, writer: str, before: str) -> None:
    """Alone, and within a longer text that is quoted as a whole."""
    written = WRITERS[writer](before + value)

    shown = redaction.redact(f"it said {written} and ended", {value})

    inner = WRITERS[writer](value).strip("\"'k=")
    assert shown != f"it said {written} and ended"
    assert inner not in shown
