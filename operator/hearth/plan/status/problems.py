"""Lists the problems of a Stack's resources for its status, the worst first."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterator

from hearth.model.child import Object
from hearth.model.text import times
from hearth.plan.resource import enforcement, readiness
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.target import approved_steps

AT_MOST = 20


def find_problems(planner: StackPlanner, memory: InMemoryState) -> list[tuple[str, ResourceStatus]]:
    """Find the problems: failed resources first, then others, then failed deletions; as many as a status may list."""
    problems = [*_find_externals(planner), *((name, planner.statuses[name]) for name in _find_names(planner))]
    for child, attempt in planner.find_failed_deletions(memory):
        state = ResourceState.FAILED if attempt.is_exhausted else ResourceState.RETRYING
        problems.append((child.resource, readiness.make_status(child, state, attempt.reason, attempt.message)))
    for held in planner.deletion_guard.denied if planner.deletion_guard.held_deletions else ():
        status = readiness.make_status(held.child, ResourceState.FAILED, held.reason, held.message)
        problems.append((held.child.resource, status))
    for part in planner.denied_parts if planner.held_parts else ():
        status = ResourceStatus(
            state=ResourceState.FAILED, reason=enforcement.RESTRICTED, message=part.message, planned_ref=part.step.ref
        )
        problems.append((part.step.resource, status))
    return problems[:AT_MOST]


def _find_externals(planner: StackPlanner) -> Iterator[tuple[str, ResourceStatus]]:
    """Find external objects that are not ready, without objects whose first read is in progress."""
    for name, read in sorted(planner.externals.items()):
        if not read.status.is_ready and read.status.cause is not Cause.EVALUATING:
            yield name, dataclasses.replace(read.status, planned_ref=None if read.is_list else read.ref)


def _find_names(planner: StackPlanner) -> list[str]:
    """Find the names of the first problematic resources, sorted so that a restart does not change them."""
    found: list[str] = []
    for state in (ResourceState.FAILED, ResourceState.RETRYING, ResourceState.STOPPED, ResourceState.WAITING):
        if planner.by_state[state] and len(found) < AT_MOST:
            found += heapq.nsmallest(AT_MOST - len(found), _find_in(planner, state))
    return found


def _find_in(planner: StackPlanner, state: ResourceState) -> Iterator[str]:
    """Find the resources in one state, except resources that only wait for others, or at a breakpoint."""
    names = planner.by_state[state]
    if state is ResourceState.STOPPED:
        return (name for name in names if planner.statuses[name].reason == approved_steps.REASON)
    if state is not ResourceState.WAITING:
        return iter(names)
    return (name for name in names if planner.statuses[name].cause is not Cause.ORDER)


def list_problem(planner: StackPlanner, name: str, status: ResourceStatus, offset: float) -> Object:
    """Make one entry of the list of problems. offset: difference of seconds since the epoch and monotonic seconds."""
    child = status.child
    resource = planner.blueprint.resources.get(name) or planner.blueprint.externals.get(name)
    is_obsolete = child is not None and child.uid in planner.cleanup.children
    wake_at = planner.requeues.get(child.uid if child is not None and is_obsolete else name)
    next_try = wake_at + offset if wake_at is not None else None
    return write_entry(name, status, kind=resource.kind if resource is not None else "", next_try=next_try)


def write_entry(name: str, status: ResourceStatus, *, kind: str = "", next_try: float | None = None) -> Object:
    """Make one entry of a list of problems.

    kind: of the resource, if no object is known; next_try: seconds since the epoch.
    """
    ref = status.ref
    entry: Object = {
        "resource": name,
        "kind": ref.kind if ref is not None else kind,
        "name": ref.name if ref is not None else "",
        "reason": status.reason,
        "message": status.message,
    }
    if ref is not None and ref.namespace:
        entry["namespace"] = ref.namespace
    if next_try is not None:
        entry["nextRetryTime"] = times.format_time(next_try)
    return entry
