"""Status of a resource whose writes repeat although its definition does not change: they are delayed, and it says why.

While that lasts the status is steady: an object that is made again and again is no progress, and one that has only just
come back is not ready yet. Must not know how long the delays are.
"""

from __future__ import annotations

import dataclasses

from hearth.plan.retry.step_governor import StepRecord
from hearth.plan.state.condition_types import ConditionType
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import Cause, ResourceCondition, ResourceState, ResourceStatus
from hearth.plan.state.steps import Apply

VANISHES = "ObjectVanishes"
UNDONE = "ChangeUndone"
UNSTEADY = "ValuesUnsteady"
AUDIT_LOG = "the API server's audit log names the client"
RETRY = "a retry request tries once more at once"
NOTICED = 1.0
"""Seconds of a delay from which it is reported: the first ones are shorter than a write may take."""
REPEATED = f"was written several times lately with the same content, so that the next time is delayed ({RETRY})"


def hold(name: str, status: ResourceStatus, *, memory: InMemoryState, now: float) -> ResourceStatus:
    """Return the status with its step only if its delay is over, and with what undoes the writes. now: monotonic seconds."""
    step, record = status.step, memory.governor.find_problem(name, now=now)
    due = memory.find_due(name, step) if step is not None else 0.0
    if due > now:
        status = dataclasses.replace(status, step=None, requeue_at=_first(status.requeue_at, due))
        if record is None and status.cause is Cause.APPLYING and due > now + NOTICED:
            status = dataclasses.replace(status, message=REPEATED)
    if record is None or status.ref is None:
        return status
    conflict = memory.find_conflict(name, now=now)
    if conflict is not None and conflict.is_conflict and not record.is_vanishing:
        # Its condition says more.
        return status
    return _report(name, status, record, is_unfinished=_is_unfinished(name, status, memory), now=now)


def _is_unfinished(name: str, status: ResourceStatus, memory: InMemoryState) -> bool:
    """Return whether the resource only waits for an apply: due, delayed or in flight."""
    return status.cause is Cause.APPLYING or (isinstance(memory.in_flight.get(name), Apply) and status.child is None)


def _report(
    name: str, status: ResourceStatus, record: StepRecord, *, is_unfinished: bool, now: float
) -> ResourceStatus:
    """Report the repetition: as a problem while it keeps the resource from being as wanted, and as a condition until it ends."""
    reason, message = _explain(record)
    condition = ResourceCondition(
        type=ConditionType.WRITES_DELAYED, reason=reason, message=f"{name} ({status.ref}) {message}"
    )
    wake_at = _first(status.requeue_at, record.expires_at)
    is_passing = status.is_ready or status.state is ResourceState.PROGRESSING
    if record.is_vanishing and is_passing and status.child is not None and now < record.lasts_from:
        is_unfinished, wake_at = True, _first(status.requeue_at, record.lasts_from)
    if is_unfinished:
        state = ResourceState.FAILED if record.is_exhausted else ResourceState.RETRYING
        status = dataclasses.replace(status, state=state, reason=reason, message=message, cause=Cause.OTHER)
    return dataclasses.replace(status, requeue_at=wake_at, conditions=(*status.conditions, condition))


def _explain(record: StepRecord) -> tuple[str, str]:
    """Return the reason and what undoes the writes, with the ways out."""
    if record.is_vanishing:
        known = record.evidence or f"another client deletes it; {AUDIT_LOG}"
        return VANISHES, (
            f"was created {record.creations} times and is gone each time: {known}; creations are delayed: end that, or "
            f"take the resource out of the template ({RETRY})"
        )
    if record.is_unsteady:
        return UNSTEADY, (
            "gets other values again and again from the objects that it reads, although the Stack does not change; "
            "applies are delayed: let it read fields that are steady"
        )
    known = record.evidence or f"another client or a mutating webhook changes it; {AUDIT_LOG}; stop that writer"
    return UNDONE, (
        f"was applied {record.done} times and does not stay as applied: {known}; applies are delayed until then ({RETRY})"
    )


def _first(known: float | None, due: float) -> float:
    """Return the earlier time."""
    return due if known is None else min(known, due)
