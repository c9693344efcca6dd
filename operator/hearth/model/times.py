"""Moments and durations as Kubernetes writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

DURATION = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
"""What the API server lets through: `90s`, `5m`, `1h30m`. The same in Python's language and in that of JSON Schema."""
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_TOO_LATE = 253_402_300_800.0
"""The beginning of the year 10000: RFC 3339 has four digits."""
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """The seconds that a text of the pattern `DURATION` means; ValueError for any other."""
    if re.fullmatch(DURATION, text) is None:
        raise ValueError(f"{text!r} is no duration such as 90s, 5m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def format_duration(seconds: float) -> str:
    """As short as people write it: `1h30m`; a duration of less than a second as `0s`."""
    left, text = int(seconds), ""
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def format_time(seconds: float) -> str:
    """Seconds since the epoch in RFC 3339, UTC, to the second."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float:
    """Seconds since the epoch; ValueError where it is no moment in RFC 3339 that `format_time` can write."""
    seconds = _read_time(text)
    if not 0 <= seconds < _TOO_LATE:
        raise ValueError(f"{text!r} lies outside the years 1970 to 9999")
    return seconds


def _read_time(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError(f"{text!r} names no time zone")
        return found.timestamp()
    except OverflowError as error:
        raise ValueError(f"{text!r} is no moment that any calendar has") from error
