"""What an expression gives, as JSON knows it: the one way from CEL's values to values of a manifest, and to text.

Knows neither expressions nor manifests.
"""

from __future__ import annotations

import base64
import datetime
import math
from typing import Any

import orjson

_EXACT = 2.0**53
"""Beyond it a double no longer tells every whole number apart, and stays a double."""


class UnrepresentableValue(ValueError):
    """A value that JSON has no form for; the message says which and what to do."""


def convert(value: Any) -> Any:
    """`value` as JSON: numbers without a needless point, bytes in base 64, times as text, nulls left out of maps and lists.

    Raises Unwritable.
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
        f"gives {type(value).__name__} {value!s}, which no manifest can hold; convert it, e.g. with string()"
    )


def convert_double(value: float) -> int | float:
    """`value`, as an integer where it is whole: JSON makes no difference, and a field of integers takes only that."""
    if not math.isfinite(value):
        raise UnrepresentableValue(f"gives {value}, which is no number of JSON; guard the division or conversion")
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def convert_key(key: Any) -> str:
    """`key`, where it can be the key of a map."""
    if not isinstance(key, str):
        raise UnrepresentableValue(f"gives a map with the key {key!r}; keys must be text, convert with string()")
    return key


def write_duration(value: datetime.timedelta) -> str:
    """As CEL's string() does: `3600s`, `0.5s`."""
    whole, rest = divmod(value // datetime.timedelta(microseconds=1), 1_000_000)
    if rest and whole < 0:
        return "-" + write_duration(-value)
    return f"{whole}.{rest:06d}".rstrip("0") + "s" if rest else f"{whole}s"


def write_text(value: Any) -> str:
    """A converted value within a text: `true`, `3`, lists and maps as compact JSON."""
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
