"""What a Stack's status says, from where its resources stand. Pure; the engine writes it when it is due."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hearth.model.child import Object
from hearth.model.phases import Phase
from hearth.plan import blockers, conditions, resolve
from hearth.plan.board import Board
from hearth.plan.standing import Standing, State
from hearth.plan.world import Memory
from hearth.template.blueprint import Known

PROBLEMS_AT_MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the definition in the spec is not the one that runs."""

    reason: str
    """One CamelCase word: `InvalidTemplate`, `SourceMissing`."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What of the Stack itself goes into its status."""

    generation: int
    is_deleting: bool
    is_first: bool
    """Whether no definition but the present one was ever accepted: its action is then called Create."""
    revision: int | None
    """Number of the definition that runs; None before the first was accepted."""
    last_completed: int | None
    refusal: Refusal | None
    blocked: str = ""
    """What holds the Stack's own deletion beyond its children, "" for nothing."""


def build(
    subject: Subject, board: Board | None, *, memory: Memory, before: Mapping[str, Any], now: float, monotonic: float
) -> Object:
    """The whole status.

    board: None before the first definition was accepted; before: the status as it is, for the times in its conditions;
    now: seconds since the epoch; monotonic: the same moment on the clock of `board.wakes`.
    """
    phase = Phase(_action(subject) + _progress(subject, board, memory))
    reason, message = _headline(subject, board, memory)
    blockage = None
    if board is not None and subject.is_deleting:
        blockage = blockers.find_blockage(board, memory, beyond=subject.blocked)
    status: Object = {
        "observedGeneration": subject.generation,
        "phase": str(phase),
        "conditions": conditions.judge(
            phase,
            reason=reason,
            message=message,
            extras=(blockage,) if blockage is not None else (),
            generation=subject.generation,
            before=before.get("conditions") or (),
            now=format_time(now),
        ),
    }
    if subject.revision is not None:
        status["revision"] = subject.revision
    completed = subject.revision if is_complete(subject, board) else subject.last_completed
    if completed is not None and not subject.is_deleting:
        status["lastCompletedRevision"] = completed
    if board is not None:
        status.update(_describe(board, memory, offset=now - monotonic))
    return status


def is_complete(subject: Subject, board: Board | None) -> bool:
    """Whether the present definition is reached in full."""
    return board is not None and not subject.is_deleting and subject.refusal is None and board.is_complete


