"""How far a Stack has come, in one word, one sentence, and the conditions that are there only while they hold."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hearth.model import times
from hearth.model.phases import Phase
from hearth.plan.resource import readiness
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import internal_errors
from hearth.plan.state.internal_errors import Fault
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_conditions import ExtraCondition
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.state.steps import Apply, Suspend
from hearth.plan.status import breakpoint_waits, check_result, conditions, deletion_blockers, problems
from hearth.plan.status.check_result import CheckResult
from hearth.plan.target.target import EMPTY_REVISION, CompletedRevisions, Target, TargetCause


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionRejection:
    """Why the definition in the spec is not the one that runs."""

    reason: str
    """One CamelCase word: `InvalidTemplate`, `SourceMissing`."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusInput:
    """What of the Stack itself goes into its status."""

    generation: int
    is_deleting: bool = False
    target: Target | None = None
    """None before the first definition was accepted."""
    is_recorded: bool = True
    """Whether the status names that wish already, where nothing may be done before it does."""
    completed: CompletedRevisions = field(default_factory=CompletedRevisions)
    last_failed: int | None = None
    """The revision that failed last."""
    rejection: DefinitionRejection | None = None
    handled: Mapping[str, str] = field(default_factory=dict)
    """By verb the token that was obeyed last."""
    refreshed_parameters: tuple[str, ...] = ()
    """Of a revision gone back to, the sensitive parameters whose values are others by now."""
    tampered: str = ""
    """Which stored revisions are not as this operator wrote them, in words."""
    is_paused: bool = False
    is_suspended: bool = False
    """Whether workloads are to be at nothing."""
    timed_out_after: float | None = None
    """Seconds that the wish was given, where they are over."""
    check: CheckResult | None = None
    """Of the last check."""
    check_error: str = ""
    """Why the check that is asked for cannot be done yet."""
    fault: Fault | None = None
    """What of the work for it ends in internal errors."""
    blocked_by: str = ""
    """What holds the Stack's own deletion beyond its children, "" for nothing."""
    polled: tuple[str, ...] = ()
    """Sources of the definition whose changes are noticed late, by polling."""

    @property
    def is_automatic_rollback(self) -> bool:
        """Whether what is wanted is not what the user wants."""
        return self.target is not None and self.target.cause is TargetCause.AUTOMATIC

    @property
    def is_completed(self) -> bool:
        """Whether what is wanted was reached in full once, so that what happens now is at most repair."""
        is_wanted = self.is_recorded and not self.is_deleting and not self.is_suspended and self.rejection is None
        return is_wanted and self.target is not None and self.target.started_at is None

    @property
    def checked(self) -> Phase | None:
        """The phase that the last check gives; None where that of what is wanted counts."""
        return check_result.find_phase(self.check) if self.is_completed else None


def find_phase(subject: StatusInput, board: StackPlanner | None, memory: InMemoryState) -> Phase:
    """The one word."""
    checked = None if is_stuck(subject) else subject.checked
    return checked or Phase(_action(subject) + _progress(subject, board, memory))


def is_complete(subject: StatusInput, board: StackPlanner | None) -> bool:
    """Whether the present wish is reached in full."""
    return (
        board is not None
        and not subject.is_deleting
        and (subject.rejection is None or subject.is_suspended)
        and subject.is_recorded
        # The board follows with the next pass only.
        and subject.is_suspended == (board.suspension is not None)
        and board.is_complete
    )


def _action(subject: StatusInput) -> str:
    wish = subject.target
    if subject.is_deleting:
        return "Delete"
    if subject.is_suspended:
        return "Suspend"
    if wish is None:
        return "Create"
    if subject.rejection is not None:
        return "Update"
    if wish.suspend is not None:
        return "Resume"
    if wish.is_rollback:
        return "Rollback"
    return "Create" if wish.is_first else "Update"


def _progress(subject: StatusInput, board: StackPlanner | None, memory: InMemoryState) -> str:
    if _is_refused(subject, board) or is_stuck(subject):
        return "Failed"
    if board is None or not subject.is_recorded:
        return "InProgress"
    if is_complete(subject, board):
        return "Complete"
    if board.has_failed(memory) or subject.timed_out_after is not None:
        return "Failed"
    return "Stopped" if not subject.is_suspended and breakpoint_waits.is_stopped(board, memory) else "InProgress"


def is_stuck(subject: StatusInput) -> bool:
    """Whether an internal error keeps the Stack from getting on."""
    return subject.fault is not None and subject.fault.is_blocking


