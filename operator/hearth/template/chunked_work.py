"""Long work in pieces (see `hearth.model.work`), sized for templates."""

from __future__ import annotations

from hearth.model.work import ChunkedWork, Result, finish

__all__ = ("LARGE", "MARKS_IN_A_PIECE", "ChunkedWork", "Result", "Unevaluated", "finish")


class Unevaluated(Exception):
    """The work needs expressions whose evaluation is not complete: start it again afterwards."""


MARKS_IN_A_PIECE = 16
"""Texts with expressions that are validated or evaluated in one piece: more than most resources have."""
LARGE = 65_536
"""Bytes from which a value is a piece by itself."""
