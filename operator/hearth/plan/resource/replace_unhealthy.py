"""How a resource is replaced whose object somebody marked unhealthy, and what is said while that has to wait."""

from __future__ import annotations

import dataclasses

from hearth.model.child import Child
from hearth.plan.ownership.field_ownership import DriftFinding
from hearth.plan.resource import decide, readiness, removal, step_planning
from hearth.plan.state import healing
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.healing import HealingDelay
from hearth.plan.state.resource_conditions import ResourceCondition
from hearth.plan.state.resource_context import ResourceContext
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.template.blueprint import Replacement


def replace_unhealthy(
    subject: ResourceContext, child: Child, desired: DesiredObject, finding: DriftFinding
) -> ResourceStatus:
    """The standing of a resource whose object is marked."""
    policy = find_policy(subject)
    obstacle = find_delay(subject, child, policy)
    if obstacle is None:
        standing = _replace(subject, child, policy)
        reason, outlook = "BeingReplaced", "it is being replaced"
        if standing.requeue_at is not None:
            outlook = f"its replacement is not done yet ({standing.message})"
    else:
        # What can be done in place goes on: the object may have to do for long.
        standing = decide.decide(subject, child, desired, finding)
        reason, outlook = obstacle.reason, obstacle.message
        if standing.reason == readiness.UNHEALTHY:
            standing = dataclasses.replace(standing, message=f"{standing.message}; {outlook}")
    message = f"{subject.name} ({child.ref}) is marked unhealthy: {child.unhealthy_reason}; {outlook}"
    remark = ResourceCondition(type=healing.TYPE, reason=reason, message=message)
    return dataclasses.replace(standing, conditions=(*standing.conditions, remark))


def find_policy(subject: ResourceContext) -> Replacement:
    """How the resource is replaced: a mark does it for kinds that are never replaced unasked, too."""
    if subject.resource.replacement is not None:
        return subject.resource.replacement
    return Replacement.DELETE_FIRST if subject.desired.is_name_pinned else Replacement.CREATE_FIRST


def find_delay(subject: ResourceContext, child: Child, policy: Replacement) -> HealingDelay | None:
    """Why the resource is not replaced now, None where it is."""
    if policy is Replacement.NEVER:
        message = "updatePolicy.replace: Never keeps it; take that away, or take the mark back"
        return HealingDelay(reason="NeverReplaced", message=message)
    if subject.desired.is_name_pinned and removal.is_retained(child, subject.blueprint):
        return HealingDelay(reason="Kept", message=removal.explain_retained(child))
    return subject.unhealthy.find_delay(is_marked=True)


def _replace(subject: ResourceContext, child: Child, policy: Replacement) -> ResourceStatus:
    """The standing of a resource that gets another object now, or as soon as it may after earlier marks."""
    memory = subject.memory
    spell = memory.mark_backoffs.get(subject.name)
    why = f"is marked unhealthy: {child.unhealthy_reason}"
    if child.uid not in memory.counted_failures:
        # Nobody has counted this mark yet: whoever reads this standing does, and asks again.
        return readiness.make_status(child, ResourceState.PROGRESSING, readiness.UNHEALTHY, why, is_terminal=True)
    if (
        spell is not None
        and spell.uid == child.uid
        and spell.due > subject.now
        and subject.name not in memory.in_flight
    ):
        message = f"{why}; {spell.count} objects of it were marked one after the other, so the next one has to wait"
        return dataclasses.replace(
            readiness.make_status(child, ResourceState.RETRYING, readiness.UNHEALTHY, message), requeue_at=spell.due
        )
    if policy is Replacement.DELETE_FIRST and not removal.is_retained(child, subject.blueprint):
        return step_planning.plan_delete(subject, child, f"{why}; it goes first, then it is made anew")
    return decide.plan_replacement(subject)
