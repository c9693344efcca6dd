"""What expressions give is written as JSON, in one form."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from hearth.template.cel import cel_values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (3, 3),
        (2.0, 2),
        (2.5, 2.5),
        (2.0**60, 2.0**60),
        ("x", "x"),
        (None, None),
        ({"a": None, "b": [1, None, 2.0]}, {"b": [1, 2]}),
        (bytearray(b"abc"), "YWJj"),
        (datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC), "2024-05-01T12:00:00Z"),
        (datetime.timedelta(hours=1), "3600s"),
        (datetime.timedelta(milliseconds=-1500), "-1.5s"),
    ],
    ids=[
        "truth",
        "integer",
        "whole double",
        "double",
        "double beyond exact integers",
        "text",
        "null",
        "nulls within are left out",
        "bytes in base 64",
        "time",
        "duration",
        "negative duration",
    ],
)
def test_converting(value: Any, expected: Any) -> None:
    """The type matters too: 2 is not 2.0 to an API server, nor true."""
    converted = cel_values.convert(value)
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "not a JSON number"),
        ({1: "a"}, "keys must be text"),
        (object(), "which a manifest cannot contain"),
    ],
    ids=["not a number", "a key that is no text", "a value of another world"],
)
def test_what_json_cannot_hold_is_refused(value: Any, message: str) -> None:
    """With the next step."""
    with pytest.raises(cel_values.UnrepresentableValue, match=message):
        cel_values.convert(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("x", "x"), (True, "true"), (3, "3"), (2.5, "2.5"), ([1, "a"], '[1,"a"]'), ({"b": 1, "a": {}}, '{"a":{},"b":1}')],
    ids=["text", "truth", "integer", "double", "list", "map with its keys in order"],
)
def test_text_of_a_value(value: Any, expected: str) -> None:
    """As it stands within a longer string."""
    assert cel_values.write_text(value) == expected
