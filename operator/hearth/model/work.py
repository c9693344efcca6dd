"""Work that takes long, in pieces: whoever drives it may do something else in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

ChunkedWork: TypeAlias = Generator[None, None, Result]
"""Does a piece at every `next`, a millisecond or so; its return value is the result."""


def finish(pieces: ChunkedWork[Result]) -> Result:
    """The result of all pieces, done in a row."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: Result = end.value
            return result
