"""Parses and formats times and durations as Kubernetes does."""

from __future__ import annotations

import re
from datetime import UTC, datetime

DURATION = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
"""The format that the API server accepts: `90s`, `5m`, `1h30m`. Valid both as a Python and a JSON Schema pattern."""
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_TOO_LATE = 253_402_300_800.0
"""The beginning of the year 10000: RFC 3339 has four digits."""
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Parse a text of the pattern `DURATION` into seconds; raise ValueError for any other."""
    if re.fullmatch(DURATION, text) is None:
        raise ValueError(f"{text!r} is not a duration, e.g. 90s, 5m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def format_duration(seconds: float) -> str:
    """Format a duration in its shortest form: `1h30m`; less than a second as `0s`."""
    left, text = int(seconds), ""
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def format_time(seconds: float) -> str:
    """Format seconds since the epoch as RFC 3339, UTC, to the second."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float:
    """Parse into seconds since the epoch; raise ValueError if `format_time` could not write it in RFC 3339."""
    seconds = _read_time(text)
    if not 0 <= seconds < _TOO_LATE:
        raise ValueError(f"{text!r} is outside the years 1970 to 9999")
    return seconds


def _read_time(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError(f"{text!r} has no time zone")
        return found.timestamp()
    except OverflowError as error:
        raise ValueError(f"{text!r} is not a valid date and time") from error