def format_time(seconds: float) -> str:
    """RFC 3339 in UTC, to the second, as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _action(subject: Subject) -> str:
    if subject.is_deleting:
        return "Delete"
    return "Create" if subject.is_first else "Update"


def _progress(subject: Subject, board: Board | None, memory: Memory) -> str:
    if subject.refusal is not None and not subject.is_deleting:
        return "Failed"
    if board is None:
        return "InProgress"
    if board.by_state[State.FAILED] or any(attempt.is_exhausted for _, attempt in board.find_failed_deletions(memory)):
        return "Failed"
    if is_complete(subject, board):
        return "Complete"
    return "InProgress"


def _headline(subject: Subject, board: Board | None, memory: Memory) -> tuple[str, str]:
    """Reason and message of `Ready`: what is wrong, else what is waited for."""
    if subject.refusal is not None and not subject.is_deleting:
        return subject.refusal.reason, subject.refusal.message
    if board is None:
        return "Deleting" if subject.is_deleting else "Progressing", "the definition is being read"
    problem = next(iter(_find_problems(board, memory)), None)
    if problem is not None:
        name, standing = problem
        return (
            "Deleting" if subject.is_deleting else standing.reason
        ), f"{_called(name, standing)}: {standing.message}"
    if subject.is_deleting:
        return "Deleting", _waited_for(board) or subject.blocked or "nothing is left"
    if board.is_complete:
        count = len(board.blueprint.resources)
        return "Complete", f"all {count} resources are ready" if count != 1 else "the resource is ready"
    return "Progressing", _waited_for(board)


def _called(name: str, standing: Standing) -> str:
    return f"{name} ({standing.ref})" if standing.ref is not None else name


def _waited_for(board: Board) -> str:
    """The first few things that nothing but time or somebody else will mend."""
    progressing = board.by_state[State.PROGRESSING] or board.by_state[State.WAITING]
    if progressing:
        name = next(iter(progressing))
        standing = board.standings[name]
        others = len(progressing) - 1
        more = f", and {others} more" if others else ""
        return f"waits for {_called(name, standing)}: {standing.message}{more}"
    children = board.cleanup.children
    if children:
        return f"waits for the deletion of {blockers.describe_all(iter(children.values()), count=len(children))}"
    unwatched = sorted(kind.key for kind in board.unwatched)
    return f"waits for a first look at all {unwatched[0]} objects" if unwatched else ""


def _find_problems(board: Board, memory: Memory) -> list[tuple[str, Standing]]:
    """What hinders resources, the failed ones first, and refused deletions; as many as a status may name."""
    names = itertools.chain(
        board.by_state[State.FAILED],
        board.by_state[State.RETRYING],
        (name for name in board.by_state[State.WAITING] if board.standings[name].reason != "Waiting"),
    )
    problems = [(name, board.standings[name]) for name in itertools.islice(names, PROBLEMS_AT_MOST)]
    for child, attempt in board.find_failed_deletions(memory):
        state = State.FAILED if attempt.is_exhausted else State.RETRYING
        standing = Standing(state=state, reason=attempt.reason, message=attempt.message, ref=child.ref, child=child)
        problems.append((child.resource, standing))
    return problems[:PROBLEMS_AT_MOST]


def _describe(board: Board, memory: Memory, *, offset: float) -> Object:
    """Counts, problems and outputs. offset: what to add to monotonic seconds to get those since the epoch."""
    ready, total = len(board.by_state[State.READY]), len(board.blueprint.resources)
    return {
        "summary": f"{ready}/{total}",
        "resources": {
            "total": total,
            "ready": ready,
            "progressing": len(board.by_state[State.PROGRESSING]),
            "waiting": len(board.by_state[State.WAITING]),
            "failed": len(board.by_state[State.FAILED]) + len(board.by_state[State.RETRYING]),
            "obsolete": len(board.cleanup.children),
        },
        "problems": [_list_problem(board, name, standing, offset) for name, standing in _find_problems(board, memory)],
        "outputs": _evaluate_outputs(board),
    }


def _list_problem(board: Board, name: str, standing: Standing, offset: float) -> Object:
    child, resource = standing.child, board.blueprint.resources.get(name)
    is_obsolete = child is not None and child.uid in board.cleanup.children
    wake_at = board.wakes.get(child.uid if child is not None and is_obsolete else name)
    next_try = wake_at + offset if wake_at is not None else None
    return _entry(name, standing, kind=resource.kind if resource is not None else "", next_try=next_try)


def _entry(name: str, standing: Standing, *, kind: str, next_try: float | None) -> Object:
    """One line of the list of problems. kind: of the resource; next_try: seconds since the epoch."""
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
        entry["nextTry"] = format_time(next_try)
    return entry


def _evaluate_outputs(board: Board) -> Object:
    """The outputs whose values are known; the others wait in silence, as their resources speak for them."""
    outputs: Object = {}
    for name, output in board.blueprint.outputs.items():
        values = {
            read: resolve.fields_of(board.standings[read].child if read in board.standings else None)
            for read in output.reads
        }
        outcome = output.evaluate(values)
        if isinstance(outcome, Known) and outcome.value is not None:
            outputs[name] = outcome.value
    return outputs


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    """The merge patch that turns one status into the other; empty where they are equal."""
    patch: Object = {}
    for key in before.keys() - after.keys():
        patch[key] = None
    for key, value in after.items():
        old = before.get(key)
        if old == value:
            continue
        patch[key] = find_changes(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch
