"""What is kept as JSON takes the memory of its text."""

from __future__ import annotations

import tracemalloc

import orjson

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
