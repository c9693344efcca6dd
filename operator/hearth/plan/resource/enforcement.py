"""Stops planned steps at breakpoints, denies restricted actions and delays repeated writes.

The objects that exist determine whether a step counts as a create, an update or a replacement. The current action of
the Stack does not matter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import assert_never

from hearth.model import names, value_class
from hearth.model.child import Child
from hearth.model.phases import ConditionType
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.environment.environment_rules import Action, EnvironmentRule, EnvironmentRules
from hearth.plan.resource.resource_context import ResourceContext
from hearth.plan.retry.step_governor import StepRecord
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import Cause, ResourceCondition, ResourceReady, ResourceState, ResourceStatus
from hearth.plan.state.steps import (
    Apply,
    CreatePart,
    Delete,
    DeletePart,
    Detach,
    PartStep,
    Release,
    Restart,
    Step,
    Suspend,
    WriteHealthMark,
)

BEFORE: dict[Action, str] = {action: f"Pre{action}" for action in Action}
AFTER: dict[Action, str] = {action: f"Post{action}" for action in Action}
HOOKS = (*BEFORE.values(), *AFTER.values())
STOPPED, RESTRICTED = "Stopped", "Restricted"
CLAIM_ACTIONS = (Action.REPLACE, Action.DELETE)
"""Actions of a restore on a StatefulSet whose claim it replaces: the data is deleted before the next claim exists."""
HOOK_TEXTS = {
    **{BEFORE[action]: f"before its {word}" for action, word in
       zip(Action, ("creation", "update", "replacement", "deletion"), strict=True)},
    **{AFTER[action]: f"after its {word}" for action, word in
       zip(Action, ("creation", "update", "replacement", "deletion"), strict=True)},
}  # fmt: skip
"""Text for users by hook."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpan:
    """The action that a step starts or finishes for its resource. A repair does neither."""

    starts: Action | None = None
    """The action that begins with the step."""
    finishes: Action | None = None
    """The action that is finished once the step is executed and its object is ready."""


NOTHING = ActionSpan()


def enforce(context: ResourceContext, status: ResourceStatus) -> ResourceStatus:
    """Apply the Stack's environment to the status."""
    if context.environment.is_unrestricted:
        return status
    if status.step is None:
        return _hold_after(context, status)
    span = classify_step(context, status.step)
    if span.starts is not None:
        rule = context.environment.rules.find_restriction(context.name, span.starts)
        if rule is not None:
            return _restrict(status, rule, span.starts)
        if context.environment.stops_at(context.name, BEFORE[span.starts]):
            return stop_at(status, BEFORE[span.starts])
    if isinstance(status.step, Apply | Restart):
        step = _mark(context, status.step, span)
        status = status if step is status.step else dataclasses.replace(status, step=step)
    return _hold_after(context, status)


def classify_step(context: ResourceContext, step: Step) -> ActionSpan:
    """Classify a step of a resource that the target contains.

    A deletion makes room for another object. A new object counts as a replacement if the resource existed before this
    revision: the earlier object was deleted first, or disappeared.
    """
    match step:
        case Delete() | Detach():
            return ActionSpan(starts=Action.REPLACE)
        case Restart():
            return ActionSpan(starts=Action.REPLACE, finishes=Action.REPLACE)
        case Release() | WriteHealthMark() | Suspend() | CreatePart() | DeletePart():
            return NOTHING
        case Apply():
            return classify_apply(context, step)
        case _:
            assert_never(step)


def classify_apply(context: ResourceContext, step: Apply) -> ActionSpan:
    """Classify an apply."""
    if step.reclaims_uid is not None:
        return NOTHING
    if step.uid is not None:
        is_change = not step.repaired_fields and _is_change(_find_hash(context, step.uid), step.hash)
        return ActionSpan(starts=Action.UPDATE, finishes=Action.UPDATE) if is_change else NOTHING
    if any(child.is_identified for child in context.children):
        return ActionSpan(starts=Action.REPLACE, finishes=Action.REPLACE)
    if context.name in context.environment.previous_resources:
        return ActionSpan(finishes=Action.REPLACE)
    return ActionSpan(starts=Action.CREATE, finishes=Action.CREATE)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HeldPart:
    """A step for a part of a resource that the environment prevents."""

    step: DeletePart
    action: Action
    """The action that a rule denies, or before which the resource stops."""
    rule: EnvironmentRule | None = None
    """The rule that denies it; None: it waits at a breakpoint."""

    @property
    def message(self) -> str:
        """Return the reason that prevents the deletion, and the change that would allow it."""
        if self.rule is not None:
            return f"{self.step.ref}: {explain_restriction(self.rule, self.action)}"
        return f"{self.step.ref} is stopped {HOOK_TEXTS[BEFORE[self.action]]} ({BEFORE[self.action]})"


