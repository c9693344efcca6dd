"""Decides whether a change of the definition waits, and what runs until then.

A held definition is never stored as a revision: a stored revision is one that was allowed to run. Which revision runs
is in the signed status, so a restart changes nothing.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import assert_never

from hearth.model import value_class
from hearth.model.windows import Window
from hearth.plan.target.target import EMPTY_REVISION, CompletedRevisions, RollbackRequest, Target, TargetCause
from hearth.plan.target.target_choice import TargetChoice

RETRIED = "retried"
"""Stands for `Target.failed_hash` after a request to retry the failed definition, while it waits. No hash is equal."""


class HoldReason(enum.StrEnum):
    """What a change waits for."""

    WINDOW = "WaitingForWindow"
    APPROVAL = "WaitingForApproval"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHold:
    """Why every change of the definition waits now."""

    reason: HoldReason
    until: float
    """Seconds since the epoch: earliest end of the wait; infinite if only a user ends it."""
    retry_at: float = math.inf
    """Seconds since the epoch: when to look again, if only the operator knows that it must."""
    message: str = ""
    """What a user can do, unless the reason alone says it."""
    plan: str = ""
    """Name of the StackPlan that a user can approve; "" for none."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HeldChange:
    """A definition that waits."""

    hash: str
    hold: ChangeHold


def find_change_hold(window: Window | None, *, now: float) -> ChangeHold | None:
    """Return why changes of the definition wait now, or None if they do not. now: seconds since the epoch."""
    if window is None or window.is_open(now):
        return None
    return ChangeHold(reason=HoldReason.WINDOW, until=window.find_opening(now))


def is_change(
    choice: TargetChoice,
    hashed: str,
    *,
    before: Target | None,
    hashes: Mapping[int, str],
    completed: CompletedRevisions,
) -> bool:
    """Return whether a choice starts a definition that may have to wait.

    Rollbacks do not wait, nor does anything before a definition has completed for the first time. hashed: of the
    definition in the spec; before: the current target; hashes: of all stored revisions, by number.
    """
    has_completed = completed.last is not None or not completed.is_known
    if choice.cause is not TargetCause.SPEC or not hashed or not has_completed:
        return False
    stored = next((number for number, known in hashes.items() if known == hashed), None)
    if before is None:
        # The status is lost. A stored definition was allowed to run before.
        return bool(hashes) and stored is None
    if stored == before.revision and before.restore is None:
        return False
    # A process may have stored the revision, started it, and died before it wrote a status.
    return stored is None or stored <= before.highest_revision


def is_unapproved(choice: TargetChoice, hashed: str, *, before: Target | None, hashes: Mapping[int, str]) -> bool:
    """Return whether a choice starts a change that may need an approval. Arguments: see `is_change`.

    A revision that a process stored before it died counts as well: its approval is looked up again.
    """
    match choice.cause:
        case TargetCause.AUTOMATIC:
            # The approval of the change covers its automatic rollback.
            return False
        case TargetCause.ROLLBACK:
            if before is None:
                return choice.revision != max(hashes, default=EMPTY_REVISION)
            return not (before.cause is TargetCause.ROLLBACK and _is_same_rollback(choice, before))
        case TargetCause.SPEC:
            if not hashed:
                return False
            if before is None:
                # The status is lost. The newest stored definition was allowed to run before.
                return not hashes or hashes[max(hashes)] != hashed
            return hashes.get(before.revision) != hashed or before.restore is not None
        case _:
            assert_never(choice.cause)


def _is_same_rollback(choice: TargetChoice, before: Target) -> bool:
    """Return whether the target is the rollback that the choice requests."""
    wanted, known = choice.rollback, before.rollback
    if wanted is None or known is None or choice.revision != before.revision:
        return False
    return (wanted.to_revision, wanted.snapshot) == (known.to_revision, known.snapshot)


def keep_running(
    choice: TargetChoice,
    *,
    before: Target | None,
    hashes: Mapping[int, str],
    completed: CompletedRevisions,
    failure: str = "",
    failure_reason: str = "",
) -> TargetChoice:
    """Return the choice of what runs while the chosen definition waits: the current target, or its automatic rollback.

    failure: why the current target failed permanently, "" if it did not. Other arguments: see `is_change`.
    """
    if before is None:
        return TargetChoice(cause=TargetCause.SPEC, revision=max(hashes), rollback=choice.rollback, is_held=True)
    if failure and before.cause is TargetCause.SPEC and completed.has_target:
        return TargetChoice(
            cause=TargetCause.AUTOMATIC,
            revision=completed.last if completed.last is not None else EMPTY_REVISION,
            rollback=choice.rollback,
            failed_hash=hashes.get(before.revision, RETRIED),
            failure=failure,
            failure_reason=failure_reason,
            is_held=True,
        )
    is_retried = before.cause is TargetCause.AUTOMATIC and choice.is_retried
    return TargetChoice(
        cause=before.cause,
        revision=before.revision,
        rollback=_keep_rollback(choice.rollback, before),
        failed_hash=RETRIED if is_retried else before.failed_hash,
        failure=before.failure,
        failure_reason=before.failure_reason,
        is_held=True,
    )


def _keep_rollback(wanted: RollbackRequest | None, before: Target) -> RollbackRequest | None:
    """Return the rollback request to remember. A restore in progress continues."""
    return before.rollback if before.restore is not None else wanted
