"""The result of a check of one Stack: its problems, whether it is still current, and its message.

`hearth.engine.stack.check_control` observes all children first. The result only reports problems; the planner repairs
them independently of checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from hearth.model import value_class
from hearth.model.child import Object
from hearth.model.phases import ConditionType, Phase
from hearth.model.text import enumeration, times
from hearth.plan.resource import readiness
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.condition_types import ExtraCondition
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.steps import Apply
from hearth.plan.status import problems

VERB = "check"
"""Its key in `status.handled`."""
DRIFT = (ConditionType.DRIFTED, ConditionType.DRIFT_CONFLICT)
"""Types of the conditions that report drift, even on ready resources."""
UNREADY = (
    ResourceState.FAILED,
    ResourceState.RETRYING,
    ResourceState.PROGRESSING,
    ResourceState.STOPPED,
    ResourceState.WAITING,
)
"""Worst first."""
TOKEN_LENGTH = 120
"""Maximum characters of a token in a message."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of one check."""

    at: float
    """Time of the check in whole seconds since the epoch."""
    objects: int
    """Children that the API server listed."""
    problem_count: int
    """Number of all problems."""
    problems: tuple[Object, ...] = ()
    """The first problems, in the form of the status."""
    is_current: bool = False
    """Whether the phase shows this result."""


def conclude(planner: StackPlanner, *, objects: int, now: float, is_reached: bool) -> CheckResult:
    """Make the result from a planner with fully refreshed statuses.

    now: seconds since the epoch; is_reached: whether the target completed once, so that no action is in progress whose
    phase takes precedence.
    """
    found = list(find(planner))
    entries = tuple(problems.write_entry(name, status) for name, status in found[: problems.AT_MOST])
    return CheckResult(
        at=float(int(now)), objects=objects, problem_count=len(found), problems=entries, is_current=is_reached
    )


def find(planner: StackPlanner) -> Iterator[tuple[str, ResourceStatus]]:
    """Find all problems by resource: states first, then drift, then obsolete objects."""
    for name in itertools.chain.from_iterable(sorted(planner.by_state[state]) for state in UNREADY):
        status = planner.statuses[name]
        if status.cause is not Cause.ORDER or status.child is None:
            yield name, _to_problem(status)
        elif status.child.unhealthy_reason is not None:
            # The planner does not assess it before its dependencies are ready. Its health mark counts nevertheless.
            message = f"is marked unhealthy: {status.child.unhealthy_reason}"
            yield name, readiness.make_status(status.child, ResourceState.FAILED, readiness.UNHEALTHY, message)
    for type_ in DRIFT:
        for name, condition in planner.conditions.by_type.get(type_, {}).items():
            child = planner.statuses[name].child
            if child is not None and not _is_repaired(planner.statuses[name]):
                message = condition.message.removeprefix(f"{name} ({child.ref}): ")
                yield name, readiness.make_status(child, ResourceState.FAILED, condition.reason, message)
    for child in planner.cleanup.children.values():
        yield (
            child.resource,
            readiness.make_status(child, ResourceState.FAILED, "Obsolete", "still exists, but is obsolete"),
        )


def _is_repaired(status: ResourceStatus) -> bool:
    """Return whether the resource is a problem already because its repair is planned."""
    is_repair = isinstance(status.step, Apply) and bool(status.step.repaired_fields)
    return is_repair and status.state in UNREADY


def _to_problem(status: ResourceStatus) -> ResourceStatus:
    """Convert a status to a problem: the reason for the planned step, not the step."""
    step = status.step
    if not isinstance(step, Apply) or status.cause is not Cause.APPLYING:
        return status
    reason, message = "Outdated", "does not match the definition"
    if step.repaired_fields:
        reason, message = "Drifted", f"{step.repaired_fields}: changed by another field manager"
    elif status.child is None:
        reason, message = "Missing", "does not exist"
    return ResourceStatus(
        state=status.state, reason=reason, message=message, planned_ref=status.planned_ref, child=status.child
    )


