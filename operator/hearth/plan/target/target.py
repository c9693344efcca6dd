"""Which revision a Stack wants now, and why: its spec, an order of the user to go back, or a failure that sends it back.

A rollback is nothing but another revision being wanted. What of a wish cannot be read off the spec stands in
`status.wish`, and is written there before the first write that depends on it.
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
"""The number of the revision that wants no object at all: where a first create that failed is rolled back to."""
MAX_PROTECTED_REVISIONS = 16
"""Revisions whose objects are held back at the same time: one, and one more for each restart in the midst of a change."""
FAILURE_LENGTH = 1_024
"""Characters of what is remembered of a failure."""


class TargetCause(enum.StrEnum):
    """Why a revision is wanted; a status calls it the cause."""

    SPEC = "Spec"
    """It is the definition in the spec."""
    ROLLBACK = "Rollback"
    """The user ordered it by `spec.rollback.toRevision`."""
    AUTOMATIC = "AutomaticRollback"
    """It is the last that was reached, and the definition in the spec has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """A user's order to go back. It counts for the definition beside which it was written, and for no later one."""

    to_revision: int
    """What `toRevision` says."""
    spec_hash: str
    """Hash of the definition in the spec at that time; "" while that is not known."""
    revision: int
    """What is meant by it, settled once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedRevisions:
    """Which revisions were reached in full."""

    last: int | None = None
    previous: int | None = None
    """The last besides that one."""
    is_known: bool = True
    """Whether that is all: what an earlier process wrote of it may have been lost."""

    @property
    def has_target(self) -> bool:
        """Whether there is anything to go back to: never nothing at all where something may have been reached."""
        return self.last is not None or self.is_known

    def note(self, revision: int) -> CompletedRevisions:
        """With one more reached; nothing at all is no revision, and nobody who orders the last one means it."""
        return (
            self if revision in (self.last, EMPTY_REVISION) else CompletedRevisions(last=revision, previous=self.last)
        )

    def find_other(self, revision: int | None) -> int | None:
        """The last that was reached besides that one."""
        return self.previous if self.last == revision else self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendTransition:
    """The last change of `spec.suspended`."""

    is_suspended: bool
    """Whether workloads are to be at nothing, or are being brought back."""
    since: float
    """Seconds since the epoch, whole ones."""
    is_completed: bool = False
    """Whether that came to its end once: what happens since then is repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is wanted now. Equal wishes are the same one."""

    revision: int
    cause: TargetCause
    since: float
    """Seconds since the epoch, whole ones."""
    is_first: bool = False
    """Whether nothing was ever wanted before: its action is called Create."""
    is_completed: bool = False
    """Whether it was reached in full once: what happens since then is repair."""
    is_cleanup_waived: bool = False
    """Whether obsolete objects are not to be held back any longer."""
    protected_revisions: tuple[int, ...] = ()
    """The revisions that were reached before, and whose objects therefore are held back until this one is."""
    rollback: RollbackRequest | None = None
    """The order that was last obeyed, also while a later definition overrides it."""
    failed_hash: str = ""
    """Of the definition in the spec that failed; only of an automatic rollback."""
    failure: str = ""
    """What had failed, in words."""
    cleared: ClearedBreakpoints = cleared_breakpoints.NONE
    """What was passed of the breakpoints since it is wanted."""
    suspend: SuspendTransition | None = None
    """The last change of `spec.suspended`, as far as it tells what is being done for this wish."""

    @property
    def started_at(self) -> float | None:
        """When what is being done now was begun, in seconds since the epoch; None where it came to its end."""
        if self.suspend is not None and not (self.suspend.is_completed and not self.suspend.is_suspended):
            return None if self.suspend.is_completed else self.suspend.since
        return None if self.is_completed else self.since

    @property
    def is_rollback(self) -> bool:
        """Whether the spec wants something else."""
        return self.cause is not TargetCause.SPEC


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """What the Stack says at one moment."""

    hash: str
    """Of the definition in its spec; "" where that cannot be read now."""
    to_revision: int | None = None
    failure: str = ""
    """Why the present wish is to be given up; "": it is not."""
    is_retried: bool = False
    """Whether the user asks for a definition that was given up to be tried once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """What is to be wanted."""

    cause: TargetCause
    revision: int | None = None
    """None: the definition in the spec, whatever number it gets."""
    order: RollbackRequest | None = None
    failed_hash: str = ""
    failure: str = ""


