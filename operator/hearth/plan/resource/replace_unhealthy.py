"""Replacement of a resource whose object is marked unhealthy, and the explanation of a delay."""

from __future__ import annotations

import dataclasses

from hearth.model.child import Child
from hearth.plan.environment.environment_rules import Action
from hearth.plan.ownership.field_ownership import DriftFinding
from hearth.plan.resource import decide, enforcement, read_limits, readiness, removal, step_planning
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.healing import HealingDelay
from hearth.plan.state.resource_conditions import ConditionType, ResourceCondition
from hearth.plan.state.resource_context import ResourceContext
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.template.blueprint import Replacement


def replace_unhealthy(
    subject: ResourceContext, child: Child, desired: DesiredObject, finding: DriftFinding
) -> ResourceStatus:
    """Plan a resource whose object is marked unhealthy."""
    policy = find_policy(subject)
    obstacle = find_delay(subject, child, policy)
    if obstacle is None:
        status = _replace(subject, child, policy)
        reason, outlook = _find_hold(subject) or ("Replacing", "it is being replaced")
        if status.requeue_at is not None:
            outlook = f"its replacement is not done yet ({status.message})"
    else:
        # Changes in place continue, since the object may stay in use for a long time.
        status = decide.decide(subject, child, desired, finding)
        reason, outlook = obstacle.reason, obstacle.message
        if status.cause is Cause.MARKED_UNHEALTHY:
            status = dataclasses.replace(status, message=f"{status.message}; {outlook}")
    message = f"{subject.name} ({child.ref}) {read_limits.describe_mark(subject.reader, child)}; {outlook}"
    condition = ResourceCondition(type=ConditionType.UNHEALTHY, reason=reason, message=message)
    return dataclasses.replace(status, conditions=(*status.conditions, condition))


def find_policy(subject: ResourceContext) -> Replacement:
    """Return the replacement policy. A mark also replaces kinds that are never replaced automatically."""
    if subject.resource.replacement is not None:
        return subject.resource.replacement
    return Replacement.DELETE_FIRST if subject.desired.is_name_pinned else Replacement.CREATE_FIRST


def find_delay(subject: ResourceContext, child: Child, policy: Replacement) -> HealingDelay | None:
    """Return why the resource is not replaced now, or None if it is."""
    if policy is Replacement.NEVER:
        message = "updatePolicy.replace: Never prevents its replacement; remove that setting, or remove the mark"
        return HealingDelay(reason="ReplacementDisabled", message=message)
    if subject.desired.is_name_pinned and removal.is_retained(child, subject.blueprint):
        return HealingDelay(reason="Retained", message=removal.explain_retained(child))
    return subject.unhealthy.find_delay(is_marked=True)


def _find_hold(subject: ResourceContext) -> tuple[str, str] | None:
    """Return reason and text of what a user has set to prevent the replacement; None if there is nothing."""
    rule = subject.environment.rules.find_restriction(subject.name, Action.REPLACE)
    if rule is not None:
        return enforcement.RESTRICTED, f"its replacement is denied by {rule.place}"
    if subject.is_paused:
        return "Paused", "it is replaced when spec.paused is no longer true"
    hook = enforcement.BEFORE[Action.REPLACE]
    if subject.environment.stops_at(subject.name, hook):
        return enforcement.STOPPED, f"its replacement is stopped at the breakpoint {hook}"
    return None


def _replace(subject: ResourceContext, child: Child, policy: Replacement) -> ResourceStatus:
    """Plan another object now, or after the backoff for earlier marks."""
    memory = subject.memory
    backoff = memory.mark_backoffs.get(subject.name)
    why = read_limits.describe_mark(subject.reader, child)
    if child.uid not in memory.counted_failures:
        # This mark is not counted yet. The caller counts it and plans again.
        return readiness.make_status(child, ResourceState.PROGRESSING, readiness.UNHEALTHY, why, is_terminal=True)
    if (
        backoff is not None
        and backoff.uid == child.uid
        and backoff.due > subject.now
        and subject.name not in memory.in_flight
    ):
        message = f"{why}; {backoff.count} of its objects were marked in a row, so the next replacement is delayed"
        return dataclasses.replace(
            readiness.make_status(child, ResourceState.RETRYING, readiness.UNHEALTHY, message), requeue_at=backoff.due
        )
    if policy is Replacement.KEEP_CLAIMS:
        return decide.plan_detach(subject, child, f"{why}; it is created again, and its Pods and claims stay")
    if policy is Replacement.DELETE_FIRST and not removal.is_retained(child, subject.blueprint):
        return step_planning.plan_delete(subject, child, f"{why}; it is deleted first, then created again")
    return decide.plan_replacement(subject)
