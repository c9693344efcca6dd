"""Values of a JSON text are counted outside of its texts, without looking at any byte twice."""

from __future__ import annotations

import time

import pytest

from hearth.model import json_values


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b'{"a": [1, 2], "b": {}}', 5, id="maps and lists"),
        pytest.param(rb'["a,b[{", "\",", "\\", 1]', 4, id="texts with quotes"),
        pytest.param(b'[1, "a,b,c', 2, id="a text that is cut off"),
        pytest.param(b'[1, "a,b,c\\', 2, id="a text that is cut off in an escape"),
        pytest.param(b"[1, \\ 2, 3]", 3, id="a backslash outside"),
    ],
)
def test_values_are_counted_outside_of_texts(raw: bytes, expected: int) -> None:
    """Exactly."""
    assert not json_values.has_more_values(raw, expected)
    assert expected == 0 or json_values.has_more_values(raw, expected - 1)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"," * 1_000 + b'"' + b'\\"' * 1_000_000, id="cut off"),
        pytest.param(b"," * 1_000 + b'"",' * 1_000_000, id="many"),
        pytest.param(b"," * 1_000 + b"\\" * 1_000_000, id="backslashes"),
    ],
)
def test_hostile_texts_take_no_longer(raw: bytes) -> None:
    """Quadratic time would be minutes."""
    begin = time.perf_counter()
    json_values.has_more_values(raw, 999)
    assert time.perf_counter() - begin < 5