def _is_refused(subject: StatusInput, board: StackPlanner | None) -> bool:
    """Whether a definition that was refused is what there is to tell first.

    Of a suspended Stack only where nothing is known that could be suspended: the refusal keeps nothing from it.
    """
    return (
        subject.rejection is not None and not subject.is_deleting and not (subject.is_suspended and board is not None)
    )


def find_ready_reason(subject: StatusInput, board: StackPlanner | None, memory: InMemoryState) -> tuple[str, str]:
    """Reason and message of `Ready`: what is wrong, else what is waited for."""
    if told := _find_word(subject, board):
        return told
    if board is None:
        return "Deleting" if subject.is_deleting else "Progressing", "the definition is being read"
    if is_complete(subject, board):
        return _tell_end(subject, board)
    if _progress(subject, board, memory) == "Stopped":
        return breakpoint_waits.TYPE, breakpoint_waits.explain(board)
    reason, message = _find_trouble(board, memory)
    if subject.is_deleting:
        return "Deleting", message or _tell_wait(subject, board) or subject.blocked_by or "nothing is left"
    if subject.timed_out_after is not None and not board.has_failed(memory):
        given = times.format_duration(subject.timed_out_after)
        return "Timeout", f"not reached within {given} (spec.timeout): {message or _tell_wait(subject, board)}"
    if reason:
        return reason, message
    return "Paused" if subject.is_paused and board.ready_steps else "Progressing", _tell_wait(subject, board)


def _find_word(subject: StatusInput, board: StackPlanner | None) -> tuple[str, str] | None:
    """Reason and message where they do not follow from the board: of an error, a refused definition, or what a check found."""
    if subject.fault is not None and subject.fault.is_blocking:
        return internal_errors.REASON, subject.fault.message
    if subject.rejection is not None and _is_refused(subject, board):
        return subject.rejection.reason, subject.rejection.message
    if subject.check is not None and subject.checked is Phase.CHECK_FAILED:
        return "CheckFailed", f"the last check {check_result.describe(subject.check)}"
    return None


def explain_failure(subject: StatusInput, board: StackPlanner, memory: InMemoryState) -> str:
    """What of its definition makes the Stack say Failed, "" where nothing does."""
    # No revision is given up for an error of the operator, which any other might meet as well.
    subject = dataclasses.replace(subject, fault=None)
    if _progress(subject, board, memory) != "Failed":
        return ""
    return find_ready_reason(subject, board, memory)[1]


def _find_trouble(board: StackPlanner, memory: InMemoryState) -> tuple[str, str]:
    """Reason and message of the first problem, both empty where there is none."""
    problem = next(iter(problems.find_problems(board, memory)), None)
    if problem is None:
        return "", ""
    name, standing = problem
    return standing.reason, f"{_called(name, standing)}: {standing.message}"


def _tell_end(subject: StatusInput, board: StackPlanner) -> tuple[str, str]:
    """Reason and message once all is as it is wanted."""
    if subject.is_suspended:
        refused = f"; the definition in the spec is refused: {subject.rejection.message}" if subject.rejection else ""
        return "Suspended", f"suspended by spec.suspended; set it to false to have all of it brought back{refused}"
    count = len(board.blueprint.resources)
    ready = f"all {count} resources are ready" if count != 1 else "the resource is ready"
    if subject.check is not None and subject.checked is Phase.CHECK_COMPLETE:
        ready += f"; the last check {check_result.describe(subject.check)}"
    wish = subject.target
    if wish is None or not wish.is_rollback:
        return "Complete", ready
    where = (
        f"revision {wish.revision}" if wish.revision != EMPTY_REVISION else "nothing, as no revision was ever reached"
    )
    if subject.refreshed_parameters:
        where += f" (with {readiness.enumerate_names(subject.refreshed_parameters)} as given now)"
    if wish.cause is TargetCause.ROLLBACK:
        return "Complete", f"rolled back to {where} as ordered; {ready}"
    left = ""
    if board.preserved:
        refs = readiness.enumerate_names([str(child.ref) for child in board.preserved.values()])
        left = f"; left standing, as they hold data: {refs}"
    return "RolledBack", (
        f"rolled back to {where}, since the definition in the spec failed: {wish.failure}{left}; "
        f"change the definition, or annotate the Stack with hearth.dev/retry to have it tried once more"
    )


