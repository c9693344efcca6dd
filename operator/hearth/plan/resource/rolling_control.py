"""Control of one planned step by the rolling update of its collection: a change of a member waits for its batch.

Creations, repairs and deletions of obsolete objects never wait.
"""

from __future__ import annotations

from hearth.model.child import Child
from hearth.plan.environment.environment_rules import Action
from hearth.plan.resource import decide, enforcement
from hearth.plan.state.resource_context import ResourceContext
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.rolling_updates import PendingChange, RollingUpdate

CHANGES = (Action.UPDATE, Action.REPLACE)
REASON = "RollingUpdate"
WAITS = "waits until its batch of the rolling update starts"


def hold(subject: ResourceContext, status: ResourceStatus, update: RollingUpdate) -> ResourceStatus:
    """Return the status as it is if the step may start, otherwise without its step."""
    action = enforcement.classify_step(subject, status.step).starts if status.step is not None else None
    if action not in CHANGES:
        # A member that is stopped at a breakpoint after its change is not done.
        if status.is_ready and enforcement.enforce(subject, status).is_ready:
            update.note_settled(subject.name)
        else:
            update.note_unsettled(subject.name)
        return status
    child = find_represented(subject, status)
    health = decide.assess_child(subject, child) if child is not None else None
    if subject.environment.rules.find_restriction(subject.name, action) is not None:
        # It does not change, so the other members need not wait for it.
        update.note_settled(subject.name, is_available=health is not None and health.is_ready)
        return status
    change = PendingChange(
        is_available=health is not None and health.is_ready,
        is_outdated=child is not None and child.hash != subject.desired.hash,
    )
    if update.note_waiting(subject.name, change):
        return status
    return wait(status, health, child)


def find_represented(subject: ResourceContext, status: ResourceStatus) -> Child | None:
    """Return the object that the step changes, or that the next one replaces."""
    if status.child is not None:
        return status.child
    candidates = [child for child in subject.children if child.is_identified and not child.deleting]
    return max(candidates, key=lambda child: child.incarnation, default=None)


def wait(status: ResourceStatus, health: ResourceStatus | None, child: Child | None) -> ResourceStatus:
    """Return the status of a member that waits for its batch.

    That its present object has failed is no failure of the update, which will change or replace it.
    """
    has_failed = health is not None and health.state is ResourceState.FAILED
    return ResourceStatus(
        state=ResourceState.WAITING,
        reason=REASON,
        cause=Cause.ORDER,
        message=f"{health.message}; it {WAITS}" if health is not None and has_failed else WAITS,
        child=child,
        conditions=status.conditions,
        memory_updates=status.memory_updates,
    )
