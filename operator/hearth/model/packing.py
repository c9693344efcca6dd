"""Values that are stored in no more memory than they need, and texts compressed by gzip within a limit."""

from __future__ import annotations

import zlib
from typing import Any, Final, Never

import orjson

NOTHING: Final[frozenset[Never]] = frozenset()
"""The empty set, for every Stack the same: Python makes a new one of 216 bytes for each `frozenset()`."""
GZIP = 16 + zlib.MAX_WBITS
"""Window bits that make zlib expect a gzip header."""
GZIP_PARTS: Final = 16
"""Parts of one text. Each is copied once for every part before it."""


def pack(value: Any) -> bytes:
    """Return the JSON of `value` for storage. orjson alone wastes 4 KiB for each of its results (seen with 3.13)."""
    return bytes(memoryview(orjson.dumps(value)))


def inflate(compressed: bytes, *, limit: int) -> bytes:
    """Decompress a gzip text, also of several parts, as `cat a.gz b.gz` makes it.

    Raises ValueError or zlib.error if it is invalid, longer than `limit` bytes, or has too many parts.
    """
    text, rest = b"", compressed
    for _ in range(GZIP_PARTS):
        stream = zlib.decompressobj(wbits=GZIP)
        # One byte more than the limit shows that it is exceeded: zlib takes 0 for no limit.
        text += stream.decompress(rest, limit - len(text) + 1)
        if not stream.eof or len(text) > limit:
            raise ValueError(f"it is truncated, or inflates to more than {limit} bytes")
        rest = stream.unused_data
        if not rest:
            return text
    raise ValueError(f"it has more than {GZIP_PARTS} parts")
