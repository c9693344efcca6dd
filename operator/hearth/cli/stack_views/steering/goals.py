"""Goals of `kubectl stack wait`: whether a Stack has reached a goal, cannot reach it, or is in progress."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import SourceKey, StackState
from hearth.model import object_fields, value_class
from hearth.model.phases import Phase
from hearth.plan.state import condition_types
from hearth.template.text import error_hints

NOT_OBSERVED: Final = "waits for the operator to observe the change"
FIRST_STATUS: Final = "waits for the operator; if this takes long, check that an operator is running"


class GoalType(enum.StrEnum):
    """The possible goals."""

    READY = "ready"
    """The definition in the spec is ready. A Stack that rolled back from this definition does not count."""
    SETTLED = "settled"
    """The target revision is ready. The goal of most commands."""
    SUSPENDED = "suspended"
    STOPPED = "stopped"
    DELETED = "deleted"
    CHECKED = "checked"
    PROMOTED = "promoted"
    PHASE = "phase"
    CONDITION = "condition"


class GoalVerdict(enum.Enum):
    """Whether a Stack has reached its goal."""

    REACHED = "reached"
    WAITING = "waiting"
    FAILED = "failed"
    """The goal cannot be reached without a user. The operator may still retry."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal and its argument."""

    type: GoalType
    detail: str = ""
    """The phase, `<type>[=<status>]` of a condition, the token of a check, or the revision of a StackDefinition."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class GoalState:
    """Progress of a Stack: a verdict and a one-line message."""

    verdict: GoalVerdict
    message: str


IN_USE: Final = frozenset({GoalType.READY, GoalType.SETTLED})
"""Goals that require a running Stack."""
ROLLED_BACK_FROM: Final = frozenset({"CreateFailed", "UpdateFailed"})
"""Phases in which `rollback.onFailure` starts a rollback."""


def parse(text: str) -> Goal:
    """Parse the value of `--for`. Raises ValueError."""
    word, _, detail = text.partition("=")
    if word == "delete":
        word = GoalType.DELETED
    if word not in list(GoalType) or word in (GoalType.CHECKED, GoalType.PROMOTED, GoalType.SETTLED):
        raise ValueError(
            f"{text!r} is not a state to wait for; use ready, suspended, stopped, deleted, phase=PHASE or condition=TYPE[=STATUS]"
        )
    type_ = GoalType(word)
    needs_detail = type_ in (GoalType.PHASE, GoalType.CONDITION)
    if needs_detail != bool(detail):
        raise ValueError(f"{text!r} {'lacks' if needs_detail else 'must not have'} a value after =")
    if type_ is GoalType.PHASE and detail not in list(Phase):
        hint = error_hints.did_you_mean(detail, list(Phase))
        raise ValueError(f"{detail!r} is not a phase of a Stack{hint or '; docs/phases.md lists them'}")
    return Goal(type=type_, detail=detail)


def assess(
    stack: StackState | None,
    goal: Goal,
    *,
    handled: tuple[str, str] | None = None,
    sources: Mapping[SourceKey, str] | None = None,
) -> GoalState:
    """Assess the progress of the Stack.

    handled: annotation and value of a request that the status must confirm. sources: resource versions of the objects
    that contain the definition; the status must describe these versions or later ones.
    """
    if stack is None:
        reached = goal.type is GoalType.DELETED
        return GoalState(verdict=GoalVerdict.REACHED if reached else GoalVerdict.FAILED, message="the Stack is deleted")
    if unseen := find_unseen(stack, sources or {}):
        return GoalState(verdict=GoalVerdict.WAITING, message=unseen)
    if goal.type is GoalType.PHASE and stack.phase == goal.detail:
        return GoalState(verdict=GoalVerdict.REACHED, message=stack.ready.message)
    if goal.type is GoalType.CONDITION:
        return assess_condition(stack, goal.detail)
    if handled is not None and stack.handled.get(handled[0]) != handled[1]:
        return GoalState(
            verdict=GoalVerdict.WAITING, message=f"waits for the operator to handle hearth.dev/{handled[0]}"
        )
    if goal.type is GoalType.PROMOTED:
        if str(object_fields.number(stack.status, "definitionRevision")) != goal.detail:
            message = f"waits for the operator to move it to revision {goal.detail} of its definition"
            return GoalState(verdict=GoalVerdict.WAITING, message=message)
        return assess_observed(stack, Goal(type=GoalType.SETTLED))
    return assess_observed(stack, goal)


def find_unseen(stack: StackState, sources: Mapping[SourceKey, str]) -> str:
    """Describe the change to the spec or a source that the status does not cover yet. Empty if it is up to date."""
    if not stack.is_observed:
        return FIRST_STATUS if stack.is_new else NOT_OBSERVED
    for key, version in sorted(stack.list_sources().items()):
        wanted = sources.get(key, "")
        if object_fields.is_older_version(version, wanted):
            return f"{NOT_OBSERVED} of {safe_text.one_line(f'{key[0].lower()}/{key[2]}')}"
    return ""


def assess_condition(stack: StackState, detail: str) -> GoalState:
    """Assess a condition like `kubectl wait --for=condition`. The status must describe the current generation."""
    type_, _, status = detail.partition("=")
    found = stack.condition(type_)
    is_reached = found.status.lower() == (status or "True").lower()
    return GoalState(verdict=GoalVerdict.REACHED if is_reached else GoalVerdict.WAITING, message=describe(stack))


def assess_observed(stack: StackState, goal: Goal) -> GoalState:
    """Assess a Stack whose status describes the current spec."""
    ready = stack.ready
    if goal.type is GoalType.CHECKED:
        return assess_check(stack)
    is_reached = {
        GoalType.READY: ready.is_true and not stack.is_deleting and not stack.is_rolled_back,
        GoalType.SETTLED: ready.is_true and not stack.is_deleting,
        GoalType.SUSPENDED: stack.phase == "SuspendComplete",
        GoalType.STOPPED: stack.condition("Stopped").is_true,
    }.get(goal.type, False)
    if is_reached:
        return GoalState(verdict=GoalVerdict.REACHED, message=describe(stack))
    if obstacle := explain_failure(stack, goal):
        return GoalState(verdict=GoalVerdict.FAILED, message=obstacle)
    return GoalState(verdict=GoalVerdict.WAITING, message=describe(stack))


def explain_failure(stack: StackState, goal: Goal) -> str:
    """Explain why the goal cannot be reached without a user. Empty if it still can."""
    if goal.type is GoalType.DELETED:
        command = f"kubectl delete {stack.resource_type} {stack.name} -n {stack.namespace}"
        return "" if stack.is_deleting else f"it is not being deleted: {command}"
    if stack.is_deleting:
        return f"the {stack.noun} is being deleted"
    if goal.type in IN_USE and stack.phase.endswith("Stopped"):
        return describe(stack)
    if goal.type is GoalType.READY and stack.is_rolled_back and stack.ready.is_true:
        return describe(stack)
    if goal.type in IN_USE and stack.is_suspended:
        return f"the {stack.noun} is suspended: kubectl stack resume {stack.argument} -n {stack.namespace}"
    if stack.is_stalled:
        return "" if will_roll_back(stack) else describe(stack)
    if stack.is_paused and not stack.ready.is_true:
        return explain_pause(stack)
    return ""


def will_roll_back(stack: StackState) -> bool:
    """Whether the operator will roll back automatically, so that the failure is not final."""
    is_wanted = object_fields.find(stack.spec, "rollback", "onFailure") is True and not stack.is_paused
    is_of_spec = stack.target_cause == "Spec"
    is_unknown = object_fields.find(stack.status, "historyUnknown") is True
    # A definition that was never applied is not rolled back.
    is_applied = not condition_types.is_unapplied(object_fields.text(stack.status, "state"))
    return is_wanted and is_of_spec and is_applied and not is_unknown and stack.phase in ROLLED_BACK_FROM


def explain_pause(stack: StackState) -> str:
    """Return the reason why the Stack makes no progress."""
    parts = (
        stack.condition("Paused").message,
        f"to continue: kubectl stack unpause {stack.argument} -n {stack.namespace}",
    )
    return f"the {stack.noun} is paused: {'; '.join(filter(None, parts))}"


def assess_check(stack: StackState) -> GoalState:
    """Assess a check that the operator has handled."""
    count = object_fields.number(stack.status, "check", "problemCount")
    objects = object_fields.number(stack.status, "check", "objects") or 0
    if not count:
        return GoalState(verdict=GoalVerdict.REACHED, message=f"checked {objects} objects: no problem")
    problems = object_fields.entries(stack.status, "check", "problems")
    lines = [
        f"{object_fields.text(each, 'resource')} "
        f"({object_fields.text(each, 'kind').lower()}/{object_fields.text(each, 'name')}): "
        f"{object_fields.text(each, 'reason')}: {object_fields.text(each, 'message')}"
        for each in problems
    ]
    noun = "problem" if count == 1 else "problems"
    return GoalState(
        verdict=GoalVerdict.FAILED, message="\n  ".join([f"checked {objects} objects: {count} {noun}", *lines])
    )


def describe(stack: StackState) -> str:
    """Describe the state, e.g. `UpdateInProgress 3/7: waits for web (deployment/shop-web): 1 of 3 pods are ready`."""
    head = " ".join(part for part in (stack.phase, stack.summary) if part)
    return f"{head}: {stack.ready.message}" if stack.ready.message else head
