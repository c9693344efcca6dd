"""Changes of a definition that wait: which ones do, and what runs until then."""

from __future__ import annotations

import pytest

from hearth.model import windows
from hearth.plan.target import change_hold, target_choice, target_status
from hearth.plan.target.change_hold import ChangeHold, HoldReason
from hearth.plan.target.target import (
    EMPTY_REVISION,
    CompletedRevisions,
    RestoredClaim,
    RollbackRequest,
    Target,
    TargetCause,
)
from hearth.plan.target.target_choice import TargetChoice, TargetContext

HASHES = {1: "one", 2: "two"}
COMPLETED = CompletedRevisions(last=2, previous=1)
SPEC = TargetChoice(cause=TargetCause.SPEC)
HOUR = 3600.0
RESTORE = RollbackRequest(
    to_revision=0, spec_hash="two", revision=1, snapshot="s", claims=(RestoredClaim(resource="db", snapshot="s"),)
)


def make_target(revision: int, cause: TargetCause = TargetCause.SPEC, **more: object) -> Target:
    """A target that was set long ago."""
    return Target(revision=revision, cause=cause, since=100.0, **more)  # type: ignore[arg-type]  # mypy cannot type keyword arguments of several fields


def test_without_a_window_nothing_waits() -> None:
    assert change_hold.find_change_hold(None, now=0.0) is None


def test_a_change_waits_until_the_window_opens() -> None:
    window = windows.parse({"from": "08:00", "to": "16:00"})

    assert change_hold.find_change_hold(window, now=9 * HOUR) is None
    assert change_hold.find_change_hold(window, now=HOUR) == ChangeHold(reason=HoldReason.WINDOW, until=8 * HOUR)


@pytest.mark.parametrize(
    ("choice", "hashed", "before", "completed", "waits"),
    [
        pytest.param(SPEC, "three", make_target(2), COMPLETED, True, id="a new definition"),
        pytest.param(SPEC, "one", make_target(2), COMPLETED, True, id="a former definition"),
        pytest.param(SPEC, "two", make_target(2), COMPLETED, False, id="the running definition"),
        pytest.param(SPEC, "", make_target(2), COMPLETED, False, id="an unreadable definition"),
        pytest.param(
            SPEC,
            "two",
            make_target(1, TargetCause.ROLLBACK, earlier_revision=2),
            COMPLETED,
            True,
            id="the end of a rollback",
        ),
        pytest.param(
            SPEC, "two", make_target(1, TargetCause.AUTOMATIC, earlier_revision=2), COMPLETED, True, id="a retry"
        ),
        pytest.param(
            SPEC,
            "one",
            make_target(1, TargetCause.ROLLBACK, earlier_revision=2),
            COMPLETED,
            False,
            id="what a rollback runs",
        ),
        pytest.param(
            SPEC,
            "one",
            make_target(1, TargetCause.ROLLBACK, rollback=RESTORE, earlier_revision=2),
            COMPLETED,
            True,
            id="the end of a restore in progress",
        ),
        pytest.param(
            TargetChoice(cause=TargetCause.ROLLBACK, revision=1),
            "three",
            make_target(2),
            COMPLETED,
            False,
            id="a rollback",
        ),
        pytest.param(SPEC, "three", make_target(2), CompletedRevisions(), False, id="nothing ever completed"),
        pytest.param(SPEC, "three", None, CompletedRevisions(), False, id="the first definition"),
        pytest.param(SPEC, "three", None, CompletedRevisions(is_known=False), True, id="a new one, and a lost status"),
        pytest.param(SPEC, "one", None, CompletedRevisions(is_known=False), False, id="a known one, and a lost status"),
        pytest.param(SPEC, "two", make_target(1), COMPLETED, False, id="stored and started before a crash"),
    ],
)
def test_which_change_waits(
    choice: TargetChoice, hashed: str, before: Target | None, completed: CompletedRevisions, waits: bool
) -> None:
    assert change_hold.is_change(choice, hashed, before=before, hashes=HASHES, completed=completed) is waits


ROLLBACK = RollbackRequest(to_revision=1, spec_hash="two", revision=1)
TO_FIRST = TargetChoice(cause=TargetCause.ROLLBACK, revision=1, rollback=ROLLBACK)


