"""Builder of a Stack's status from the statuses of its resources. Pure: the engine decides when to write it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hearth.model import names, phases
from hearth.model.child import Object
from hearth.model.phases import Phase
from hearth.model.text import times
from hearth.plan.resource import finished_run
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.state import finished_work
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.status import (
    breakpoint_waits,
    check_result,
    conditions,
    outputs,
    problems,
    ready_condition,
    state_words,
)
from hearth.plan.status.ready_condition import StatusInput
from hearth.plan.target import rollback_notes, target_status

PLANNED = ("summary", "resources", "problems", "outputs")
"""The fields that need a plan."""


def build_status(
    subject: StatusInput,
    plan: StackPlan | None,
    *,
    memory: InMemoryState,
    before: Mapping[str, Any],
    now: float,
    monotonic: float,
) -> Object:
    """Build the whole status.

    plan: None before the operator accepts the first definition; before: the current status, for the times in its
    conditions; now: seconds since the epoch; monotonic: the same moment on the clock of `plan.requeues`.
    """
    phase = ready_condition.find_phase(subject, plan, memory)
    status = _describe_phase(subject, phase, plan, memory, before=before, now=now)
    is_failed = str(phase).endswith("Failed") and phase not in phases.CHECK
    status.update(_describe_target(subject, is_failed=is_failed))
    if words := ", ".join(_find_words(subject, status)):
        status["state"] = words
    status.update(check_result.encode(subject.check))
    if plan is None and subject.cluster_problem is not None:
        # What the cluster had when it was last seen.
        status.update({key: before[key] for key in PLANNED if key in before})
    if subject.group_uid:
        status["selector"] = f"{names.LABEL_STACK_UID}={subject.group_uid}"
    if plan is not None:
        status.update(_describe_plan(subject, plan, memory, offset=now - monotonic))
    return status


def _find_words(subject: StatusInput, status: Object) -> Iterator[str]:
    """Find the words for lists."""
    return state_words.find_words(
        [each["type"] for each in status["conditions"] if each["status"] == "True"],
        is_paused=subject.is_paused,
        is_suspended=subject.is_suspended,
        is_rolled_back=subject.target is not None and subject.target.is_rollback,
        is_rejected=subject.rejection is not None and not subject.is_deleting,
    )


def build_without_details(subject: StatusInput, *, before: Mapping[str, Any], now: float) -> Object:
    """Build a reduced status of a Stack whose whole status cannot be built. All other fields stay unchanged.

    subject: with the fault that prevents the whole status.
    """
    memory = InMemoryState()
    phase = ready_condition.find_phase(subject, None, memory)
    status = _describe_phase(subject, phase, None, memory, before=before, now=now)
    return {**status, **_describe_target(subject, is_failed=False), **check_result.encode(subject.check)}


def _describe_phase(
    subject: StatusInput,
    phase: Phase,
    plan: StackPlan | None,
    memory: InMemoryState,
    *,
    before: Mapping[str, Any],
    now: float,
) -> Object:
    """Describe the phase, and the conditions with it."""
    return {
        "observedGeneration": subject.generation,
        **({"undecided": subject.undecided} if subject.undecided else {}),
        "phase": str(phase),
        "conditions": conditions.build_conditions(
            phases.find_conditions(phase, is_unasked=subject.is_automatic_rollback),
            headline=ready_condition.find_ready_reason(subject, plan, memory),
            extras=(
                *ready_condition.find_extra_conditions(subject, plan, memory),
                *(plan.conditions.conditions() if plan is not None else ()),
            ),
            generation=subject.generation,
            before=before.get("conditions") or (),
            now=times.format_time(now),
        ),
    }


def _describe_target(subject: StatusInput, *, is_failed: bool) -> Object:
    """Describe the target, the completed revisions and the failed revision by number."""
    encoded: Object = {}
    target, completed = subject.target, subject.completed
    if target is not None:
        encoded.update(target_status.encode(target), revision=target.revision)
    encoded.update(target_status.write_completed(completed))
    failed = subject.last_failed
    is_refused = subject.rejection is not None or subject.is_deleting or subject.is_suspended
    # A failed rollback does not mean that its target revision is faulty.
    if is_failed and target is not None and not target.is_rollback and not is_refused:
        failed = target.revision
    if failed is not None:
        encoded["lastFailedRevision"] = failed
    if subject.finished is not None and subject.finished.entries:
        encoded[finished_work.FIELD] = subject.finished.encode()
    if subject.handled:
        encoded["handled"] = dict(subject.handled)
    return encoded


def _describe_plan(subject: StatusInput, plan: StackPlan, memory: InMemoryState, *, offset: float) -> Object:
    """Describe the resources or members, and what waits or has no effect. offset: see `_describe_resources`."""
    found_outputs = outputs.evaluate(plan)
    details = _describe_resources(plan, memory, offset=offset)
    details = _describe_group(plan, details) if subject.group_uid else {**details, "outputs": found_outputs.values}
    warnings = [] if subject.is_deleting else _find_warnings(subject, plan, wrong_outputs=found_outputs.wrong)
    found = {"breakpoints": breakpoint_waits.list_waits(plan), "warnings": warnings}
    return {**details, **{key: entries for key, entries in found.items() if entries}}


def _find_warnings(subject: StatusInput, plan: StackPlan, *, wrong_outputs: Iterable[str]) -> list[str]:
    """Find the first parts of the spec that have no effect, or not the one that the user may expect."""
    warnings = [
        *rollback_notes.describe_ignored(
            # While the request itself is rejected, nothing overrides it.
            subject.target if subject.rejection is None else None,
            name=subject.address.name,
            namespace=subject.address.namespace,
        ),
        *wrong_outputs,
        *plan.definition_warnings,
        *plan.rolling.find_warnings(),
        *_find_kept(subject, plan),
        *breakpoint_waits.warn(plan),
        *breakpoint_waits.warn_polled(subject.polled),
    ]
    return warnings[: breakpoint_waits.NAMED_AT_MOST]


def _find_kept(subject: StatusInput, plan: StackPlan) -> Iterator[str]:
    """Find the resources that are made of values of finished work which are gone."""
    if subject.finished is None or not subject.finished.entries:
        return
    for name, status in plan.statuses.items():
        if status.is_ready and status.reason == finished_run.VALUE_GONE:
            yield f"{name} {status.message}"


def _describe_group(plan: StackPlan, details: Object) -> Object:
    """Describe the members of a group as its scale subresource and autoscalers read them."""
    found = {key: value for key, value in details.items() if key != "resources"}
    return {
        **found,
        "members": details["resources"],
        "replicas": sum(status.child is not None for status in plan.statuses.values()),
        "readyReplicas": len(plan.by_state[ResourceState.READY]) + plan.rolling.count_in_service(),
    }


def _describe_resources(plan: StackPlan, memory: InMemoryState, *, offset: float) -> Object:
    """Describe counts and problems. offset: difference of seconds since the epoch and monotonic seconds."""
    ready = len(plan.by_state[ResourceState.READY])
    total = len(plan.statuses if plan.blueprint.is_unknown else plan.blueprint.resources)
    stopped = len(plan.by_state[ResourceState.STOPPED])
    left = len(plan.cleanup.children)
    return {
        # A deletion wants no resources: what counts is how many objects are left.
        "summary": f"{left} left" if left and not total else f"{ready}/{total}",
        "resources": {
            "total": total,
            "ready": ready,
            "progressing": len(plan.by_state[ResourceState.PROGRESSING]),
            "waiting": len(plan.by_state[ResourceState.WAITING]),
            "failed": len(plan.by_state[ResourceState.FAILED]) + len(plan.by_state[ResourceState.RETRYING]),
            "obsolete": len(plan.cleanup.children),
            **({"stopped": stopped} if stopped else {}),
        },
        "problems": [
            problems.list_problem(plan, name, status, offset) for name, status in problems.find_problems(plan, memory)
        ],
    }
