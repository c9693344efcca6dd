"""Choice of the target: the spec, a rollback that the user requests, or the last completed revision after a failure.

Must not know how a target is stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from hearth.model import value_class
from hearth.model.errors import RollbackRevisionNotFound
from hearth.plan.target.target import (
    EMPTY_REVISION,
    CompletedRevisions,
    RollbackRequest,
    SuspendTransition,
    Target,
    TargetCause,
)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """Input for the choice of the target, from the Stack at one moment."""

    hash: str
    """Hash of the definition in its spec; "" if the operator cannot read it now."""
    to_revision: int | None = None
    to_snapshot: str = ""
    """The name of the StackSnapshot to restore; "" for none."""
    rollback: RollbackRequest | None = None
    """What that name resolves to now; None if it was resolved before."""
    failure: str = ""
    """Why the current target failed for good; "" if it did not."""
    is_retried: bool = False
    """Whether the user requests a retry of a failed definition."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """Decision on the target."""

    cause: TargetCause
    revision: int | None = None
    """None: the definition in the spec, whose number is not assigned yet."""
    rollback: RollbackRequest | None = None
    failed_hash: str = ""
    failure: str = ""


def choose_target(
    request: TargetRequest, *, before: Target | None, hashes: Mapping[int, str], completed: CompletedRevisions
) -> TargetChoice:
    """Choose the target. Raises RollbackRevisionNotFound.

    before: the previous target; hashes: of the definitions of all stored revisions, by number.
    """
    latest = request.hash or _find_last_hash(before, hashes)
    rollback = _find_rollback(request, latest, before=before, hashes=hashes, completed=completed)
    if rollback is not None and not rollback.is_overridden(latest):
        return TargetChoice(cause=TargetCause.ROLLBACK, revision=rollback.revision, rollback=rollback)
    if rollback is not None and rollback.claims:
        # The later definition ended the restore. What is written from now on must outlast the return of the definition.
        rollback = dataclasses.replace(rollback, is_restored=True)
    if request.failure and completed.has_target:
        last = completed.last if completed.last is not None else EMPTY_REVISION
        return TargetChoice(
            cause=TargetCause.AUTOMATIC,
            revision=last,
            rollback=rollback,
            failed_hash=request.hash,
            failure=request.failure,
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
        )
    return TargetChoice(cause=TargetCause.SPEC, rollback=rollback)


def _is_given_up(request: TargetRequest, before: Target) -> bool:
    """Return whether the spec still has the failed definition. An unknown hash does not count as a change."""
    return not before.failed_hash or not request.hash or before.failed_hash == request.hash


def _find_last_hash(before: Target | None, hashes: Mapping[int, str]) -> str:
    """Return the hash of the last definition in the spec that was a target; "" if unknown.

    A definition that ended a rollback does not revive it by becoming unreadable.
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
            f"and there is none; set a revision number, or remove rollback.toRevision; stored revisions: {kept}"
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
