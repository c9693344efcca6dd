"""Builds the whole status of a Stack from the statuses of its resources, including outputs and redaction."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from hearth.model import limits, names, phases
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.phases import Phase
from hearth.model.text import redaction, times
from hearth.plan.resource import data_kinds, definition_warnings, finished_run
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import condition_types, finished_work, source_versions
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.status import breakpoint_waits, check_result, conditions, problems, ready_condition, template_values
from hearth.plan.status.ready_condition import StatusInput
from hearth.plan.target import rollback_notes, target_status
from hearth.plan.target.target import CompletedRevisions

EARLIER = "earlierCompletedRevisions"
PLANNED = ("summary", "resources", "problems", "outputs")
"""The fields that need a plan."""


def build_status(
    status_input: StatusInput,
    planner: StackPlanner | None,
    *,
    memory: InMemoryState,
    before: Mapping[str, Any],
    now: float,
    monotonic: float,
) -> Object:
    """Build the whole status.

    planner: None before the operator accepts the first definition; before: the current status, for the times in its
    conditions; now: seconds since the epoch; monotonic: the same moment on the clock of `planner.requeues`.
    """
    phase = ready_condition.find_phase(status_input, planner, memory)
    status = _describe_phase(status_input, phase, planner, memory, before=before, now=now)
    is_failed = str(phase).endswith("Failed") and phase not in phases.CHECK
    status.update(_describe_target(status_input, is_failed=is_failed))
    if earlier := find_earlier_completed(status_input.completed, before):
        status[EARLIER] = earlier
    if status_input.expires_at is not None:
        status["expiresAt"] = times.format_time(status_input.expires_at)
    if (held := status_input.held) is not None and not status_input.is_deleting:
        until = {"until": times.format_time(held.hold.until)} if math.isfinite(held.hold.until) else {}
        plan = {"plan": held.hold.plan} if held.hold.plan else {}
        status["heldChange"] = {"reason": str(held.hold.reason), "generation": status_input.generation, **until, **plan}
    if words := ", ".join(_find_words(status_input, status)):
        status["state"] = words
    status.update(check_result.encode(status_input.check))
    if planner is None and status_input.cluster_problem is not None:
        # Keep the last known state of the cluster.
        status.update({key: before[key] for key in PLANNED if key in before})
    if listed := source_versions.encode(status_input.sources, _find_nested_sources(planner)):
        status["sources"] = listed
    if status_input.replicas is not None:
        status["replicas"] = status_input.replicas
    if status_input.group_uid:
        status["selector"] = f"{names.LABEL_STACK_UID}={status_input.group_uid}"
    if planner is not None:
        status.update(_describe_plan(status_input, planner, memory, offset=now - monotonic))
    return status


def _find_nested_sources(planner: StackPlanner | None) -> Iterator[Mapping[ObjectRef, str]]:
    """Find the versions of sources that the statuses of nested Stacks describe."""
    statuses = planner.statuses if planner is not None else {}
    for name in planner.nested if planner is not None else ():
        if name in statuses:
            yield statuses[name].nested_sources


def find_earlier_completed(completed: CompletedRevisions, before: Mapping[str, Any]) -> list[int]:
    """Return the revisions that completed before the last two, from the previous status.

    They are for information only: nothing acts on them.
    """
    listed = before.get(EARLIER)
    found = [*(listed if isinstance(listed, list) else ())]
    found += [before.get("lastCompletedRevision"), before.get("previousCompletedRevision")]
    present = {completed.last, completed.previous}
    numbers = {each for each in found if isinstance(each, int) and each > 0 and each not in present}
    return sorted(numbers)[-limits.REVISION_HISTORY :]


def _find_words(status_input: StatusInput, status: Object) -> Iterator[str]:
    """Find the words for lists."""
    return condition_types.find_state_words(
        [each["type"] for each in status["conditions"] if each["status"] == "True"],
        is_paused=status_input.is_paused,
        is_suspended=status_input.is_suspended,
        is_rolled_back=status_input.target is not None and status_input.target.is_rollback,
        rejection=condition_types.describe_rejection(
            status_input.rejection.reason if status_input.rejection is not None and not status_input.is_deleting else ""
        ),
    )


def build_without_details(status_input: StatusInput, *, before: Mapping[str, Any], now: float) -> Object:
    """Build a reduced status of a Stack whose whole status cannot be built. All other fields stay unchanged.

    status_input: with the fault that prevents the whole status.
    """
    memory = InMemoryState()
    phase = ready_condition.find_phase(status_input, None, memory)
    status = _describe_phase(status_input, phase, None, memory, before=before, now=now)
    return {**status, **_describe_target(status_input, is_failed=False), **check_result.encode(status_input.check)}


def _describe_phase(
    status_input: StatusInput,
    phase: Phase,
    planner: StackPlanner | None,
    memory: InMemoryState,
    *,
    before: Mapping[str, Any],
    now: float,
) -> Object:
    """Describe the phase, and the conditions with it."""
    # While the template is unknown, e.g. because a cluster is unreachable, its conditions stay.
    defined = (
        template_values.judge_conditions(planner) if planner is not None and not planner.blueprint.is_unknown else None
    )
    generation, known, timestamp = status_input.generation, before.get("conditions") or (), times.format_time(now)
    return {
        "observedGeneration": generation,
        **(
            {"observedDefinitionRevision": status_input.definition_revision} if status_input.definition_revision else {}
        ),
        **({"undecided": status_input.undecided} if status_input.undecided else {}),
        "phase": str(phase),
        "conditions": [
            *conditions.build_conditions(
                phases.find_conditions(phase, is_unasked=status_input.is_automatic_rollback),
                headline=ready_condition.find_ready_reason(status_input, planner, memory),
                extras=(
                    *ready_condition.find_extra_conditions(status_input, planner, memory),
                    *(planner.conditions.conditions() if planner is not None else ()),
                ),
                generation=generation,
                before=known,
                now=timestamp,
            ),
            *conditions.build_defined(defined, generation=generation, before=known, now=timestamp),
        ],
    }


def _describe_target(status_input: StatusInput, *, is_failed: bool) -> Object:
    """Describe the target, the completed revisions and the failed revision by number."""
    encoded: Object = {}
    target, completed = status_input.target, status_input.completed
    if target is not None:
        encoded.update(target_status.encode(target), revision=target.revision)
        if status_input.active_definition_revision:
            encoded["definitionRevision"] = status_input.active_definition_revision
    encoded.update(target_status.write_completed(completed))
    failed = status_input.last_failed
    is_refused = status_input.rejection is not None or status_input.is_deleting or status_input.is_suspended
    # A failed rollback does not mean that its target revision is faulty.
    if is_failed and target is not None and not target.is_rollback and not is_refused:
        failed = target.revision
    if failed is not None:
        encoded["lastFailedRevision"] = failed
    if status_input.finished is not None and (finished := status_input.finished.encode()):
        encoded[finished_work.FIELD] = finished
    if status_input.handled:
        encoded["handled"] = dict(status_input.handled)
    return encoded


def _describe_plan(status_input: StatusInput, planner: StackPlanner, memory: InMemoryState, *, offset: float) -> Object:
    """Describe the resources or members, waits, and settings without effect. offset: see `_describe_resources`."""
    found_outputs = template_values.evaluate(planner)
    details = _describe_resources(planner, memory, offset=offset)
    details = (
        _describe_group(planner, details) if status_input.group_uid else {**details, "outputs": found_outputs.values}
    )
    warnings = (
        []
        if status_input.is_deleting
        else _find_warnings(status_input, planner, memory, wrong_outputs=found_outputs.wrong)
    )
    found = {"breakpoints": breakpoint_waits.list_waits(planner), "warnings": warnings}
    return {**details, **{key: entries for key, entries in found.items() if entries}}


def _find_warnings(
    status_input: StatusInput, planner: StackPlanner, memory: InMemoryState, *, wrong_outputs: Iterable[str]
) -> list[str]:
    """Find the first parts of the spec that have no effect, or not the effect that the user may expect."""
    warnings = [
        *([status_input.pin_mistake] if status_input.pin_mistake else []),
        *rollback_notes.describe_ignored(
            # While the request itself is rejected, nothing overrides it.
            status_input.target if status_input.rejection is None else None,
            name=status_input.address.name,
            namespace=status_input.address.namespace,
        ),
        *ready_condition.find_circle(status_input, planner),
        *wrong_outputs,
        *planner.definition_warnings,
        *planner.rolling.find_warnings(),
        *_find_kept(status_input, planner),
        *_find_renames(planner, memory),
        *planner.removals.describe(status_input.address.write_request("cleanup")),
        *breakpoint_waits.warn(planner),
        *breakpoint_waits.warn_polled(status_input.polled),
    ]
    return warnings[: breakpoint_waits.NAMED_AT_MOST]


def _find_kept(status_input: StatusInput, planner: StackPlanner) -> Iterator[str]:
    """Find the resources made from values of finished work that no longer exist."""
    if status_input.finished is None or not status_input.finished.entries:
        return
    for name, status in planner.statuses.items():
        if status.is_ready and status.reason == finished_run.VALUE_GONE:
            yield f"{name} {status.message}"


def _find_renames(planner: StackPlanner, memory: InMemoryState) -> Iterator[str]:
    """Find new resources that look like renamed ones, while objects of the former resources still exist."""
    former = {child.resource: child.kind.key for child in planner.cleanup.children.values()}
    if not any(map(data_kinds.may_hold_data, former.values())):
        return

    def is_new(name: str) -> bool:
        status = planner.statuses.get(name)
        return status is None or status.child is None or status.child.uid in memory.never_ready

    yield from definition_warnings.find_renames(former, planner.blueprint, is_new=is_new)


def _describe_group(planner: StackPlanner, details: Object) -> Object:
    """Describe the members of a group as its scale subresource and autoscalers read them."""
    found = {key: value for key, value in details.items() if key != "resources"}
    return {
        **found,
        "members": details["resources"],
        "replicas": sum(status.child is not None for status in planner.statuses.values()),
        "readyReplicas": len(planner.by_state[ResourceState.READY]) + planner.rolling.count_in_service(),
    }


def _describe_resources(planner: StackPlanner, memory: InMemoryState, *, offset: float) -> Object:
    """Describe counts and problems. offset: difference of seconds since the epoch and monotonic seconds."""
    ready = len(planner.by_state[ResourceState.READY])
    total = len(planner.statuses if planner.blueprint.is_unknown else planner.blueprint.resources)
    stopped = len(planner.by_state[ResourceState.STOPPED])
    left = len(planner.cleanup.children)
    return {
        # A deletion has no resources, so the remaining objects are counted.
        "summary": f"{left} left" if left and not total else f"{ready}/{total}",
        "resources": {
            "total": total,
            "ready": ready,
            "progressing": len(planner.by_state[ResourceState.PROGRESSING]),
            "waiting": len(planner.by_state[ResourceState.WAITING]),
            "failed": len(planner.by_state[ResourceState.FAILED]) + len(planner.by_state[ResourceState.RETRYING]),
            "obsolete": len(planner.cleanup.children) + planner.removals.count,
            **({"stopped": stopped} if stopped else {}),
            **({"external": len(planner.blueprint.externals)} if planner.blueprint.externals else {}),
        },
        "problems": [
            problems.list_problem(planner, name, status, offset)
            for name, status in problems.find_problems(planner, memory)
        ],
    }


# Redacts and shortens the texts of a status before it is written. Values computed from sensitive values are redacted at
# their origin. This covers values from other components, for example a child whose status quotes its password.

TEXTS = ("reason", "message")
"""Fields of a condition or problem that may quote an object."""


def redact_status(status: Object, hidden: Collection[str]) -> Object:
    """Remove the texts `hidden` from the status; return it unchanged if there are none."""
    if not hidden:
        return status
    covered = map_entries(status, ("conditions", "problems"), lambda entry: cover(entry, hidden))
    if "target" in status:
        covered["target"] = cover(status["target"], hidden)
    if "warnings" in status:
        covered["warnings"] = [redaction.redact(warning, hidden) for warning in status["warnings"]]
    if "outputs" in status:
        covered["outputs"] = redaction.redact_within(status["outputs"], hidden)
    return covered


def shorten_status(status: Object) -> Object:
    """Cut texts that are too long for a status. This must follow the redaction, which does not find parts of a text."""
    return map_entries(map_entries(status, ("conditions",), shorten_reason), ("problems",), shorten)


def map_entries(status: Object, parts: Collection[str], change: Callable[[Object], Object]) -> Object:
    """Return the status with changed entries in these lists. The result of a check also has a list of problems."""
    changed = {**status, **{part: list(map(change, status[part])) for part in parts if part in status}}
    check = status.get(check_result.VERB)
    if "problems" in parts and check and "problems" in check:
        changed[check_result.VERB] = {**check, "problems": list(map(change, check["problems"]))}
    return changed


def cover(entry: Object, hidden: Collection[str]) -> Object:
    """Redact the texts of one condition or problem."""
    texts: dict[str, Any] = {key: entry[key] for key in TEXTS if isinstance(entry.get(key), str)}
    return {**entry, **{key: redaction.redact(text, hidden) for key, text in texts.items()}}


def shorten_reason(entry: Object) -> Object:
    """Cut the reason of one condition."""
    return {**entry, "reason": entry["reason"][: limits.REASON_SHOWN]}


def shorten(entry: Object) -> Object:
    """Cut the texts of one problem."""
    return {**shorten_reason(entry), "message": entry["message"][: limits.PROBLEM_SHOWN]}
