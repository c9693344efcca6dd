"""What is kept as JSON takes the memory of its text; what was compressed, or is not parsed yet, is read within limits."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib

import orjson
import pytest

from hearth.model import packing

KEPT = 50


def test_packed_is_what_orjson_writes() -> None:
    """Nothing but the memory differs."""
    value = {"a": [1, None, "ü"], "b": {}}
    assert packing.pack(value) == orjson.dumps(value)


def test_what_is_packed_takes_no_more_than_its_text() -> None:
    """A hundred bytes each, where each took 4 KiB: thousands of resources keep theirs."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [packing.pack({"number": number}) for number in range(KEPT)]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert taken / len(kept) < 500


def test_a_text_of_several_parts_is_one_text() -> None:
    """As gunzip reads it."""
    assert packing.inflate(gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two"), limit=7) == b"one two"


@pytest.mark.parametrize(
    "compressed",
    [
        pytest.param(gzip.compress(b"12345") + gzip.compress(b"678"), id="longer together than the limit"),
        pytest.param(gzip.compress(b"1234567") + gzip.compress(b"8"), id="longer, with the limit reached before"),
        pytest.param(gzip.compress(b"1") + b"2", id="not all of it gzip"),
        pytest.param(gzip.compress(b"12345") + gzip.compress(b"67")[:-3], id="truncated in a later part"),
        pytest.param(gzip.compress(b"") * (packing.GZIP_PARTS + 1), id="too many parts"),
    ],
)
def test_no_part_passes_the_limits(compressed: bytes) -> None:
    """A tenant writes them."""
    with pytest.raises((ValueError, zlib.error)):
        packing.inflate(compressed, limit=7)


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
    assert not packing.has_more_values(raw, expected)
    assert expected == 0 or packing.has_more_values(raw, expected - 1)


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
    packing.has_more_values(raw, 999)
    assert time.perf_counter() - begin < 5
