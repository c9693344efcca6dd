"""The difference of two statuses: the patch between them, and what it means to a reader.

Must not know what a status is built from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import phases
from hearth.model.child import Object
from hearth.plan.target import status_signature, target_status

PROGRESS = frozenset({"conditions", "resources", "members", "replicas", "readyReplicas", "summary"})
"""The fields that change during normal progress."""
START = frozenset(
    {
        *PROGRESS,
        *("observedGeneration", "phase", "state", "revision", "problems", "outputs", "selector"),
        *(target_status.TARGET, target_status.CONTROLLER_STATE, status_signature.FIELD),
    }
)
"""The fields that change when the work towards a target starts."""
BY_PHASE = frozenset({"Ready", "Reconciling", "Stalled"})
"""The conditions that follow from the phase."""


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    """Make the merge patch from one status to the other; empty if they are equal."""
    patch: Object = {}
    for key in before.keys() - after.keys():
        patch[key] = None
    for key, value in after.items():
        old = before.get(key)
        if old == value:
            continue
        patch[key] = find_changes(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch


def is_progress_only(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether only counts and messages differ: no phase, no other part of a condition, and no problem changes."""
    changed = find_changes(before, after).keys()
    return changed <= PROGRESS and _outline(before) == _outline(after)


def is_start_only(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether the Stack only started to work towards another target, without anything else to report."""
    if not str(after["phase"]).endswith("InProgress") or after.get("problems"):
        return False
    # A repair is no start.
    is_new = any(before.get(key) != after.get(key) for key in ("observedGeneration", "revision"))
    is_new = is_new or (after["phase"] == phases.Phase.DELETE_IN_PROGRESS != before.get("phase"))
    return is_new and find_changes(before, after).keys() <= START and _extras(before) == _extras(after)


def is_repair_only(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a complete Stack is only in progress again for the same target, without problems."""
    then, now = str(before.get("phase", "")), str(after["phase"])
    if not (then.endswith("Complete") and now.endswith("InProgress")):
        return False
    if then.removesuffix("Complete") != now.removesuffix("InProgress"):
        return False
    types, types_before = ([type_ for type_, _, _ in _outline(each)] for each in (after, before))
    return types == types_before and find_changes(before, after).keys() <= PROGRESS | {"phase"}


def _extras(status: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the outline of the conditions that do not follow from the phase."""
    return [each for each in _outline(status) if each[0] not in BY_PHASE]


def _outline(status: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the conditions without messages and times."""
    return [(each["type"], each["status"], each["reason"]) for each in status.get("conditions") or ()]
