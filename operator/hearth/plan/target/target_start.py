"""Start and completion of a target: what it keeps of the one before."""

from __future__ import annotations

import dataclasses

from hearth.model import value_class
from hearth.plan.environment.active_environment import NONE_CLEARED, ClearedBreakpoints
from hearth.plan.target.target import LastBatch, SuspendTransition, Target, TargetCause
from hearth.plan.target.target_choice import TargetChoice

MAX_PROTECTED_REVISIONS = 16
"""Maximum of revisions whose objects are protected at a time: one, and one more for each restart during a change."""
FAILURE_LENGTH = 1_024
"""Maximum characters of a stored failure message."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TargetContext:
    """Context for a new target, in addition to the choice."""

    now: float
    """Seconds since the epoch."""
    is_recalled: bool = False
    """Whether the previous target comes from a status, so that this process does not know if it completed."""
    is_retried: bool = False
    """Whether the user restarts its timeout."""
    is_unseen: bool = False
    """Whether no status ever contained a target, so that the Stack is new for its user."""
    cluster: str = ""
    """See `Target.cluster`."""
    definition_revision: int = 0
    """See `Target.definition_revision`."""
    removed: tuple[int, ...] | None = None
    """Of a group: see `Target`; None for those of the previous target."""
    resized: int = 0
    """Of a group: the unfinished revision that differs from the new one in size alone; 0 if there is none."""
    has_breakpoints: bool = False
    """Whether the Stack has breakpoints now."""
    heals_on_update: bool = False
    """Whether unhealthy objects wait for an update. A requested retry counts as one."""


def start_target(choice: TargetChoice, *, revision: int, before: Target | None, context: TargetContext) -> Target:
    """Make the target for a choice; the previous target stays if the choice is the same.

    revision: the number of the chosen revision.
    """
    removed = context.removed
    if removed is None:
        removed = before.removed if before is not None else ()
    if before is not None and _is_same(before, choice, revision):
        return dataclasses.replace(
            _retry(before, context) if context.is_retried else before,
            rollback=choice.rollback,
            failed_hash=choice.failed_hash,
            cluster=context.cluster,
            definition_revision=context.definition_revision,
            removed=removed,
        )
    cleared, breakpoint_key = _find_breakpoints(before, revision, context)
    highest = before.highest_revision if before is not None else 0
    return Target(
        revision=revision,
        cause=choice.cause,
        since=float(int(context.now)),
        is_first=context.is_unseen or (before is None and revision == 1),
        protected_revisions=_find_kept(before, is_recalled=context.is_recalled),
        rollback=choice.rollback,
        failed_hash=choice.failed_hash,
        failure=choice.failure[:FAILURE_LENGTH],
        suspend=_find_suspend_transition(before, choice),
        cluster=context.cluster,
        definition_revision=context.definition_revision,
        removed=removed,
        # Members beyond the size stay until the planner no longer needs them.
        surge=before.surge if before is not None else 0,
        batches=_find_batches(before, choice),
        detached=before.detached if before is not None else (),
        cleared=cleared,
        breakpoint_key=breakpoint_key,
        earlier_revision=highest if highest > revision else 0,
    )


def _retry(target: Target, context: TargetContext) -> Target:
    """Restart the timeout of a target. A completed one starts again where unhealthy objects wait for an update."""
    if target.is_completed and not context.heals_on_update:
        return target
    return dataclasses.replace(
        target,
        since=float(int(context.now)),
        is_completed=False,
        protected_revisions=_find_kept(target, is_recalled=False),
    )


def _find_breakpoints(before: Target | None, revision: int, context: TargetContext) -> tuple[ClearedBreakpoints, str]:
    """Return the breakpoints that stay cleared, and what the stops after changes are recorded under: see `Target`."""
    if context.resized:
        # An autoscaler must neither release a member that is stopped nor stop one that was released.
        is_known = before is not None and before.revision == context.resized
        cleared, key = (
            (before.cleared, before.breakpoint_key) if before is not None and is_known else (NONE_CLEARED, "")
        )
        key = key or str(context.resized)
        return cleared, key if key != str(revision) else ""
    if before is None or not context.has_breakpoints or revision > before.highest_revision:
        return NONE_CLEARED, ""
    if revision == before.revision and not before.is_completed:
        return NONE_CLEARED, before.breakpoint_key
    # Objects may still say where they stopped when this revision was the target for the first time.
    return NONE_CLEARED, f"{revision}-{int(context.now)}"


def _find_batches(before: Target | None, choice: TargetChoice) -> tuple[LastBatch, ...]:
    """Return the ends of batches that count for a new target: those of an update in progress, which it may continue.

    How many members were up to date then says nothing about the new target. A rollback does not wait for a pause.
    """
    if before is None or before.is_completed or before.cause is not choice.cause:
        return ()
    return tuple(dataclasses.replace(each, updated=0) for each in before.batches)


def _find_suspend_transition(before: Target | None, choice: TargetChoice) -> SuspendTransition | None:
    """Return the suspend transition that a new target inherits.

    A suspension stays. A resume in progress stays, unless the new target is a rollback.
    """
    transition = before.suspend if before is not None else None
    if transition is None or transition.is_suspended:
        return transition
    return None if transition.is_completed or choice.cause is not TargetCause.SPEC else transition


def _is_same(before: Target, choice: TargetChoice, revision: int) -> bool:
    """Return whether a choice equals the previous target. A repeated rollback request counts as a new one."""
    is_same_request = choice.cause is not TargetCause.ROLLBACK or before.rollback == choice.rollback
    return before.revision == revision and before.cause is choice.cause and is_same_request


def _find_kept(before: Target | None, *, is_recalled: bool) -> tuple[int, ...]:
    """Return the revisions that may have completed last."""
    if before is None:
        return ()
    if before.is_completed:
        return (before.revision,)
    # The target may have completed just before its process died. Protecting its objects too does no harm.
    if not is_recalled:
        return before.protected_revisions
    first, *later = dict.fromkeys((*before.protected_revisions, before.revision))
    return (first, *later[1 - MAX_PROTECTED_REVISIONS :])


def complete_target(target: Target) -> Target:
    """Mark the target as completed."""
    restore = target.restore
    rollback = dataclasses.replace(restore, is_restored=True) if restore is not None else target.rollback
    return dataclasses.replace(target, is_completed=True, protected_revisions=(), rollback=rollback)
