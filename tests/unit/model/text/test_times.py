"""Moments and durations, read and written."""

from __future__ import annotations

import pytest

from hearth.model.text import times


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("1h30m", 5400.0), ("250ms", 0.25), ("1.5m", 90.0), ("0s", 0.0)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    """As Kubernetes users write them."""
    assert times.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 m", "m5", "-5m", "1d", "5m!"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """With an example."""
    with pytest.raises(ValueError, match=r"e\.g\. 90s"):
        times.parse_duration(text)


@pytest.mark.parametrize(("seconds", "text"), [(90.0, "1m30s"), (3600.0, "1h"), (0.4, "0s"), (86461.0, "24h1m1s")])
def test_durations_are_written_short(seconds: float, text: str) -> None:
    """Without parts that are nought."""
    assert times.format_duration(seconds) == text


def test_a_moment_comes_back_as_it_went() -> None:
    """To the second."""
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
    """It would come back as another one, or not at all."""
    with pytest.raises(ValueError, match=r"years|moment|zone|isoformat"):
        times.parse_time(text)
