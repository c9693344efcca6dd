"""Work that takes long, in pieces (see `hearth.model.work`), as it is cut for templates."""

from __future__ import annotations

from hearth.model.work import ChunkedWork, Result, finish

__all__ = ("LARGE", "MARKS_IN_A_PIECE", "ChunkedWork", "Result", "Unevaluated", "finish")


class Unevaluated(Exception):
    """The work needs expressions that are still being evaluated: begin it again when that is done."""


MARKS_IN_A_PIECE = 16
"""Texts with expressions that are looked at, or evaluated, in one piece: more than most resources have."""
LARGE = 65_536
"""Bytes of a value from which it is a piece by itself."""
