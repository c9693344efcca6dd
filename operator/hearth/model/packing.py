"""Values that are stored in no more memory than they need, and texts compressed by gzip within a limit."""

from __future__ import annotations

import zlib
from typing import Any, Final, Never

import orjson

NOTHING: Final[frozenset[Never]] = frozenset()
"""The empty set, for every Stack the same: Python makes a new one of 216 bytes for each `frozenset()`."""
GZIP = 16 + zlib.MAX_WBITS
"""Window bits that make zlib expect a gzip header."""


def pack(value: Any) -> bytes:
    """Return the JSON of `value` for storage. orjson alone wastes 4 KiB for each of its results (seen with 3.13)."""
    return bytes(memoryview(orjson.dumps(value)))


def inflate(compressed: bytes, *, limit: int) -> bytes:
    """Decompress one gzip text. Raises ValueError or zlib.error if it is invalid or longer than `limit` bytes."""
    stream = zlib.decompressobj(wbits=GZIP)
    text = stream.decompress(compressed, limit)
    if not stream.eof or stream.unused_data:
        raise ValueError(f"it is truncated, has more than one part, or inflates to more than {limit} bytes")
    return text
