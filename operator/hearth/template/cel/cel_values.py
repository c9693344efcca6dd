"""Converts CEL values to JSON values and to text."""

from __future__ import annotations

import base64
import datetime
import math
from typing import Any

import orjson

_EXACT = 2.0**53
"""Above it, a double cannot represent every integer, and stays a double."""


class UnrepresentableValue(ValueError):
    """A value that JSON cannot represent; the message states which and the next step."""


def convert(value: Any) -> Any:
    """Convert `value` to JSON.

    Whole numbers have no point, bytes are in base 64, times are text, and maps and lists contain no nulls.
    Raises UnrepresentableValue.
    """
    match value:
        case bool() | str() | int() | None:
            return value
        case float():
            return convert_double(value)
        case dict():
            return {convert_key(key): convert(item) for key, item in value.items() if item is not None}
        case list():
            return [convert(item) for item in value if item is not None]
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case datetime.datetime():
            return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        case datetime.timedelta():
            return write_duration(value)
    raise UnrepresentableValue(
        f"gives {type(value).__name__} {value!s}, which a manifest cannot contain; convert it, e.g. with string()"
    )


def convert_double(value: float) -> int | float:
    """Convert `value` to an integer if it is whole.

    JSON treats both alike, but an integer field accepts only the integer.
    """
    if not math.isfinite(value):
        raise UnrepresentableValue(f"gives {value}, which is not a JSON number; guard the division or conversion")
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def convert_key(key: Any) -> str:
    """Return `key` if it can be the key of a map."""
    if not isinstance(key, str):
        raise UnrepresentableValue(
            f"gives a map with the key {key!r}; keys must be strings, convert them with string()"
        )
    return key


def write_duration(value: datetime.timedelta) -> str:
    """Format a duration as CEL's string() does: `3600s`, `0.5s`."""
    whole, rest = divmod(value // datetime.timedelta(microseconds=1), 1_000_000)
    if rest and whole < 0:
        return "-" + write_duration(-value)
    return f"{whole}.{rest:06d}".rstrip("0") + "s" if rest else f"{whole}s"


def write_text(value: Any) -> str:
    """Format a converted value for use in a text: `true`, `3`, lists and maps as compact JSON."""
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
