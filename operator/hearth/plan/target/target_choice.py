"""Chooses the target: the spec, a rollback that a user requests, or the last completed revision after a failure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from hearth.model import value_class
from hearth.model.errors import RollbackRevisionNotFound
from hearth.plan.environment.active_environment import NONE_CLEARED, ClearedBreakpoints
from hearth.plan.target.target import (
    EMPTY_REVISION,
    CompletedRevisions,
    LastBatch,
    RollbackRequest,
    SuspendTransition,
    Target,
    TargetCause,
)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """Input for the choice of the target, from the Stack at one moment."""

    hash: str
    """Hash of the definition in its spec, or "" if the operator cannot read it now."""
    to_revision: int | None = None
    to_snapshot: str = ""
    """The name of the StackSnapshot to restore; "" for none."""
    rollback: RollbackRequest | None = None
    """The rollback that the name resolves to now, or None if it was resolved before."""
    failure: str = ""
    """Why the current target failed permanently, or "" if it did not."""
    failure_reason: str = ""
    """One CamelCase word."""
    is_retried: bool = False
    """Whether the user requests a retry of a definition that failed."""
    ends_rollback: bool = False
    """Whether the user requests a retry of the definition from which they rolled back."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """Decision on the target."""

    cause: TargetCause
    revision: int | None = None
    """None: the definition in the spec, whose number is not assigned yet."""
    rollback: RollbackRequest | None = None
    failed_hash: str = ""
    failure: str = ""
    failure_reason: str = ""
    is_retried: bool = False
    """Whether the user requested to try the failed definition again."""
    is_held: bool = False
    """Whether the definition in the spec waits, so that the previous target stays: see `hearth.plan.target.change_hold`."""


def choose_target(
    request: TargetRequest, *, before: Target | None, hashes: Mapping[int, str], completed: CompletedRevisions
) -> TargetChoice:
    """Choose the target. Raises RollbackRevisionNotFound.

    before: the previous target; hashes: of the definitions of all stored revisions, by number.
    """
    latest = request.hash or _find_last_hash(before, hashes)
    rollback = _find_rollback(request, latest, before=before, hashes=hashes, completed=completed)
    if rollback is not None and request.ends_rollback and request.hash:
        rollback = dataclasses.replace(rollback, is_ended=True)
    if rollback is not None and not rollback.is_overridden(latest):
        return TargetChoice(cause=TargetCause.ROLLBACK, revision=rollback.revision, rollback=rollback)
    if rollback is not None and rollback.claims:
        # The later definition ended the restore. Data that is written from now on must survive, even if the definition
        # returns.
        rollback = dataclasses.replace(rollback, is_restored=True)
    if request.failure and completed.has_target:
        last = completed.last if completed.last is not None else EMPTY_REVISION
        return TargetChoice(
            cause=TargetCause.AUTOMATIC,
            revision=last,
            rollback=rollback,
            failed_hash=request.hash,
            failure=request.failure,
            failure_reason=request.failure_reason,
        )
    if (
        before is not None
        and before.cause is TargetCause.AUTOMATIC
        and not request.is_retried
        and _is_given_up(request, before)
    ):
        return TargetChoice(
            cause=TargetCause.AUTOMATIC,
            revision=before.revision,
            rollback=rollback,
            failed_hash=before.failed_hash or request.hash,
            failure=before.failure,
            failure_reason=before.failure_reason,
        )
    return TargetChoice(cause=TargetCause.SPEC, rollback=rollback, is_retried=request.is_retried)


def _is_given_up(request: TargetRequest, before: Target) -> bool:
    """Return whether the spec still has the failed definition. An unknown hash does not count as a change."""
    return not before.failed_hash or not request.hash or before.failed_hash == request.hash


def _find_last_hash(before: Target | None, hashes: Mapping[int, str]) -> str:
    """Return the hash of the last definition in the spec that was a target, or "" if unknown.

    A definition that ended a rollback and then becomes unreadable does not revive the rollback.
    """
    if before is None or before.cause is TargetCause.ROLLBACK:
        return ""
    return before.failed_hash if before.cause is TargetCause.AUTOMATIC else hashes.get(before.revision, "")


def _find_rollback(
    request: TargetRequest,
    latest: str,
    *,
    before: Target | None,
    hashes: Mapping[int, str],
    completed: CompletedRevisions,
) -> RollbackRequest | None:
    """Return the rollback or restore that the user requests, as resolved before or now; None for none.

    latest: hash of the last known definition in the spec.
    """
    if request.to_snapshot:
        return _resolve_restore(request, latest, before=before)
    if request.to_revision is None:
        return None
    return _resolve_rollback(request, latest, before=before, hashes=hashes, completed=completed)


def _resolve_restore(request: TargetRequest, latest: str, *, before: Target | None) -> RollbackRequest | None:
    """Return the restore request as resolved before, or as it resolves now."""
    known = before.rollback if before is not None else None
    is_known = known is not None and known.snapshot == request.to_snapshot
    if known is None or not is_known or not (known.is_resolved or known.is_overridden(latest)):
        known = request.rollback
    if known is None or known.spec_hash:
        return known
    return dataclasses.replace(known, spec_hash=request.hash)


def _resolve_rollback(
    request: TargetRequest,
    latest: str,
    *,
    before: Target | None,
    hashes: Mapping[int, str],
    completed: CompletedRevisions,
) -> RollbackRequest:
    """Return the rollback request as resolved before, or resolve a new one."""
    stated = request.to_revision or 0
    known = before.rollback if before is not None else None
    is_known = known is not None and known.to_revision == stated and not known.snapshot
    if known is not None and is_known and (known.is_resolved or known.is_overridden(latest)):
        return known if known.spec_hash else dataclasses.replace(known, spec_hash=request.hash)
    kept = ", ".join(str(number) for number in sorted(hashes)) or "none"
    if stated:
        if stated not in hashes:
            raise RollbackRevisionNotFound(
                f"spec.rollback.toRevision: there is no revision {stated}; stored revisions: {kept}"
            )
        return RollbackRequest(to_revision=stated, spec_hash=request.hash, revision=stated)
    present = next((number for number, hashed in hashes.items() if hashed == request.hash), None)
    other = completed.find_other(present)
    if other is None or (other != EMPTY_REVISION and other not in hashes):
        raise RollbackRevisionNotFound(
            "spec.rollback.toRevision: 0 means the last completed revision other than the one in the spec, "
            f"and no such revision exists; set a revision number, or remove rollback.toRevision; stored revisions: {kept}"
        )
    return RollbackRequest(to_revision=stated, spec_hash=request.hash, revision=other)


# Suspend and resume transitions in the target of a Stack. They name the current action, and have their own timeout.


def follow_suspend(target: Target, *, is_suspended: bool, now: float) -> Target:
    """Update the target from `spec.suspended`; the same target if nothing changed. now: seconds since the epoch."""
    transition = target.suspend
    if is_suspended == (transition is not None and transition.is_suspended):
        return target
    if not is_suspended and target.is_rollback and not target.is_completed:
        # The user requested a rollback during the suspension: the next action is Rollback, not Resume.
        return dataclasses.replace(target, suspend=None, since=float(int(now)))
    return dataclasses.replace(target, suspend=SuspendTransition(is_suspended=is_suspended, since=float(int(now))))


def restart_timeout(target: Target, *, now: float) -> Target:
    """Restart the timeout of the target, if it is running. now: seconds since the epoch."""
    if target.started_at is None:
        return target
    since = float(int(now))
    if target.suspend is not None and not target.suspend.is_completed:
        return dataclasses.replace(target, suspend=dataclasses.replace(target.suspend, since=since))
    return dataclasses.replace(target, since=since)


# Start and completion of a target, and the state that it keeps from the previous one.

MAX_PROTECTED_REVISIONS = 16
"""Maximum number of revisions whose objects are protected at a time: one, plus one for each restart during a change."""
FAILURE_LENGTH = 1_024
"""Maximum characters of a stored failure message."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TargetContext:
    """Context for a new target, in addition to the choice."""

    now: float
    """Seconds since the epoch."""
    is_recalled: bool = False
    """Whether the previous target comes from a status, so that this process does not know if it completed."""
    highest_stored: int = 0
    """The highest number of a stored revision if each of them may have run, and none is in progress: if the status is
    lost, or while a definition waits. Otherwise 0.
    """
    is_retried: bool = False
    """Whether the user restarts its timeout."""
    is_unseen: bool = False
    """Whether no status ever contained a target, so that the Stack is new for its user."""
    cluster: str = ""
    """See `Target.cluster`."""
    definition_revision: int = 0
    """See `Target.definition_revision`."""
    removed: tuple[int, ...] | None = None
    """Of a group: see `Target`; None for the indices of the previous target."""
    resized: int = 0
    """Of a group: the unfinished revision that differs from the new one only in size; 0 without one."""
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
            earlier_revision=max(before.earlier_revision, context.highest_stored),
        )
    cleared, breakpoint_key = _find_breakpoints(before, revision, context)
    highest = max(before.highest_revision if before is not None else 0, context.highest_stored)
    return Target(
        revision=revision,
        cause=choice.cause,
        since=float(int(context.now)),
        is_first=context.is_unseen or (before is None and revision == 1),
        protected_revisions=_find_kept(before, is_recalled=context.is_recalled),
        rollback=choice.rollback,
        failed_hash=choice.failed_hash,
        failure=choice.failure[:FAILURE_LENGTH],
        failure_reason=choice.failure_reason,
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
        earlier_revision=highest if highest >= revision else 0,
    )


def _retry(target: Target, context: TargetContext) -> Target:
    """Restart the timeout of a target. A completed one starts again if unhealthy objects wait for an update."""
    if target.is_completed and not context.heals_on_update:
        return target
    return dataclasses.replace(
        target,
        since=float(int(context.now)),
        is_completed=False,
        protected_revisions=_find_kept(target, is_recalled=False),
    )


def _find_breakpoints(before: Target | None, revision: int, context: TargetContext) -> tuple[ClearedBreakpoints, str]:
    """Return the breakpoints that stay cleared, and the key that records the stops after changes: see `Target`."""
    if context.resized:
        # An autoscaler must neither continue a stopped member nor stop a continued one.
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
    # Objects may still record where they stopped when this revision was the target for the first time.
    return NONE_CLEARED, f"{revision}-{int(context.now)}"


def _find_batches(before: Target | None, choice: TargetChoice) -> tuple[LastBatch, ...]:
    """Return the batch ends that count for a new target: those of an update in progress, which it may continue.

    The number of updated members does not apply to the new target. A rollback does not wait for a pause.
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
    is_same_request = choice.cause is not TargetCause.ROLLBACK or before.rollback == choice.rollback or choice.is_held
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