def find_denial(
    rules: EnvironmentRules, resource: str, actions: Iterable[Action]
) -> tuple[EnvironmentRule, Action] | None:
    """Return the first rule that denies one of the actions on the resource, with that action."""
    for action in actions:
        if (rule := rules.find_restriction(resource, action)) is not None:
            return rule, action
    return None


def hold_part(environment: ActiveEnvironment, step: PartStep) -> HeldPart | None:
    """Return the reason that prevents a step for a part of a resource, or None."""
    if environment.is_unrestricted or not isinstance(step, DeletePart):
        return None
    if (denial := find_denial(environment.rules, step.resource, step.actions)) is not None:
        return HeldPart(step=step, rule=denial[0], action=denial[1])
    stops = (action for action in step.actions if environment.stops_at(step.resource, BEFORE[action]))
    action = next(stops, None)
    return HeldPart(step=step, action=action) if action is not None else None


def stop_at(status: ResourceStatus, hook: str) -> ResourceStatus:
    """Return the status of a resource stopped at the hook. A failed resource stays failed."""
    where = f"is stopped {HOOK_TEXTS[hook]} ({hook})"
    if status.state is ResourceState.FAILED:
        message = f"{status.message}; it {where}"
        return dataclasses.replace(status, message=message, step=None, requeue_at=None, stopped_at=hook)
    return dataclasses.replace(
        status,
        state=ResourceState.STOPPED,
        reason=STOPPED,
        cause=Cause.OTHER,
        message=where,
        step=None,
        requeue_at=None,
        stopped_at=hook,
    )


def is_held(status: ResourceStatus) -> bool:
    """Return whether the environment prevents the next step of the resource, or stops it afterwards."""
    return bool(status.stopped_at) or status.reason == RESTRICTED


def explain_restriction(rule: EnvironmentRule, action: Action) -> str:
    """Explain why an action is denied, and which change would allow it."""
    denial = f"{rule.place} denies {action} of {rule.resource!r}"
    if action is Action.DELETE:
        # The cause may be the deletion of the Stack, which cannot be reverted.
        return f"{denial}, so it is not deleted; remove that rule{rule.where_defined}"
    return (
        f"{denial}, so it is not changed; "
        f"remove that rule{rule.where_defined}, or revert the change that requires the action"
    )


def _restrict(status: ResourceStatus, rule: EnvironmentRule, action: Action) -> ResourceStatus:
    message = explain_restriction(rule, action)
    if status.is_terminal or status.state is ResourceState.FAILED:
        message = f"{status.message}; {message}"
    return dataclasses.replace(
        status,
        state=ResourceState.FAILED,
        reason=RESTRICTED,
        cause=Cause.OTHER,
        message=message,
        step=None,
        requeue_at=None,
    )


def _hold_after(context: ResourceContext, status: ResourceStatus) -> ResourceStatus:
    """Stop a finished resource if its object carries an active post-breakpoint."""
    if not status.is_ready or status.child is None:
        return status
    hook = _read_mark(context, status.child)
    if not hook:
        return status
    # The object is usable even though it is stopped, so it is not replaced as if it had never been ready.
    ready = ResourceReady(resource=context.name, uid=status.child.uid)
    return dataclasses.replace(stop_at(status, hook), step=status.step, memory_updates=(*status.memory_updates, ready))


def _mark(context: ResourceContext, step: Apply | Restart, span: ActionSpan) -> Apply | Restart:
    """Add the post-breakpoint annotation to the step if the resource must stop afterwards."""
    uid = step.uid if isinstance(step, Apply) else step.child.uid
    child = next((each for each in context.children if each.uid == uid), None)
    hook = _read_mark(context, child) if child is not None else ""
    if not hook and span.finishes is not None and context.environment.stops_at(context.name, AFTER[span.finishes]):
        hook = AFTER[span.finishes]
    if not hook:
        return step
    stop = f"{hook}@{context.environment.key}"
    if isinstance(step, Restart):
        return dataclasses.replace(step, post_breakpoint=stop)
    metadata = step.manifest["metadata"]
    annotations = {**metadata["annotations"], names.ANNOTATION_POST_BREAKPOINT: stop}
    return dataclasses.replace(step, manifest={**step.manifest, "metadata": {**metadata, "annotations": annotations}})


