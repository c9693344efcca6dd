"""Aligns columns of text as kubectl does."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, TypeAlias

Cell: TypeAlias = tuple[str, str]
"""A text and the name of its color, "" for none."""
GAP: Final = 3
"""Spaces between columns, as in kubectl."""
ELLIPSIS: Final = "…"
LAST_WIDTH: Final = 16
"""Minimum width of the last column, a message, before other columns are dropped."""


def align(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], *, width: int | None = None, optional: Sequence[str] = ()
) -> list[list[Cell]]:
    """Return header and rows with padded cells.

    width: of the terminal, if any. The columns with optional titles are dropped one by one until the others fit. Then
    the last column is cut.
    """
    lines = [[(title, "") for title in header], *rows]
    dropped = {header.index(title) for title in optional} if width is not None else set()
    for title in reversed(optional):
        # Restore the columns that fit, the most important first.
        at = header.index(title)
        if width is not None and find_used(lines, dropped - {at}) + LAST_WIDTH <= width:
            dropped.discard(at)
    lines = [[cell for at, cell in enumerate(line) if at not in dropped] for line in lines]
    widths = [max(len(line[column][0]) for line in lines) for column in range(len(lines[0]))]
    used = sum(widths[:-1]) + GAP * (len(widths) - 1)
    rest = max(10, width - used) if width is not None else None
    return [
        [*(pad(cell, size) for cell, size in zip(line[:-1], widths, strict=False)), cut(line[-1], rest)]
        for line in lines
    ]


def find_used(lines: Sequence[Sequence[Cell]], dropped: Set[int]) -> int:
    """Return the width of all columns but the last one, without those that are dropped."""
    kept = [at for at in range(len(lines[0]) - 1) if at not in dropped]
    return sum(max(len(line[at][0]) for line in lines) + GAP for at in kept)


def pad(cell: Cell, width: int) -> Cell:
    """Return the cell with the gap to the next column."""
    return cell[0].ljust(width + GAP), cell[1]


def cut(cell: Cell, width: int | None) -> Cell:
    """Return the cell in at most `width` columns."""
    text, color = cell
    return (text if width is None or len(text) <= width else text[: width - 1] + ELLIPSIS), color