def is_still_current(result: CheckResult, planner: StackPlanner, *, is_complete: bool) -> bool:
    """Return whether a result that was current is still true. is_complete: whether the target is complete."""
    return finds_any(planner) if result.problem_count else is_complete


def finds_any(planner: StackPlanner) -> bool:
    """Return whether there may be any problem, in constant time."""
    is_unready = any(planner.by_state[state] for state in UNREADY)
    return is_unready or bool(planner.cleanup.children) or any(planner.conditions.by_type.get(type_) for type_ in DRIFT)


def find_phase(result: CheckResult | None) -> Phase | None:
    """Return the phase that a check sets, or None if it sets none."""
    if result is None or not result.is_current:
        return None
    return Phase.CHECK_FAILED if result.problem_count else Phase.CHECK_COMPLETE


def describe(result: CheckResult) -> str:
    """Describe the result; name the first few problems."""
    objects = f"{result.objects} object{'s' if result.objects != 1 else ''}"
    if not result.problem_count:
        return f"examined {objects} and found no problem"
    count = f"{result.problem_count} problem{'s' if result.problem_count != 1 else ''}"
    named = enumeration.enumerate_clauses(map(_call, result.problems), count=result.problem_count)
    return f"examined {objects} and found {count}: {named}"


def _call(entry: Mapping[str, Any]) -> str:
    ref = f" ({entry['kind'].lower()}/{entry['name']})" if entry["name"] else ""
    return f"{entry['resource']}{ref}: {entry['message']}"


def find_condition(refusal: str) -> Iterator[ExtraCondition]:
    """Return the condition while a check cannot run. refusal: the reason, "" without one."""
    if refusal:
        yield ExtraCondition(type=ConditionType.CHECK_PENDING, reason="ListFailed", message=refusal)


def describe_news(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Phase, str] | None:
    """Return the outcome and a message for a new result, or None if both statuses have the same check."""
    token = str((after.get("handled") or {}).get(VERB))
    outcome = decode(after)
    if outcome is None or token == str((before.get("handled") or {}).get(VERB)):
        return None
    message = f"the check {token[:TOKEN_LENGTH]!r} {describe(outcome)}"
    if find_phase(outcome) is None:
        message += f"; meanwhile the Stack is {after.get('phase')}"
    return Phase.CHECK_FAILED if outcome.problem_count else Phase.CHECK_COMPLETE, message


def is_entry(entry: Any) -> bool:
    """Return whether the value is a problem in the form of the status."""
    keys = ("resource", "kind", "name", "message")
    return isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in keys)


def encode(result: CheckResult | None) -> Object:
    """Encode a result for a status."""
    if result is None:
        return {}
    entry: Object = {
        "checkedAt": times.format_time(result.at),
        "objects": result.objects,
        "problemCount": result.problem_count,
    }
    if result.problems:
        entry["problems"] = list(result.problems)
    return {VERB: entry}


def is_reported(result: CheckResult | None, status: Mapping[str, Any]) -> bool:
    """Return whether a status contains that result. Messages do not count, because the status is redacted."""
    entry = decode(status)
    if result is None or entry is None:
        return result is entry
    return (entry.at, entry.objects, entry.problem_count) == (result.at, result.objects, result.problem_count)


def decode(status: Mapping[str, Any]) -> CheckResult | None:
    """Decode the result from a status. Returns None if it is absent or invalid."""
    entry = status.get(VERB)
    if not entry:
        return None
    try:
        entries = entry.get("problems") or ()
        if not all(isinstance(entry[key], int) for key in ("objects", "problemCount")) or not all(
            map(is_entry, entries)
        ):
            return None
        return CheckResult(
            at=times.parse_time(entry["checkedAt"]),
            objects=entry["objects"],
            problem_count=entry["problemCount"],
            problems=tuple(entries),
            is_current=status.get("phase") in (Phase.CHECK_COMPLETE, Phase.CHECK_FAILED),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        # Another writer changed the status: the result is lost, and the user can request the check again.
        return None
