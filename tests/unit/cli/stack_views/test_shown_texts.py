"""Texts for people: texts of objects cannot control a terminal, and ages look like kubectl's."""

from __future__ import annotations

import pytest

from hearth.cli.stack_views import ages, safe_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m", id="escape sequence"),
        pytest.param("\x9b2J", "\\x9b2J", id="one-byte sequence"),
        pytest.param("a\x07\x08\x7f", "a\\x07\\x08\\x7f", id="control characters"),
        pytest.param("safe\u202eevil", "safe\\u202eevil", id="text that is reversed"),
        pytest.param("in\u200bvisible", "in\\u200bvisible", id="invisible"),
        pytest.param("[red]bold[/red]", "[red]bold[/red]", id="markup is text"),
        pytest.param("a\r\nb\rc", "a\nb\nc", id="a carriage return overwrites nothing"),
        pytest.param("\ud800", "\\ud800", id="cannot be encoded"),
        pytest.param("Größe ✔ 名前", "Größe ✔ 名前", id="any language"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert safe_text.clean(text) == shown


def test_one_line_holds_all_and_first_line_says_that_there_is_more() -> None:
    assert safe_text.one_line("a\n  b\tc") == "a b c"
    assert safe_text.first_line("a\nb") == "a …"
    assert safe_text.first_line("a") == "a"


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (601, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 + 3600, "8d"),
        (3 * 365 * 86400, "3y"),
        (3 * 365 * 86400 + 86400, "3y1d"),
    ],
)
def test_an_age_has_at_most_two_units(seconds: float, age: str) -> None:
    assert ages.format_age(seconds) == age


@pytest.mark.parametrize("text", [None, 5, "", "yesterday", "9999999-01-01T00:00:00Z"])
def test_what_is_no_time_has_no_age(text: object) -> None:
    assert ages.describe(text, now=0.0) == "<unknown>"
