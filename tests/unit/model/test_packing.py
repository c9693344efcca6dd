"""What is kept as JSON takes the memory of its text, and what was compressed is read within its limits."""

from __future__ import annotations

import gzip
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