@pytest.mark.parametrize(
    ("choice", "hashed", "before", "asks"),
    [
        pytest.param(SPEC, "three", make_target(2), True, id="a new definition"),
        pytest.param(SPEC, "one", make_target(2), True, id="a former definition"),
        pytest.param(SPEC, "two", make_target(1), True, id="stored and started before a crash"),
        pytest.param(SPEC, "two", make_target(2), False, id="the running definition"),
        pytest.param(SPEC, "", make_target(2), False, id="an unreadable definition"),
        pytest.param(SPEC, "two", make_target(1, TargetCause.AUTOMATIC, earlier_revision=2), True, id="a retry"),
        pytest.param(
            SPEC, "one", make_target(1, TargetCause.ROLLBACK, rollback=RESTORE), True, id="the end of a restore"
        ),
        pytest.param(TO_FIRST, "two", make_target(2), True, id="a rollback"),
        pytest.param(
            TO_FIRST, "two", make_target(1, TargetCause.ROLLBACK, rollback=ROLLBACK), False, id="the running rollback"
        ),
        pytest.param(
            TO_FIRST, "two", make_target(1, TargetCause.ROLLBACK, rollback=RESTORE), True, id="another rollback"
        ),
        pytest.param(
            TargetChoice(cause=TargetCause.AUTOMATIC, revision=1), "two", make_target(2), False, id="automatic"
        ),
        pytest.param(SPEC, "three", None, True, id="a new one, and a lost status"),
        pytest.param(SPEC, "one", None, True, id="a former one, and a lost status"),
        pytest.param(SPEC, "two", None, False, id="the newest stored one, and a lost status"),
        pytest.param(TO_FIRST, "two", None, True, id="a rollback, and a lost status"),
    ],
)
def test_which_change_asks_for_an_approval(
    choice: TargetChoice, hashed: str, before: Target | None, asks: bool
) -> None:
    assert change_hold.is_unapproved(choice, hashed, before=before, hashes=HASHES) is asks


def test_the_first_creation_asks_for_an_approval() -> None:
    assert change_hold.is_unapproved(SPEC, "one", before=None, hashes={})


def keep(
    before: Target | None, choice: TargetChoice = SPEC, *, failure: str = "", completed: CompletedRevisions = COMPLETED
) -> Target:
    """The target while the chosen definition waits, as the next process reads it."""
    kept = change_hold.keep_running(
        choice,
        before=before,
        hashes=HASHES,
        completed=completed,
        failure=failure,
        failure_reason="Failed" * bool(failure),
    )
    assert kept.revision is not None
    target = target_choice.start_target(kept, revision=kept.revision, before=before, context=TargetContext(now=200.0))
    decoded = target_status.decode(target_status.encode(target))
    assert decoded == target
    return target


def test_the_running_revision_stays() -> None:
    before = make_target(2, is_completed=True)

    assert keep(before) == before


def test_with_a_lost_status_the_newest_stored_revision_runs() -> None:
    assert (keep(None).revision, keep(None).cause) == (2, TargetCause.SPEC)


def test_a_failure_of_the_running_revision_rolls_it_back_and_does_not_count_for_the_change() -> None:
    kept = keep(make_target(2), failure="broken", completed=CompletedRevisions(last=1))

    assert (kept.revision, kept.cause, kept.failed_hash) == (1, TargetCause.AUTOMATIC, "two")


def test_a_failure_without_a_completed_revision_takes_everything_back() -> None:
    assert keep(make_target(2), failure="broken", completed=CompletedRevisions()).revision == EMPTY_REVISION


def test_a_retry_of_a_failed_definition_is_remembered_until_the_window_opens() -> None:
    before = make_target(1, TargetCause.AUTOMATIC, failed_hash="two", failure="broken", earlier_revision=2)

    kept = keep(before, TargetChoice(cause=TargetCause.SPEC, is_retried=True))

    asked = target_choice.TargetRequest(hash="two")
    choose = target_choice.choose_target
    assert choose(asked, before=before, hashes=HASHES, completed=COMPLETED).cause is TargetCause.AUTOMATIC
    assert choose(asked, before=kept, hashes=HASHES, completed=COMPLETED).cause is TargetCause.SPEC


def test_a_withdrawn_rollback_stays_the_target_and_the_same_request_counts_again() -> None:
    ordered = RollbackRequest(to_revision=1, spec_hash="two", revision=1)

    kept = keep(make_target(1, TargetCause.ROLLBACK, rollback=ordered, is_completed=True))

    assert (kept.revision, kept.cause, kept.rollback, kept.is_completed) == (1, TargetCause.ROLLBACK, None, True)


def test_a_restore_in_progress_continues() -> None:
    before = make_target(1, TargetCause.ROLLBACK, rollback=RESTORE)

    assert keep(before).restore == RESTORE


def test_a_stored_revision_waits_if_another_definition_waited_in_the_meantime() -> None:
    before = make_target(1, is_completed=True)
    held = change_hold.keep_running(SPEC, before=before, hashes=HASHES, completed=CompletedRevisions(last=1))
    context = TargetContext(now=200.0, highest_stored=2)
    kept = target_choice.start_target(held, revision=1, before=before, context=context)

    def is_change(target: Target) -> bool:
        return change_hold.is_change(SPEC, "two", before=target, hashes=HASHES, completed=CompletedRevisions(last=1))

    assert (is_change(before), is_change(kept)) == (False, True)
    assert target_status.decode(target_status.encode(kept)) == kept
    # Its first step waits until the status contains the target, so that it continues after a crash.
    started = target_choice.start_target(SPEC, revision=2, before=kept, context=TargetContext(now=300.0))
    assert (started.revision, started.earlier_revision) == (2, 2)
