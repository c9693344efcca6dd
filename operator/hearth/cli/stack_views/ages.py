"""Parses times in objects and formats ages as kubectl does."""

from __future__ import annotations

from datetime import datetime
from typing import Final

UNKNOWN: Final = "<unknown>"
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86_400, 31_536_000


def parse(text: object) -> float | None:
    """Parse an RFC 3339 time into seconds since the epoch; None for any other text."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def describe(text: object, *, now: float) -> str:
    """Return the age of a time."""
    then = parse(text)
    return UNKNOWN if then is None else format_age(now - then)


def format_age(seconds: float) -> str:
    """Return a duration in at most two units, as kubectl does (k8s.io/apimachinery, `duration.HumanDuration`)."""
    total = int(max(0.0, seconds))
    if total < 2 * MINUTE:
        return f"{total}s"
    if total < 3 * HOUR:
        return two_units(total, MINUTE, "m", 1, "s", most=10)
    if total < 2 * DAY:
        return two_units(total, HOUR, "h", MINUTE, "m", most=8)
    if total < 2 * YEAR:
        return two_units(total, DAY, "d", HOUR, "h", most=8)
    return two_units(total, YEAR, "y", DAY, "d", most=8)


def two_units(total: int, unit: int, name: str, smaller: int, smaller_name: str, *, most: int) -> str:
    """Return `3d4h`; from `most` of the larger unit on, omit the smaller unit."""
    count, rest = divmod(total, unit)
    if count >= most or rest < smaller:
        return f"{count}{name}"
    return f"{count}{name}{rest // smaller}{smaller_name}"
