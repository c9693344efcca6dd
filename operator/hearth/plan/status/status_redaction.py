"""Texts of a status before the operator writes it: without sensitive values, and no longer than they may be.

Values computed from sensitive values are redacted at their origin. This module redacts values that come from other
components, for example from a child whose own status quotes its password.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from hearth.model import limits
from hearth.model.child import Object
from hearth.model.text import redaction
from hearth.plan.status import check_result

TEXTS = ("reason", "message")
"""Fields of a condition or problem that may quote an object."""


def redact_status(status: Object, hidden: Collection[str]) -> Object:
    """Remove the texts `hidden` from the status; return it unchanged if there are none."""
    if not hidden:
        return status
    covered = map_entries(status, ("conditions", "problems"), lambda entry: cover(entry, hidden))
    if "target" in status:
        covered["target"] = cover(status["target"], hidden)
    if "warnings" in status:
        covered["warnings"] = [redaction.redact(warning, hidden) for warning in status["warnings"]]
    if "outputs" in status:
        covered["outputs"] = redaction.redact_within(status["outputs"], hidden)
    return covered


def shorten_status(status: Object) -> Object:
    """Cut texts that are too long for a status. After the redaction, which does not find a part of a text."""
    return map_entries(map_entries(status, ("conditions",), shorten_reason), ("problems",), shorten)


def map_entries(status: Object, parts: Collection[str], change: Callable[[Object], Object]) -> Object:
    """Return the status with other entries in these lists. The result of a check has a list of problems as well."""
    changed = {**status, **{part: list(map(change, status[part])) for part in parts if part in status}}
    check = status.get(check_result.VERB)
    if "problems" in parts and check and "problems" in check:
        changed[check_result.VERB] = {**check, "problems": list(map(change, check["problems"]))}
    return changed


def cover(entry: Object, hidden: Collection[str]) -> Object:
    """Redact the texts of one condition or problem."""
    texts: dict[str, Any] = {key: entry[key] for key in TEXTS if isinstance(entry.get(key), str)}
    return {**entry, **{key: redaction.redact(text, hidden) for key, text in texts.items()}}


def shorten_reason(entry: Object) -> Object:
    """Cut the reason of one condition."""
    return {**entry, "reason": entry["reason"][: limits.REASON_SHOWN]}


def shorten(entry: Object) -> Object:
    """Cut the texts of one problem."""
    return {**shorten_reason(entry), "message": entry["message"][: limits.PROBLEM_SHOWN]}
