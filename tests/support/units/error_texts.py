"""The message about an error response, with the object name that the engine puts before the causes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hearth.model.kinds import ObjectRef
from hearth.plan.retry import api_errors


def explain(code: int, status: Mapping[str, Any] | None, *, ref: ObjectRef, hidden: Collection[str] = ()) -> str:
    """The causes after the name, truncated as in an Event."""
    text = f"{ref}: {api_errors.describe(code, status, kind=ref.kind, hidden=hidden)}"
    return api_errors.shorten(text, length=api_errors.LONGEST_MESSAGE)