def _tell_wait(subject: StatusInput, board: StackPlanner) -> str:
    """What is waited for, and what is held back until then."""
    if subject.is_paused and board.ready_steps:
        return describe_plan(board)
    waited = _waited_for(board)
    kept = board.find_deferred() if not subject.is_suspended else []
    if not kept:
        return waited
    refs = readiness.enumerate_names([str(child.ref) for child in kept])
    return f"{waited}; held back until all is ready: {refs} (hearth.dev/cleanup lets them go)"


def describe_plan(board: StackPlanner) -> str:
    """What would be done now."""
    done: dict[str, list[str]] = {}
    for name, step in board.ready_steps.items():
        if isinstance(step, Apply):
            done.setdefault("apply", []).append(name)
        elif isinstance(step, Suspend):
            done.setdefault(str(step.purpose), []).append(step.child.resource)
        else:
            done.setdefault("delete", []).append(str(step.child.ref))
    parts = [f"{verb} {readiness.enumerate_names(named)}" for verb, named in sorted(done.items())]
    return f"spec.paused holds back: {', '.join(parts)}" if parts else "spec.paused is true; nothing would be done"


def find_extra_conditions(
    subject: StatusInput, board: StackPlanner | None, memory: InMemoryState
) -> Iterator[ExtraCondition]:
    """The conditions that hold besides the three that are always there."""
    if subject.is_paused:
        plan = describe_plan(board) if board is not None else "spec.paused is true"
        yield ExtraCondition(type="Paused", reason="Paused", message=plan)
    if subject.tampered:
        yield ExtraCondition(type=conditions.TAMPERED, reason="SignatureInvalid", message=subject.tampered)
    if subject.fault is not None:
        yield ExtraCondition(type=internal_errors.TYPE, reason=internal_errors.REASON, message=subject.fault.message)
    yield from check_result.find_condition(subject.check_error)
    if board is not None and not subject.is_suspended:
        yield from breakpoint_waits.find_condition(board)
    if subject.is_deleting:
        yield from _find_blockage(subject, board, memory)
    wish = subject.target
    is_done = subject.is_deleting or is_complete(subject, board)
    if wish is not None and wish.is_rollback and not is_done:
        cause = f"revision {wish.revision} is ordered by spec.rollback.toRevision"
        if subject.is_automatic_rollback:
            cause = f"the definition in the spec failed: {wish.failure}"
        yield ExtraCondition(type="RollingBack", reason=str(wish.cause), message=cause)


def _find_blockage(subject: StatusInput, board: StackPlanner | None, memory: InMemoryState) -> Iterator[ExtraCondition]:
    """What holds up a deletion: the user himself, or what only somebody else can mend."""
    if subject.is_paused:
        yield ExtraCondition(
            type=deletion_blockers.TYPE, reason="Paused", message="spec.paused is true; set it to false"
        )
    elif subject.fault is not None and subject.fault.is_blocking:
        yield ExtraCondition(type=deletion_blockers.TYPE, reason=internal_errors.REASON, message=subject.fault.message)
    elif board is not None:
        blockage = deletion_blockers.find_deletion_block(board, memory, beyond=subject.blocked_by)
        if blockage is not None:
            yield blockage


def _called(name: str, standing: ResourceStatus) -> str:
    return f"{name} ({standing.ref})" if standing.ref is not None else name


def _waited_for(board: StackPlanner) -> str:
    """The first few things that nothing but time or somebody else will mend."""
    progressing = board.by_state[ResourceState.PROGRESSING] or board.by_state[ResourceState.WAITING]
    if progressing:
        name = next(iter(progressing))
        standing = board.statuses[name]
        others = len(progressing) - 1
        more = f", and {others} more" if others else ""
        return f"waits for {_called(name, standing)}: {standing.message}{more}"
    children = board.cleanup.children
    if children:
        refs = [
            f"{child.ref}"
            + (f" (held by {', '.join(child.finalizers)})" if child.deleting and child.finalizers else "")
            for child in itertools.islice(children.values(), readiness.NAMED_AT_MOST + 1)
        ]
        named = ", ".join(refs[: readiness.NAMED_AT_MOST])
        more = f" and {len(children) - readiness.NAMED_AT_MOST} more" if len(children) > readiness.NAMED_AT_MOST else ""
        return f"waits for the deletion of {named}{more}"
    unwatched = sorted(kind.key for kind in board.unsynced)
    for kind, words in board.denied.items():
        if kind in board.unsynced:
            return f"may not look at {kind.key} objects, of which some may be there: {words}"
    return f"waits for a first look at all {unwatched[0]} objects" if unwatched else ""
