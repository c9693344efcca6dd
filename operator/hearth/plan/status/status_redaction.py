"""The last look at a status before it is written: nothing that anybody reads holds a sensitive value.

What is made of a sensitive value is hidden where it is made; this finds what comes back from others, such as a child whose
own status quotes its password.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hearth.model import redaction
from hearth.model.child import Object


def redact_status(status: Object, hidden: Collection[str]) -> Object:
    """The status without any of the texts `hidden`; itself where there are none."""
    if not hidden:
        return status
    covered = {**status}
    for part in ("conditions", "problems"):
        if part in status:
            covered[part] = [cover_message(entry, hidden) for entry in status[part]]
    if "warnings" in status:
        covered["warnings"] = [redaction.redact(warning, hidden) for warning in status["warnings"]]
    if "outputs" in status:
        covered["outputs"] = redaction.redact_within(status["outputs"], hidden)
    return covered


def cover_message(entry: Object, hidden: Collection[str]) -> Object:
    """One condition or problem."""
    message: Any = entry.get("message")
    return {**entry, "message": redaction.redact(message, hidden)} if isinstance(message, str) else entry
