"""Summarizes a profile of the operator: the top functions by own time and by cumulative time."""

from __future__ import annotations

import pstats
from pathlib import Path
from typing import Any, TypeAlias

import hearth

Function: TypeAlias = tuple[str, int, str]
"""File, line, name."""
Figures: TypeAlias = tuple[Any, ...]
"""Calls without recursion, calls, own time, time with all that was called, callers."""

SHOWN = 5
OWN, WHOLE = 2, 3
OURS = str(Path(hearth.__file__).parent)
FRAME = ("__main__.py", "app.py", "leadership.py", "runtime.py", "cli")
"""Functions that contain everything else, so they are not informative."""


def path_of(folder: Path, benchmark: str) -> Path:
    """The path of a benchmark's profile; if the operator restarts, the profile of the last process."""
    return folder / f"{benchmark}.prof"


def describe(profile: Path, *, shown: int = SHOWN) -> str:
    """Two lists."""
    stats: Any = pstats.Stats(str(profile))
    functions: dict[Function, Figures] = stats.stats
    ours = {function: figures for function, figures in functions.items() if is_telling(function)}
    return "\n".join(
        [
            f"{profile}: {stats.total_tt:.2f} s of CPU",
            "own time:",
            *rank(functions, OWN, shown=shown),
            "our own functions, with all that they call:",
            *rank(ours, WHOLE, shown=shown),
        ]
    )


def rank(functions: dict[Function, Figures], column: int, *, shown: int) -> list[str]:
    """A line for each of the functions with the highest figures in that column."""
    ordered = sorted(functions.items(), key=lambda pair: pair[1][column], reverse=True)[:shown]
    return [f"  {figures[column]:8.3f} s {figures[1]:9,} calls  {name(function)}" for function, figures in ordered]


def is_telling(function: Function) -> bool:
    """Whether it is a function of the operator, and not a caller of everything else."""
    file = Path(function[0])
    return file.is_relative_to(OURS) and not set(file.relative_to(OURS).parts) & set(FRAME)


def name(function: Function) -> str:
    """The place of a function, without the folders above its package."""
    file, line, called = function
    return called if file == "~" else f"{called}  ({'/'.join(Path(file).parts[-3:])}:{line})"
