"""Ages as kubectl writes them."""

from __future__ import annotations

import pytest

from hearth.cli.stack_views import ages


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
    """The values are kubectl's own."""
    assert ages.format_age(seconds) == age


@pytest.mark.parametrize("text", [None, 5, "", "yesterday", "9999999-01-01T00:00:00Z"])
def test_what_is_no_time_has_no_age(text: object) -> None:
    """Instead of an error."""
    assert ages.describe(text, now=0.0) == "<unknown>"
