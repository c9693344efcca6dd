"""Long computations as generators, which yield after each piece so that the caller can do other work in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

MARKS_IN_A_PIECE = 16
"""Texts with expressions that are validated or evaluated in one piece. Most resources have fewer."""
LARGE = 65_536
"""Bytes from which a value is a separate piece."""

Result = TypeVar("Result")

ChunkedWork: TypeAlias = Generator[None, None, Result]
"""Does a piece of work of about a millisecond at every `next`. Its return value is the result."""


def finish(pieces: ChunkedWork[Result]) -> Result:
    """Run all pieces in sequence and return the result."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: Result = end.value
            return result
