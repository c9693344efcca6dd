"""Restoration of a suspended object whose definition cannot be applied because of a problem.

The object runs as before, like any object whose update fails. A mere delay does not restore it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from hearth.plan.resource.suspend import suspend_object
from hearth.plan.state import steps
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.requirements import CollectionStatus
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.suspend_record import SuspendRecords

STUCK = frozenset({ResourceState.FAILED, ResourceState.STOPPED})


def restore_if_stuck(
    name: str,
    status: ResourceStatus,
    unready: Iterable[ResourceStatus | CollectionStatus],
    *,
    memory: InMemoryState,
    records: SuspendRecords,
    now: float,
) -> ResourceStatus:
    """Add the step that restores the object if it is suspended and the resource is stuck.

    unready: statuses of the resources that it waits for; now: monotonic seconds.
    """
    if status.state is ResourceState.WAITING:
        waits_for = list(unready)
        is_stuck = all(each.is_stuck for each in waits_for) if waits_for else status.cause is Cause.VALUE_MISSING
    else:
        is_stuck = status.state in STUCK
    if not is_stuck:
        return status
    child = status.child
    if child is None or child.deleting or not records.is_suspended_now(child):
        return dataclasses.replace(status, is_stuck=True)
    if status.step is not None or name in memory.in_flight or child.uid in memory.in_flight:
        return status
    step = suspend_object.restore(child, records)
    # Restoring has its own key: a rejection of one step says nothing about the other.
    attempt = memory.attempts.get(child.uid)
    if attempt is not None and attempt.attempt_id == steps.attempt_id(step) and attempt.retry_at > now:
        wakes = (each for each in (status.requeue_at, attempt.retry_at) if each is not None)
        return dataclasses.replace(status, requeue_at=min(wakes))
    return dataclasses.replace(status, restore_step=step)
