"""Compares two statuses of a Stack: the merge patch, whether the change is mere progress, and the Events to record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from hearth.model import packing, phases, value_class
from hearth.model.child import Object
from hearth.model.phases import ConditionType, Phase
from hearth.plan.state import condition_types
from hearth.plan.state.condition_types import STOPS, Severity
from hearth.plan.status import check_result, conditions
from hearth.plan.target import target_status

PROGRESS = frozenset({"conditions", "resources", "members", "replicas", "readyReplicas", "summary"})
"""The fields that change during normal progress."""
START = frozenset(
    {
        *PROGRESS,
        *("observedGeneration", "phase", "state", "revision", "problems", "outputs", "selector"),
        *(target_status.TARGET, target_status.CONTROLLER_STATE, target_status.SIGNATURE),
    }
)
"""The fields that change when the work towards a target starts."""


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    """Make the merge patch from one status to the other. Returns an empty result if they are equal."""
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
    # A repair is not a start.
    is_new = any(before.get(key) != after.get(key) for key in ("observedGeneration", "revision"))
    is_new = is_new or (after["phase"] == phases.Phase.DELETE_IN_PROGRESS != before.get("phase"))
    return is_new and find_changes(before, after).keys() <= START and _extras(before) == _extras(after)


def is_repair_only(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a complete Stack only started to work again on the same target, without problems."""
    then, now = str(before.get("phase", "")), str(after["phase"])
    if not (then.endswith("Complete") and now.endswith("InProgress")):
        return False
    if then.removesuffix("Complete") != now.removesuffix("InProgress"):
        return False
    types, types_before = ([type_ for type_, _, _ in _outline(each)] for each in (after, before))
    return types == types_before and find_changes(before, after).keys() <= PROGRESS | {"phase"}


def _extras(status: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the outline of the conditions that do not follow from the phase."""
    return [each for each in _outline(status) if each[0] not in phases.KSTATUS_CONDITIONS]


def _outline(status: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the conditions without messages and times."""
    return [(each["type"], each["status"], each["reason"]) for each in status.get("conditions") or ()]


# Changes that get an Event: each change that a person or an alert may wait for.

SUSPENDED: Final = "Suspended"
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

    severity: Severity
    reason: str
    message: str


def find_events(
    before: Mapping[str, Any], after: Mapping[str, Any], *, unfinished: Collection[str] = (), owed: Collection[str] = ()
) -> tuple[list[StackEvent], frozenset[str]]:
    """Return the Events for a change of the status. unfinished, owed, second result: see `find_conditions`."""
    ready, check = conditions.find(after, "Ready"), find_check(before, after)
    changed, later = find_conditions(before, after, unfinished=unfinished, owed=owed)
    found = [*find_stop(before, after), *find_tampered(before, after), *check, *find_warnings(before, after), *changed]
    # A condition with the same reason lists all resources, but the outcome lists only the first one.
    is_said = any(each.reason == ready["reason"] for each in changed)
    if not check and not is_said and is_new_outcome(before, after):
        severity = Severity.WARNING if is_true(after, "Stalled") else Severity.NORMAL
        found.append(StackEvent(severity=severity, reason=ready["reason"], message=ready["message"]))
    return found, later


def find_stop(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[StackEvent]:
    """Yield an Event if the Stack stopped at other breakpoints, or for other removals."""
    old, new = conditions.find(before, "Ready"), conditions.find(after, "Ready")
    if is_stop(new["reason"], after) and old.get("message") != new["message"]:
        yield StackEvent(severity=Severity.NORMAL, reason=new["reason"], message=new["message"])


def is_stop(reason: str, status: Mapping[str, Any]) -> bool:
    """Return whether the reason is that of a stop. An object may choose the reason of a failure, but not the phase."""
    return reason in STOPS and str(status["phase"]).endswith("Stopped")


def find_tampered(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[StackEvent]:
    """Yield an Event if other revisions were tampered with."""
    type_ = ConditionType.REVISION_TAMPERED
    old, new = conditions.find(before, type_), conditions.find(after, type_)
    if new.get("status") == "True" and old.get("message") != new["message"]:
        yield StackEvent(severity=Severity.WARNING, reason=type_, message=new["message"])


def find_check(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[StackEvent]:
    """Return an Event if a check has a new result."""
    found = check_result.describe_news(before, after)
    if found is None:
        return []
    reason, message = found
    severity = Severity.WARNING if reason == Phase.CHECK_FAILED else Severity.NORMAL
    return [StackEvent(severity=severity, reason=reason, message=message)]


def find_conditions(
    before: Mapping[str, Any], after: Mapping[str, Any], *, unfinished: Collection[str] = (), owed: Collection[str] = ()
) -> tuple[list[StackEvent], frozenset[str]]:
    """Return an Event for each notable condition that became True, and for the end of a pause.

    unfinished: the conditions whose text still waits for the name of a field manager; owed: the conditions that became
    True earlier with an unfinished text. The second result is `owed` for the next status.
    """
    found, later = [], set()
    for type_, traits in condition_types.TABLE.items():
        if traits.event is None or not is_true(after, type_) or (is_true(before, type_) and type_ not in owed):
            continue
        if type_ in unfinished:
            later.add(type_)
        else:
            found.append(
                StackEvent(severity=traits.event, reason=type_, message=conditions.find(after, type_)["message"])
            )
    if is_true(before, ConditionType.PAUSED) and not is_true(after, ConditionType.PAUSED):
        message = "spec.paused is no longer true: changes are applied"
        found.append(StackEvent(severity=Severity.NORMAL, reason=UNPAUSED, message=message))
    return found, frozenset(later) if later else packing.NOTHING


def find_warnings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[StackEvent]:
    """Yield an Event for each new warning."""
    known = before.get("warnings") or ()
    for text in after.get("warnings") or ():
        if text not in known:
            reason = next((reason for field, reason in WARNINGS if text.startswith(field)), OTHER_WARNING)
            yield StackEvent(severity=Severity.WARNING, reason=reason, message=text)


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
