"""The target revision of a Stack, and its cause: the spec, a rollback request, or an automatic rollback.

A rollback only changes the target revision. `status` stores what the operator cannot derive from the spec, before
the first write that depends on it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass

from hearth.model.errors import RollbackRevisionNotFound
from hearth.plan.environment import cleared_breakpoints
from hearth.plan.environment.cleared_breakpoints import ClearedBreakpoints

EMPTY_REVISION = 0
"""The number of the revision without objects: the target of the rollback of a failed first create."""
MAX_PROTECTED_REVISIONS = 16
"""Maximum of revisions whose objects are protected at a time: one, and one more for each restart during a change."""
FAILURE_LENGTH = 1_024
"""Maximum characters of a stored failure message."""


class TargetCause(enum.StrEnum):
    """Reason for the target revision; `cause` in the status."""

    SPEC = "Spec"
    """The target is the definition in the spec."""
    ROLLBACK = "Rollback"
    """The user requested it by `spec.rollback.toRevision`."""
    AUTOMATIC = "AutomaticRollback"
    """The target is the last completed revision, because the definition in the spec failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredClaim:
    """A claim of a snapshot, and the VolumeSnapshot that it gets its content from."""

    resource: str
    snapshot: str
    claim: str = ""
    """The name of a claim that the StatefulSet of the resource made; "" if the claim is the object of the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """A rollback that a user requests. It applies to the definition in the spec at that time, and to no later one.

    One to a snapshot restores its volumes once: first all workloads are suspended, then the claims are replaced.
    """

    to_revision: int
    """The value of `toRevision`."""
    spec_hash: str
    """Hash of the definition in the spec at that time; "" while it is unknown."""
    revision: int
    """The resolved revision. It is resolved once. `EMPTY_REVISION` while there is none: the request is then rejected."""
    snapshot: str = ""
    """The name of the StackSnapshot; "" for a rollback to a revision."""
    snapshot_uid: str = ""
    token: str = ""
    """Distinguishes this restore from every other one."""
    claims: tuple[RestoredClaim, ...] = ()
    is_halted: bool = False
    """Whether the workloads were suspended, so that the claims may be replaced."""
    is_restored: bool = False
    """Whether the restore completed. The claims then stay as they are."""

    @property
    def is_resolved(self) -> bool:
        """Return whether it could be resolved."""
        return self.revision != EMPTY_REVISION

    def is_overridden(self, spec_hash: str) -> bool:
        """Return whether a definition of that hash is newer. An unknown hash, "", is no change."""
        return bool(self.spec_hash and spec_hash and self.spec_hash != spec_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedRevisions:
    """Revisions that completed."""

    last: int | None = None
    previous: int | None = None
    """The last one other than `last`."""
    is_known: bool = True
    """Whether the history is complete. What an earlier process wrote may be lost."""

    @property
    def has_target(self) -> bool:
        """Return whether a rollback has a target. That is never revision 0 if a revision may have completed."""
        return self.last is not None or self.is_known

    def note(self, revision: int) -> CompletedRevisions:
        """Add a completed revision. Revision 0 does not count: a request for the last revision never means it."""
        return (
            self if revision in (self.last, EMPTY_REVISION) else CompletedRevisions(last=revision, previous=self.last)
        )

    def find_other(self, revision: int | None) -> int | None:
        """Return the last completed revision other than `revision`."""
        return self.previous if self.last == revision else self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendTransition:
    """The last change of `spec.suspended`."""

    is_suspended: bool
    """Whether the operator suspends workloads; False while it resumes them."""
    since: float
    """Whole seconds since the epoch."""
    is_completed: bool = False
    """Whether the transition completed once. All later writes are repairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The last completed batch of the rolling update of one collection."""

    collection: str
    since: float
    """When it completed, in seconds since the epoch."""
    updated: int
    """How many members were up to date then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target revision with its cause and state. Equal targets are identical."""

    revision: int
    cause: TargetCause
    since: float
    """Whole seconds since the epoch."""
    is_first: bool = False
    """Whether the Stack had no earlier target: the action is then Create."""
    is_completed: bool = False
    """Whether the target completed once. All later writes are repairs."""
    is_cleanup_waived: bool = False
    """Whether the user waived the protection of obsolete objects."""
    protected_revisions: tuple[int, ...] = ()
    """The earlier completed revisions, whose objects stay until this target completes."""
    rollback: RollbackRequest | None = None
    """The last handled rollback request, even while a later definition overrides it."""
    failed_hash: str = ""
    """Hash of the failed definition in the spec; only for an automatic rollback."""
    failure: str = ""
    """Message of the failure."""
    cleared: ClearedBreakpoints = cleared_breakpoints.NONE
    """The breakpoints cleared under this target."""
    suspend: SuspendTransition | None = None
    """The last change of `spec.suspended`, if it names the current action of this target."""
    cluster: str = ""
    """URL of the API server that has the objects; "" for that of the Stack."""
    removed: tuple[int, ...] = ()
    """Of a group: the indices that none of its members has any more."""
    surge: int = 0
    """Of a group: the members beyond its size, until a rolling update is done."""
    batches: tuple[LastBatch, ...] = ()
    """The last completed batch of each rolling update of this target."""

    @property
    def started_at(self) -> float | None:
        """Return the start of the current action in seconds since the epoch; None if it completed."""
        if self.suspend is not None and not (self.suspend.is_completed and not self.suspend.is_suspended):
            return None if self.suspend.is_completed else self.suspend.since
        return None if self.is_completed else self.since

    @property
    def restore(self) -> RollbackRequest | None:
        """Return the restore of volumes in progress; None if there is none."""
        request = self.rollback
        if self.cause is not TargetCause.ROLLBACK or request is None or request.revision != self.revision:
            return None
        return request if request.claims and not request.is_restored else None

    @property
    def is_rollback(self) -> bool:
        """Return whether the target differs from the definition in the spec."""
        return self.cause is not TargetCause.SPEC


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """Input for the choice of the target, from the Stack at one moment."""

    hash: str
    """Hash of the definition in its spec; "" if the operator cannot read it now."""
    to_revision: int | None = None
    to_snapshot: str = ""
    """The name of the StackSnapshot to restore; "" for none."""
    restore: RollbackRequest | None = None
    """What that name resolves to now; None if it was resolved before."""
    failure: str = ""
    """Why the current target failed for good; "" if it did not."""
    is_retried: bool = False
    """Whether the user requests a retry of a failed definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """Decision on the target."""

    cause: TargetCause
    revision: int | None = None
    """None: the definition in the spec, whose number is not assigned yet."""
    order: RollbackRequest | None = None
    failed_hash: str = ""
    failure: str = ""


