"""Decides which change of a Stack's status the owner of the installation is notified of.

These are the changes that need a person: the Stack failed, was rolled back, stopped at a breakpoint, waits for an
approval, or has drift that is not repaired. The texts are those of its Events and conditions.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hearth.model import value_class
from hearth.model.phases import ConditionType
from hearth.plan.status import conditions, status_changes
from hearth.plan.status.status_changes import StackEvent
from hearth.plan.target.change_hold import HoldReason


class NoticeType(enum.StrEnum):
    """Closed set: the types of notices, as receivers see them after `dev.hearth.stack.`."""

    FAILED = "failed"
    ROLLED_BACK = "rolledback"
    STOPPED = "stopped"
    DRIFTED = "drifted"
    UNAPPROVED = "unapproved"


DRIFT: Final = (ConditionType.DRIFTED, ConditionType.DRIFT_CONFLICT)
"""The conditions whose Event is a notice, while they are True."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackNotice:
    """A change of one Stack that needs a person."""

    type: NoticeType
    reason: str
    message: str
    phase: str
    revision: int | None
    """The revision of the target; None before there is one."""


def find_notices(
    before: Mapping[str, Any], after: Mapping[str, Any], events: Iterable[StackEvent]
) -> Iterator[StackNotice]:
    """Yield the notices about a change of the status. events: those of the same change.

    An object may choose the reason of a failure, but neither the phase nor the conditions.
    """
    for event in events:
        if status_changes.is_stop(event.reason, after):
            yield make_notice(NoticeType.STOPPED, event.reason, event.message, after)
        elif event.reason in DRIFT and conditions.find(after, event.reason).get("message") == event.message:
            yield make_notice(NoticeType.DRIFTED, event.reason, event.message, after)
    if (plan := find_pending(after)) and plan != find_pending(before):
        message = conditions.find(after, ConditionType.CHANGE_HELD)["message"]
        yield make_notice(NoticeType.UNAPPROVED, HoldReason.APPROVAL, message, after)
    ready = conditions.find(after, "Ready")
    is_failure = status_changes.is_true(after, "Stalled") and status_changes.is_new_outcome(before, after)
    if is_failure and not is_repeated_failure(before, after):
        is_back = ready["reason"] == conditions.ROLLED_BACK and str(after["phase"]).endswith("Complete")
        type_ = NoticeType.ROLLED_BACK if is_back else NoticeType.FAILED
        yield make_notice(type_, ready["reason"], ready["message"], after)


def find_pending(status: Mapping[str, Any]) -> str:
    """Return the name of the StackPlan that waits for an approval; "" if none does."""
    return str((status.get("heldChange") or {}).get("plan", ""))


def is_repeated_failure(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a failed target was only tried again, as after a restart, and was not ready in between."""
    target, earlier = after.get("target") or {}, before.get("target") or {}
    old, new = conditions.find(before, "Ready"), conditions.find(after, "Ready")
    return (
        str(before.get("phase")).endswith("InProgress")
        and before.get("lastFailedRevision") == target.get("revision")
        and before.get("observedGeneration") == after.get("observedGeneration")
        and (earlier.get("revision"), earlier.get("since")) == (target.get("revision"), target.get("since"))
        and old.get("lastTransitionTime") == new.get("lastTransitionTime")
    )


def make_notice(type_: NoticeType, reason: str, message: str, status: Mapping[str, Any]) -> StackNotice:
    """Return the notice with the phase and revision of the status."""
    revision = (status.get("target") or {}).get("revision")
    return StackNotice(type=type_, reason=reason, message=message, phase=str(status["phase"]), revision=revision)
