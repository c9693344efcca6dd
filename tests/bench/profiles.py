"""What took the time in a profile of the operator: the first few functions, by their own time and with all they called."""

from __future__ import annotations

import pstats
from pathlib import Path
from typing import Any

SHOWN = 5


def describe(profile: Path, *, shown: int = SHOWN) -> str:
    """Two lists."""
    stats: Any = pstats.Stats(str(profile))
    total = stats.total_tt
    own = rank(stats.stats, column=2, shown=shown)
    whole = rank(stats.stats, column=3, shown=shown)
    return "\n".join(
        [
            f"{profile}: {total:.2f} s",
            "own time:",
            *(f"  {line}" for line in own),
            "with all that is called:",
            *(f"  {line}" for line in whole),
        ]
    )


def rank(stats: dict[tuple[str, int, str], tuple[Any, ...]], *, column: int, shown: int) -> list[str]:
    """The functions with the highest figures in that column: 2 is their own time, 3 includes what they call."""
    ordered = sorted(stats.items(), key=lambda pair: pair[1][column], reverse=True)
    return [f"{values[column]:8.3f} s {values[1]:9,} calls  {name_function(key)}" for key, values in ordered[:shown]]


def name_function(key: tuple[str, int, str]) -> str:
    """Where a function stands, without the folders above its package."""
    file, line, function = key
    if file == "~":
        return function
    return f"{function}  ({'/'.join(Path(file).parts[-3:])}:{line})"