def choose_target(
    request: TargetRequest, *, before: Target | None, hashes: Mapping[int, str], completed: CompletedRevisions
) -> TargetChoice:
    """Choose the target. Raises RollbackRevisionNotFound.

    before: the previous target; hashes: of the definitions of all stored revisions, by number.
    """
    order = None
    if request.to_snapshot:
        order = _settle_restore(request, before=before)
        if order is not None and (order.spec_hash == request.hash or not request.hash):
            return TargetChoice(cause=TargetCause.ROLLBACK, revision=order.revision, order=order)
    elif request.to_revision is not None:
        order = _settle(request, request.to_revision, before=before, hashes=hashes, completed=completed)
        if order.spec_hash == request.hash or not request.hash:
            return TargetChoice(cause=TargetCause.ROLLBACK, revision=order.revision, order=order)
    if request.failure and completed.has_target:
        last = completed.last if completed.last is not None else EMPTY_REVISION
        return TargetChoice(
            cause=TargetCause.AUTOMATIC, revision=last, order=order, failed_hash=request.hash, failure=request.failure
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
            order=order,
            failed_hash=before.failed_hash or request.hash,
            failure=before.failure,
        )
    return TargetChoice(cause=TargetCause.SPEC, order=order)


def _is_given_up(request: TargetRequest, before: Target) -> bool:
    """Return whether the spec still has the failed definition. An unknown hash does not count as a change."""
    return not before.failed_hash or not request.hash or before.failed_hash == request.hash


def _settle_restore(request: TargetRequest, *, before: Target | None) -> RollbackRequest | None:
    """Return the restore request as resolved before, or as it resolves now."""
    known = before.rollback if before is not None else None
    is_known = known is not None and known.snapshot == request.to_snapshot
    if known is None or not is_known or not (known.is_resolved or known.is_overridden(request.hash)):
        known = request.restore
    if known is None or known.spec_hash:
        return known
    return dataclasses.replace(known, spec_hash=request.hash)


def _settle(
    request: TargetRequest,
    stated: int,
    *,
    before: Target | None,
    hashes: Mapping[int, str],
    completed: CompletedRevisions,
) -> RollbackRequest:
    """Return the rollback request as resolved before, or resolve a new one."""
    known = before.rollback if before is not None else None
    is_known = known is not None and known.to_revision == stated and not known.snapshot
    if known is not None and is_known and (known.is_resolved or known.is_overridden(request.hash)):
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    removed: tuple[int, ...] = ()
    """Of a group: see `Target`."""


def start_target(aim: TargetChoice, *, revision: int, before: Target | None, given: TargetContext) -> Target:
    """Make the target for a choice; the previous target stays if the choice is the same.

    revision: the number of the chosen revision.
    """
    if before is not None and _is_same(before, aim, revision):
        since = float(int(given.now)) if given.is_retried and not before.is_completed else before.since
        return dataclasses.replace(
            before,
            rollback=aim.order,
            failed_hash=aim.failed_hash,
            since=since,
            cluster=given.cluster,
            removed=given.removed,
        )
    return Target(
        revision=revision,
        cause=aim.cause,
        since=float(int(given.now)),
        is_first=given.is_unseen or (before is None and revision == 1),
        protected_revisions=_find_kept(before, is_recalled=given.is_recalled),
        rollback=aim.order,
        failed_hash=aim.failed_hash,
        failure=aim.failure[:FAILURE_LENGTH],
        suspend=_find_turn(before, aim),
        cluster=given.cluster,
        removed=given.removed,
        # Members beyond the size stay until the planner no longer needs them.
        surge=before.surge if before is not None else 0,
        batches=_find_batches(before, aim),
    )


def _find_batches(before: Target | None, aim: TargetChoice) -> tuple[LastBatch, ...]:
    """Return the ends of batches that count for a new target: those of an update in progress, which it may continue.

    How many members were up to date then says nothing about the new target. A rollback does not wait for a pause.
    """
    if before is None or before.is_completed or before.cause is not aim.cause:
        return ()
    return tuple(dataclasses.replace(each, updated=0) for each in before.batches)


def _find_turn(before: Target | None, aim: TargetChoice) -> SuspendTransition | None:
    """Return the suspend transition that a new target inherits.

    A suspension stays. A resume in progress stays, unless the new target is a rollback.
    """
    turn = before.suspend if before is not None else None
    if turn is None or turn.is_suspended:
        return turn
    return None if turn.is_completed or aim.cause is not TargetCause.SPEC else turn


def _is_same(before: Target, aim: TargetChoice, revision: int) -> bool:
    """Return whether a choice equals the previous target. A repeated rollback request counts as a new one."""
    is_same_order = aim.cause is not TargetCause.ROLLBACK or before.rollback == aim.order
    return before.revision == revision and before.cause is aim.cause and is_same_order


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
