"""The problems of a Stack's resources, worst first, as many as a status may list."""

from __future__ import annotations

import itertools

from hearth.model import times
from hearth.model.child import Object
from hearth.plan.environment.environment_rules import Action
from hearth.plan.resource import enforcement
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus

AT_MOST = 20


def find_problems(board: StackPlan, memory: InMemoryState) -> list[tuple[str, ResourceStatus]]:
    """Find the problems: failed resources first, then others, then failed deletions; as many as a status may list."""
    names = itertools.chain(
        board.by_state[ResourceState.FAILED],
        board.by_state[ResourceState.RETRYING],
        (name for name in board.by_state[ResourceState.WAITING] if board.statuses[name].cause is not Cause.ORDER),
    )
    problems = [(name, board.statuses[name]) for name in itertools.islice(names, AT_MOST)]
    for child, attempt in board.find_failed_deletions(memory):
        state = ResourceState.FAILED if attempt.is_exhausted else ResourceState.RETRYING
        standing = ResourceStatus(state=state, reason=attempt.reason, message=attempt.message, child=child)
        problems.append((child.resource, standing))
    for held in board.deletion_guard.denied if board.deletion_guard.held_deletions else ():
        if held.rule is not None:
            message = enforcement.explain_restriction(held.rule, Action.DELETE)
            standing = ResourceStatus(
                state=ResourceState.FAILED, reason=enforcement.RESTRICTED, message=message, child=held.child
            )
            problems.append((held.child.resource, standing))
    return problems[:AT_MOST]


def list_problem(board: StackPlan, name: str, standing: ResourceStatus, offset: float) -> Object:
    """Make one entry of the list of problems. offset: difference of seconds since the epoch and monotonic seconds."""
    child, resource = standing.child, board.blueprint.resources.get(name)
    is_obsolete = child is not None and child.uid in board.cleanup.children
    wake_at = board.requeues.get(child.uid if child is not None and is_obsolete else name)
    next_try = wake_at + offset if wake_at is not None else None
    return write_entry(name, standing, kind=resource.kind if resource is not None else "", next_try=next_try)


def write_entry(name: str, standing: ResourceStatus, *, kind: str = "", next_try: float | None = None) -> Object:
    """Make one entry of a list of problems.

    kind: of the resource, if no object is known; next_try: seconds since the epoch.
    """
    ref = standing.ref
    entry: Object = {
        "resource": name,
        "kind": ref.kind if ref is not None else kind,
        "name": ref.name if ref is not None else "",
        "reason": standing.reason,
        "message": standing.message,
    }
    if ref is not None and ref.namespace:
        entry["namespace"] = ref.namespace
    if next_try is not None:
        entry["nextRetryTime"] = times.format_time(next_try)
    return entry
