"""Texts in messages: short lists, no sensitive values, and times read and written."""

from __future__ import annotations

import base64
import itertools
import json
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model.text import enumeration, redaction, times

# ---------------------------------------------------------------- lists in a sentence


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
    assert enumeration.enumerate_names([str(number) for number in range(count)], most=3) == text


def test_only_what_is_shown_is_read() -> None:
    names = map(str, itertools.count())
    assert enumeration.enumerate_first(names, count=1000, most=3) == "0, 1, 2 and 997 more"
    assert next(names) == "3"


def test_clauses() -> None:
    clauses = ["a waits", "b, too", "c fails"]
    assert enumeration.enumerate_clauses(clauses, count=3, most=3) == "a waits; b, too; c fails"
    assert enumeration.enumerate_clauses(clauses, count=3, most=1) == "a waits; and 2 more"


# ---------------------------------------------------------------- sensitive values


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
        ("token eyJhbGciOiJI… → none", ["eyJhbGciOiJIUzI1NiJ9"], "token … → none"),
        ("token eyJhbGciOiJIUzI1", ["eyJhbGciOiJIUzI1NiJ9"], "token …"),
        ("token abcabcabcabc…", ["abcabcabcabcabcx"], "token …"),
        ("is not ready", ["readyness"], "is not ready"),
    ],
    ids=[
        *("within", "the longest first", "escaped", "too short", "in Base64", "nothing to hide"),
        *("as Go writes JSON", "as ASCII", "in a URL", "in a query", "within other Base64", "a line of a key"),
        *("an ordinary line", "cut", "cut at the end", "a cut value that repeats itself", "the beginning of a word"),
    ],
)
def test_texts(text: str, hidden: list[str], expected: str) -> None:
    assert redaction.redact(text, hidden) == expected


def test_values() -> None:
    value: Any = {"a": ["x sesame", "y"], "n": 4711, "t": True, "sesame": None}
    shown = {"a": ["(sensitive)", "y"], "n": "(sensitive)", "t": True, "…": None}
    assert redaction.redact_within(value, {"sesame", "4711"}) == shown


def test_texts_of_a_value() -> None:
    assert set(redaction.find_texts({"a": ["x", 5, 1.5, True, None], "b": "y\n"})) == {"x", "5", "1.5", "y\n", "y"}


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=12, max_size=60)
WRITERS: dict[str, Callable[[str], str]] = {
    "json": json.dumps,
    "go": lambda text: json.dumps(text).replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"),
    "repr": repr,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "urlsafe": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "url": lambda text: urllib.parse.quote(text, safe=""),
    "query": lambda text: urllib.parse.urlencode({"k": text}),
}
"""The quoting function of each kind of program."""


@given(TEXTS, st.sampled_from(sorted(WRITERS)), st.sampled_from(["", "u:", "user=x;"]))
def test_no_quoting_shows_a_value(value: str, writer: str, before: str) -> None:
    written = WRITERS[writer](before + value)

    shown = redaction.redact(f"it said {written} and ended", {value})

    inner = WRITERS[writer](value).strip("\"'k=")
    assert shown != f"it said {written} and ended"
    assert inner not in shown


# ---------------------------------------------------------------- moments and durations


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("1h30m", 5400.0), ("250ms", 0.25), ("1.5m", 90.0), ("0s", 0.0)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert times.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 m", "m5", "-5m", "1d", "5m!"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"e\.g\. 90s"):
        times.parse_duration(text)


@pytest.mark.parametrize(("seconds", "text"), [(90.0, "1m30s"), (3600.0, "1h"), (0.4, "0s"), (86461.0, "24h1m1s")])
def test_durations_are_written_short(seconds: float, text: str) -> None:
    assert times.format_duration(seconds) == text


def test_a_moment_comes_back_as_it_went() -> None:
    assert times.format_time(0.0) == "1970-01-01T00:00:00Z"
    assert times.parse_time(times.format_time(1_700_000_000.9)) == 1_700_000_000.0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9999-12-31T23:59:59-23:59", id="in the year 10000"),
        pytest.param("0001-01-01T00:00:00+23:59", id="before the year 1"),
        pytest.param("1969-12-31T23:59:59Z", id="before the epoch"),
        pytest.param("2026-01-01T00:00:00", id="without a zone"),
        pytest.param("yesterday", id="no moment"),
    ],
)
def test_a_moment_that_cannot_be_written_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"years|moment|zone|isoformat"):
        times.parse_time(text)