def _read_mark(context: ResourceContext, child: Child) -> str:
    """Return the hook that stops the object's resource, or "" for none."""
    text = (child.fields["metadata"].get("annotations") or {}).get(names.ANNOTATION_POST_BREAKPOINT, "")
    hook, _, key = text.partition("@")
    is_armed = key == context.environment.key and context.environment.stops_at(context.name, hook)
    return hook if is_armed and hook in AFTER.values() else ""


def _find_hash(context: ResourceContext, uid: str) -> str:
    return next((child.hash for child in context.children if child.uid == uid), "")


def _is_change(before: str, after: str) -> bool:
    """Return whether the hashes are of different definitions. A hash made with another key proves nothing."""
    return before != after and before.partition(":")[0] == after.partition(":")[0]


# Delays of writes that repeat although the definition does not change. Meanwhile the status is steady: repeated
# creation is not progress, and an object that was just recreated is not ready yet.

VANISHES = "ObjectVanishes"
UNDONE = "ChangeUndone"
UNSTEADY = "ValuesUnsteady"
AUDIT_LOG = "the API server's audit log names the client"
RETRY = "request a retry to try again now"
NOTICED = 1.0
"""Seconds from which a delay is reported. Shorter delays take no longer than a write."""
REPEATED = f"was written several times recently with the same content, so the next write is delayed ({RETRY})"


def delay_repeated(name: str, status: ResourceStatus, *, memory: InMemoryState, now: float) -> ResourceStatus:
    """Return the status, without its step while the step is delayed, and with the cause. now: monotonic seconds."""
    step, record = status.step, memory.governor.find_problem(name, now=now)
    due = memory.find_due(name, step) if step is not None else 0.0
    if due > now:
        status = dataclasses.replace(status, step=None, requeue_at=_find_earlier(status.requeue_at, due))
        if record is None and status.cause is Cause.APPLYING and due > now + NOTICED:
            status = dataclasses.replace(status, message=REPEATED)
    if record is None or status.ref is None:
        return status
    conflict = memory.find_conflict(name, now=now)
    if conflict is not None and conflict.is_conflict and not record.is_vanishing:
        # Its condition has more details.
        return status
    return _report_repetition(name, status, record, is_unfinished=_awaits_apply(name, status, memory), now=now)


def _awaits_apply(name: str, status: ResourceStatus, memory: InMemoryState) -> bool:
    """Return whether the resource only waits for an apply: due, delayed or in flight."""
    return status.cause is Cause.APPLYING or (isinstance(memory.in_flight.get(name), Apply) and status.child is None)


def _report_repetition(
    name: str, status: ResourceStatus, record: StepRecord, *, is_unfinished: bool, now: float
) -> ResourceStatus:
    """Report the repetition: as a problem while the resource is not as desired, and as a condition until it ends."""
    reason, message = _explain_repetition(record)
    condition = ResourceCondition(
        type=ConditionType.WRITES_DELAYED, reason=reason, message=f"{name} ({status.ref}) {message}"
    )
    wake_at = _find_earlier(status.requeue_at, record.expires_at)
    is_passing = status.is_ready or status.state is ResourceState.PROGRESSING
    if record.is_vanishing and is_passing and status.child is not None and now < record.lasts_from:
        is_unfinished, wake_at = True, _find_earlier(status.requeue_at, record.lasts_from)
    if is_unfinished:
        state = ResourceState.FAILED if record.is_exhausted else ResourceState.RETRYING
        status = dataclasses.replace(status, state=state, reason=reason, message=message, cause=Cause.OTHER)
    return dataclasses.replace(status, requeue_at=wake_at, conditions=(*status.conditions, condition))


def _explain_repetition(record: StepRecord) -> tuple[str, str]:
    """Return the reason, and the cause that undoes the writes with possible fixes."""
    if record.is_vanishing:
        known = record.evidence or f"another client deletes it; {AUDIT_LOG}"
        return VANISHES, (
            f"was created {record.creations} times and disappeared each time: {known}; creations are delayed: stop "
            f"the cause, or remove the resource from the template ({RETRY})"
        )
    if record.is_unsteady:
        return UNSTEADY, (
            "keeps getting different values from the objects that it reads, although the Stack does not change; "
            "applies are delayed: read fields that do not change constantly"
        )
    known = record.evidence or f"another client or a mutating webhook changes it; {AUDIT_LOG}; stop that writer"
    return UNDONE, (
        f"was applied {record.done} times and does not stay as applied: {known}; applies are delayed until then ({RETRY})"
    )


def _find_earlier(known: float | None, due: float) -> float:
    """Return the earlier time."""
    return due if known is None else min(known, due)
