"""Packs values as JSON to save memory, and checks sizes before text is decompressed or parsed.

A gzip text is decompressed up to a limit. The values of a JSON text are counted before it is parsed.
"""

from __future__ import annotations

import itertools
import re
import zlib
from typing import Any, Final, Never

import orjson

NOTHING: Final[frozenset[Never]] = frozenset()
"""The empty set that all Stacks share: Python allocates 216 bytes for each `frozenset()`."""
GZIP = 16 + zlib.MAX_WBITS
"""Window bits that make zlib expect a gzip header."""
GZIP_PARTS: Final = 16
"""Parts of one gzip text. Each is copied once for every part before it."""
SEPARATOR = re.compile(rb'(?:[^",\[{]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+(?:([,\[{])|\Z)', re.DOTALL)
"""Matches up to the next comma or opening bracket outside of texts, or the end.

It reads no byte twice, even in a truncated text.
"""


def pack(value: Any) -> bytes:
    """Return the JSON of `value` for storage. orjson itself wastes 4 KiB for each of its results (seen with 3.13)."""
    return bytes(memoryview(orjson.dumps(value)))


def inflate(compressed: bytes, *, limit: int) -> bytes:
    """Decompress a gzip text, which may have several parts, as in `cat a.gz b.gz`.

    Raises ValueError or zlib.error if it is invalid, longer than `limit` bytes, or has too many parts.
    """
    text, rest = b"", compressed
    for _ in range(GZIP_PARTS):
        stream = zlib.decompressobj(wbits=GZIP)
        # Read one byte more than the limit to detect an excess; for zlib, 0 means no limit.
        text += stream.decompress(rest, limit - len(text) + 1)
        if not stream.eof or len(text) > limit:
            raise ValueError(f"it is truncated, or inflates to more than {limit} bytes")
        rest = stream.unused_data
        if not rest:
            return text
    raise ValueError(f"it has more than {GZIP_PARTS} parts")


def has_more_values(raw: bytes, most: int) -> bool:
    """Return whether a JSON text that is not parsed yet has more than `most` values.

    It counts commas and opening brackets outside of texts. This exact count runs only if the total, including those in
    texts, is too high, which is rare.
    """
    if sum(map(raw.count, (b",", b"[", b"{"))) <= most:
        return False
    found = itertools.islice(SEPARATOR.finditer(raw), most + 1)
    return sum(1 for each in found if each.lastindex) > most
