"""Replacement of a resource whose object is marked unhealthy, and the explanation of a delay."""

from __future__ import annotations

import dataclasses

from hearth.model.child import Child
from hearth.plan.environment.environment_rules import Action
from hearth.plan.ownership.field_ownership import DriftFinding
from hearth.plan.resource import decide, enforcement, read_limits, readiness, removal, step_planning
from hearth.plan.state.condition_types import ConditionType
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.healing import HealingDelay
from hearth.plan.state.resource_context import ResourceContext
from hearth.plan.state.resource_status import Cause, ResourceCondition, ResourceState, ResourceStatus
from hearth.template.blueprint import Replacement


def replace_unhealthy(
    context: ResourceContext, child: Child, desired: DesiredObject, finding: DriftFinding
) -> ResourceStatus:
    """Plan a resource whose object is marked unhealthy."""
    policy = find_policy(context)
    obstacle = find_delay(context, child, policy)
    if obstacle is None:
        status = _replace(context, child, policy)
        reason, outlook = _find_hold(context) or ("Replacing", "it is being replaced")
        if status.requeue_at is not None:
            outlook = f"its replacement is not done yet ({status.message})"
    else:
        # Changes in place continue, since the object may stay in use for a long time.
        status = decide.decide(context, child, desired, finding)
        reason, outlook = obstacle.reason, obstacle.message
        if status.cause is Cause.MARKED_UNHEALTHY:
            status = dataclasses.replace(status, message=f"{status.message}; {outlook}")
    message = f"{context.name} ({child.ref}) {read_limits.describe_mark(context.reader, child)}; {outlook}"
    condition = ResourceCondition(type=ConditionType.UNHEALTHY, reason=reason, message=message)
    return dataclasses.replace(status, conditions=(*status.conditions, condition))


def find_policy(context: ResourceContext) -> Replacement:
    """Return the replacement policy. A mark also replaces kinds that are never replaced automatically."""
    if context.resource.replacement is not None:
        return context.resource.replacement
    return Replacement.DELETE_FIRST if context.desired.is_name_pinned else Replacement.CREATE_FIRST


def find_delay(context: ResourceContext, child: Child, replacement: Replacement) -> HealingDelay | None:
    """Return why the resource is not replaced now, or None if it is."""
    if replacement is Replacement.NEVER:
        message = "updatePolicy.replace: Never prevents its replacement; remove that setting, or remove the mark"
        return HealingDelay(reason="ReplacementDisabled", message=message)
    if context.desired.is_name_pinned and removal.is_retained(child, context.blueprint):
        return HealingDelay(reason="Retained", message=removal.explain_retained(child))
    return context.unhealthy.find_delay(is_marked=True)


def _find_hold(context: ResourceContext) -> tuple[str, str] | None:
    """Return reason and text of what a user has set to prevent the replacement; None if there is nothing."""
    rule = context.environment.rules.find_restriction(context.name, Action.REPLACE)
    if rule is not None:
        return enforcement.RESTRICTED, f"its replacement is denied by {rule.place}"
    if context.is_paused:
        return "Paused", "it is replaced when spec.paused is no longer true"
    hook = enforcement.BEFORE[Action.REPLACE]
    if context.environment.stops_at(context.name, hook):
        return enforcement.STOPPED, f"its replacement is stopped at the breakpoint {hook}"
    return None


def _replace(context: ResourceContext, child: Child, replacement: Replacement) -> ResourceStatus:
    """Plan another object now, or after the backoff for earlier marks."""
    memory = context.memory
    backoff = memory.mark_backoffs.get(context.name)
    why = read_limits.describe_mark(context.reader, child)
    if child.uid not in memory.counted_failures:
        # This mark is not counted yet. The caller counts it and plans again.
        return readiness.make_status(child, ResourceState.PROGRESSING, readiness.UNHEALTHY, why, is_terminal=True)
    if (
        backoff is not None
        and backoff.uid == child.uid
        and backoff.due > context.now
        and context.name not in memory.in_flight
    ):
        message = f"{why}; {backoff.count} of its objects were marked in a row, so the next replacement is delayed"
        return dataclasses.replace(
            readiness.make_status(child, ResourceState.RETRYING, readiness.UNHEALTHY, message), requeue_at=backoff.due
        )
    if replacement is Replacement.KEEP_CLAIMS:
        return decide.plan_detach(context, child, f"{why}; it is created again, and its Pods and claims stay")
    if replacement is Replacement.DELETE_FIRST and not removal.is_retained(child, context.blueprint):
        return step_planning.plan_delete(context, child, f"{why}; it is deleted first, then created again")
    return decide.plan_replacement(context)
