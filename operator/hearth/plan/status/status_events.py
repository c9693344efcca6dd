"""Which changes of a status deserve an Event: each one that a person or an alert may wait for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from hearth.model import packing, value_class
from hearth.plan.status import conditions

SUSPENDED: Final = "Suspended"
NORMAL, WARNING = "Normal", "Warning"
NOTABLE: Final = {
    "Paused": NORMAL,
    "RollingBack": NORMAL,
    "Drifted": WARNING,
    "DriftConflict": WARNING,
    "WritesDelayed": WARNING,
    "Unhealthy": WARNING,
    "ClusterUnreachable": WARNING,
    "SuspendRecordInvalid": WARNING,
    "InternalError": WARNING,
}
"""Extra conditions that are reported when they become True, and the type of the Event."""
UNPAUSED: Final = "Unpaused"
WARNINGS: Final = (
    ("spec.environment", "ResourceNotFound"),
    ("spec.rollback", "RollbackIgnored"),
    ("outputs.", "OutputOmitted"),
)
"""Reason of the Event for a warning, by the field that its text begins with."""
OTHER_WARNING: Final = "DefinitionWarning"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackEvent:
    """An Event about a Stack."""

    type: str
    reason: str
    message: str


def find_conditions(
    before: Mapping[str, Any], after: Mapping[str, Any], *, unfinished: Collection[str] = (), owed: Collection[str] = ()
) -> tuple[list[StackEvent], frozenset[str]]:
    """Return an Event for each notable condition that became True, and for the end of a pause.

    unfinished: the conditions whose text still waits for the name of a field manager; owed: those that became True
    before with such a text. The second result is `owed` for the next status.
    """
    found, later = [], set()
    for type_, severity in NOTABLE.items():
        if not is_true(after, type_) or (is_true(before, type_) and type_ not in owed):
            continue
        if type_ in unfinished:
            later.add(type_)
        else:
            found.append(StackEvent(type=severity, reason=type_, message=conditions.find(after, type_)["message"]))
    if is_true(before, "Paused") and not is_true(after, "Paused"):
        message = "spec.paused is no longer true: changes are applied"
        found.append(StackEvent(type=NORMAL, reason=UNPAUSED, message=message))
    return found, frozenset(later) if later else packing.NOTHING


def find_warnings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[StackEvent]:
    """Yield an Event for each new warning."""
    known = before.get("warnings") or ()
    for text in after.get("warnings") or ():
        if text not in known:
            reason = next((reason for field, reason in WARNINGS if text.startswith(field)), OTHER_WARNING)
            yield StackEvent(type=WARNING, reason=reason, message=text)


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
