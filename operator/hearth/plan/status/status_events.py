"""Which changes of a status deserve an Event: each one that a person or an alert may wait for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.plan.status import conditions

SUSPENDED: Final = "Suspended"
NORMAL, WARNING = "Normal", "Warning"
NOTABLE: Final = {
    "Paused": NORMAL,
    "RollingBack": NORMAL,
    "Drifted": WARNING,
    "DriftConflict": WARNING,
    "Unhealthy": WARNING,
}
"""Extra conditions that are reported when they become True, and the type of the Event."""


def find_conditions(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the type of the Event and the condition for each notable condition that became True."""
    for reason, type_ in NOTABLE.items():
        if is_true(after, reason) and not is_true(before, reason):
            yield type_, reason


def is_new_outcome(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether the Stack settled in another state, or failed with another text because its spec changed.

    The same problem first delays an action and later makes it fail, under one reason: both are outcomes.
    """
    old, new = conditions.find(before, "Ready"), conditions.find(after, "Ready")
    is_stalled = is_true(after, "Stalled")
    if not (new["status"] == "True" or is_stalled or new["reason"] == SUSPENDED):
        return False
    if (old.get("status"), old.get("reason")) != (new["status"], new["reason"]):
        return True
    is_edited = before.get("observedGeneration") != after.get("observedGeneration")
    return is_stalled and (not is_true(before, "Stalled") or (is_edited and old.get("message") != new["message"]))


def is_true(status: Mapping[str, Any], type_: str) -> bool:
    """Return whether a condition is True."""
    return bool(conditions.find(status, type_).get("status") == "True")