def choose_target(
    asked: TargetRequest, *, before: Target | None, hashes: Mapping[int, str], completed: CompletedRevisions
) -> TargetChoice:
    """What is to be wanted now. Raises ImpossibleOrder.

    before: the wish so far; hashes: of the definitions of all revisions that are kept, by number.
    """
    order = None
    if asked.to_revision is not None:
        order = _settle(asked, asked.to_revision, before=before, hashes=hashes, completed=completed)
        if order.spec_hash == asked.hash or not asked.hash:
            return TargetChoice(cause=TargetCause.ROLLBACK, revision=order.revision, order=order)
    if asked.failure and completed.has_target:
        last = completed.last if completed.last is not None else EMPTY_REVISION
        return TargetChoice(
            cause=TargetCause.AUTOMATIC, revision=last, order=order, failed_hash=asked.hash, failure=asked.failure
        )
    if (
        before is not None
        and before.cause is TargetCause.AUTOMATIC
        and not asked.is_retried
        and _is_given_up(asked, before)
    ):
        return TargetChoice(
            cause=TargetCause.AUTOMATIC,
            revision=before.revision,
            order=order,
            failed_hash=before.failed_hash or asked.hash,
            failure=before.failure,
        )
    return TargetChoice(cause=TargetCause.SPEC, order=order)


def _is_given_up(asked: TargetRequest, before: Target) -> bool:
    """Whether the spec still wants what has failed. A hash that is not known never says that something changed."""
    return not before.failed_hash or not asked.hash or before.failed_hash == asked.hash


def _settle(
    asked: TargetRequest,
    stated: int,
    *,
    before: Target | None,
    hashes: Mapping[int, str],
    completed: CompletedRevisions,
) -> RollbackRequest:
    """The order as it was understood before, or as it is understood at first sight."""
    known = before.rollback if before is not None else None
    if known is not None and known.to_revision == stated:
        return known if known.spec_hash else dataclasses.replace(known, spec_hash=asked.hash)
    kept = ", ".join(str(number) for number in sorted(hashes)) or "none"
    if stated:
        if stated not in hashes:
            raise RollbackRevisionNotFound(
                f"spec.rollback.toRevision: there is no revision {stated}; revisions that are kept: {kept}"
            )
        return RollbackRequest(to_revision=stated, spec_hash=asked.hash, revision=stated)
    present = next((number for number, hashed in hashes.items() if hashed == asked.hash), None)
    other = completed.find_other(present)
    if other is None or (other != EMPTY_REVISION and other not in hashes):
        raise RollbackRevisionNotFound(
            "spec.rollback.toRevision: 0 means the last revision that completed besides the one in the spec, and there "
            f"is none; name one by its number, or take rollback.toRevision away; revisions that are kept: {kept}"
        )
    return RollbackRequest(to_revision=stated, spec_hash=asked.hash, revision=other)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetContext:
    """What besides the aim itself makes a wish."""

    now: float
    """Seconds since the epoch."""
    is_recalled: bool = False
    """Whether the wish so far was read from a status, so that nobody here knows whether it was reached."""
    is_retried: bool = False
    """Whether the user says that its time starts anew."""
    is_unseen: bool = False
    """Whether no status ever told of any wish, so that to its user the Stack is new."""


def start_target(aim: TargetChoice, *, revision: int, before: Target | None, given: TargetContext) -> Target:
    """The wish that follows from an aim: the one so far where that aims at the same.

    revision: the number of what is aimed at.
    """
    if before is not None and _is_same(before, aim, revision):
        since = float(int(given.now)) if given.is_retried and not before.is_completed else before.since
        return dataclasses.replace(before, rollback=aim.order, failed_hash=aim.failed_hash, since=since)
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
    )


def _find_turn(before: Target | None, aim: TargetChoice) -> SuspendTransition | None:
    """What another wish keeps of the turn: all while suspended; what is being resumed goes on as such, unless it goes back."""
    turn = before.suspend if before is not None else None
    if turn is None or turn.is_suspended:
        return turn
    return None if turn.is_completed or aim.cause is not TargetCause.SPEC else turn


def _is_same(before: Target, aim: TargetChoice, revision: int) -> bool:
    """Whether an aim is what is wanted already. The same order given anew is another one."""
    is_same_order = aim.cause is not TargetCause.ROLLBACK or before.rollback == aim.order
    return before.revision == revision and before.cause is aim.cause and is_same_order


def _find_kept(before: Target | None, *, is_recalled: bool) -> tuple[int, ...]:
    """The revisions that may have been reached last."""
    if before is None:
        return ()
    if before.is_completed:
        return (before.revision,)
    # Reached perhaps a moment before its process died: then its objects are held back as well, which harms nothing.
    if not is_recalled:
        return before.protected_revisions
    first, *later = dict.fromkeys((*before.protected_revisions, before.revision))
    return (first, *later[1 - MAX_PROTECTED_REVISIONS :])


def complete_target(wish: Target) -> Target:
    """The wish once it was reached in full."""
    return dataclasses.replace(wish, is_completed=True, protected_revisions=())
