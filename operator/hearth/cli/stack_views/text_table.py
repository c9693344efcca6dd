"""Columns of text as kubectl aligns them. Pure; colors are only names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

Cell: TypeAlias = tuple[str, str]
"""A text and the name of its color, "" for none."""
GAP: Final = 3
"""Spaces between columns, as in kubectl."""
ELLIPSIS: Final = "…"


def align(header: Sequence[str], rows: Sequence[Sequence[Cell]], *, width: int | None = None) -> list[list[Cell]]:
    """Return header and rows with padded cells; the last column is cut to fit into `width` columns, if given."""
    lines = [[(title, "") for title in header], *rows]
    widths = [max(len(line[column][0]) for line in lines) for column in range(len(header))]
    used = sum(widths[:-1]) + GAP * (len(header) - 1)
    rest = max(10, width - used) if width is not None else None
    return [
        [*(pad(cell, size) for cell, size in zip(line[:-1], widths, strict=False)), cut(line[-1], rest)]
        for line in lines
    ]


def pad(cell: Cell, width: int) -> Cell:
    """Return the cell with the gap to the next column."""
    return cell[0].ljust(width + GAP), cell[1]


def cut(cell: Cell, width: int | None) -> Cell:
    """Return the cell in at most `width` columns."""
    text, color = cell
    return (text if width is None or len(text) <= width else text[: width - 1] + ELLIPSIS), color
