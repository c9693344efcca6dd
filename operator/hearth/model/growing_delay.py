"""The exponential delay before a retry. All backoffs use this formula, each with its own first and maximum delay."""

from __future__ import annotations

from typing import Final

GROWTH: Final = 2.0
"""Factor by which each failure multiplies the delay."""
MOST_DOUBLINGS: Final = 30


def find(failures: float, *, first: float, longest: float) -> float:
    """Return the delay in seconds after a number of consecutive failures: `first` after one failure, at most `longest`."""
    factor: float = GROWTH ** min(max(failures - 1, 0), MOST_DOUBLINGS)
    return min(first * factor, longest)
