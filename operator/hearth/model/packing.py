"""JSON to be kept, in no more memory than it needs."""

from __future__ import annotations

from typing import Any

import orjson


def pack(value: Any) -> bytes:
    """The JSON of `value`. For what is kept: orjson alone leaves 4 KiB behind each of its answers (seen with 3.13)."""
    return bytes(memoryview(orjson.dumps(value)))
