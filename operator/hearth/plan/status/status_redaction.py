"""Redaction of a status before the operator writes it, so that no status contains a sensitive value.

Values computed from sensitive values are redacted at their origin. This module redacts values that come from other
components, for example from a child whose own status quotes its password.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hearth.model.child import Object
from hearth.model.text import redaction


def redact_status(status: Object, hidden: Collection[str]) -> Object:
    """Remove the texts `hidden` from the status; return it unchanged if there are none."""
    if not hidden:
        return status
    covered = {**status}
    for part in ("conditions", "problems"):
        if part in status:
            covered[part] = [cover_message(entry, hidden) for entry in status[part]]
    if "target" in status:
        covered["target"] = cover_message(status["target"], hidden)
    if "warnings" in status:
        covered["warnings"] = [redaction.redact(warning, hidden) for warning in status["warnings"]]
    if "outputs" in status:
        covered["outputs"] = redaction.redact_within(status["outputs"], hidden)
    return covered


def cover_message(entry: Object, hidden: Collection[str]) -> Object:
    """Redact the message of one condition or problem."""
    message: Any = entry.get("message")
    return {**entry, "message": redaction.redact(message, hidden)} if isinstance(message, str) else entry
