"""The choice of the target revision: from the spec, a request, a snapshot, or the last completed revision."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.model.errors import RollbackRevisionNotFound
from hearth.plan.environment.active_environment import NONE_CLEARED, ClearedBreakpoints
from hearth.plan.target import target_choice, target_status
from hearth.plan.target.target import (
    EMPTY_REVISION,
    CompletedRevisions,
    RestoredClaim,
    RollbackRequest,
    Target,
    TargetCause,
)
from hearth.plan.target.target_choice import MAX_PROTECTED_REVISIONS, TargetChoice, TargetContext, TargetRequest

HASHES = {1: "one", 2: "two", 3: "three"}
COMPLETED = CompletedRevisions(last=2, previous=1)
ORDERED = RollbackRequest(to_revision=1, spec_hash="three", revision=1)


def make_target(revision: int, motive: TargetCause = TargetCause.SPEC, **more: object) -> Target:
    """A target that was set long ago."""
    return dataclasses.replace(Target(revision=revision, cause=motive, since=100.0), **more)  # type: ignore[arg-type]  # mypy cannot type keyword arguments of several fields


def choose(
    asked: TargetRequest, *, before: Target | None = None, completed: CompletedRevisions = COMPLETED
) -> TargetChoice:
    """The target among three revisions."""
    return target_choice.choose_target(asked, before=before, hashes=HASHES, completed=completed)


def begin(
    choice: TargetChoice, *, revision: int, before: Target | None, is_recalled: bool = False, is_retried: bool = False
) -> Target:
    """The target that follows, a while later."""
    context = TargetContext(now=200.5, is_recalled=is_recalled, is_retried=is_retried)
    return target_choice.start_target(choice, revision=revision, before=before, context=context)


def test_without_an_order_the_spec_counts() -> None:
    assert choose(
        TargetRequest(hash="three"), before=make_target(1, TargetCause.ROLLBACK, rollback=ORDERED)
    ) == TargetChoice(cause=TargetCause.SPEC)


def test_an_order_names_a_revision() -> None:
    assert choose(TargetRequest(hash="three", to_revision=1)) == TargetChoice(
        cause=TargetCause.ROLLBACK, revision=1, rollback=ORDERED
    )


@pytest.mark.parametrize(
    ("present", "expected"),
    [("three", 2), ("two", 1), ("a fourth", 2), ("", 2)],
    ids=["the last", "not the one in the spec", "a new one", "the spec cannot be read"],
)
def test_zero_means_the_last_that_completed_besides_the_one_in_the_spec(present: str, expected: int) -> None:
    choice = choose(TargetRequest(hash=present, to_revision=0))
    assert choice.rollback == RollbackRequest(to_revision=0, spec_hash=present, revision=expected)


def test_an_order_is_settled_once() -> None:
    before = make_target(
        1, TargetCause.ROLLBACK, rollback=RollbackRequest(to_revision=0, spec_hash="three", revision=1)
    )
    assert choose(TargetRequest(hash="three", to_revision=0), before=before).revision == 1


def test_a_later_definition_overrides_the_order() -> None:
    before = make_target(1, TargetCause.ROLLBACK, rollback=ORDERED)
    later = choose(TargetRequest(hash="a fourth", to_revision=1), before=before)
    assert later == TargetChoice(cause=TargetCause.SPEC, rollback=ORDERED)
    after = begin(later, revision=4, before=before)
    assert choose(TargetRequest(hash="three", to_revision=1), before=after).revision == 1


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (make_target(2, rollback=ORDERED), TargetCause.SPEC),
        (make_target(1, TargetCause.AUTOMATIC, rollback=ORDERED, failed_hash="two"), TargetCause.AUTOMATIC),
        (make_target(3, rollback=ORDERED), TargetCause.ROLLBACK),
        (make_target(1, TargetCause.ROLLBACK, rollback=ORDERED), TargetCause.ROLLBACK),
        (make_target(2, rollback=dataclasses.replace(ORDERED, revision=EMPTY_REVISION)), TargetCause.SPEC),
    ],
    ids=[
        "overridden",
        "overridden by what failed",
        "could not be obeyed when it was made",
        "obeyed",
        "refused, and overridden",
    ],
)
def test_an_order_counts_as_before_while_the_spec_cannot_be_read(before: Target, expected: TargetCause) -> None:
    assert choose(TargetRequest(hash="", to_revision=1), before=before).cause is expected


def test_another_order_is_a_new_one() -> None:
    before = make_target(4, rollback=ORDERED)
    choice = choose(TargetRequest(hash="a fourth", to_revision=2), before=before)
    assert choice.rollback == RollbackRequest(to_revision=2, spec_hash="a fourth", revision=2)


@pytest.mark.parametrize(
    ("to_revision", "completed", "part"),
    [
        (7, COMPLETED, "no revision 7; stored revisions: 1, 2, 3"),
        (0, CompletedRevisions(), "no such revision exists"),
        (0, CompletedRevisions(last=9), "no such revision exists"),
    ],
    ids=["unknown", "nothing completed", "forgotten since"],
)
def test_an_order_that_cannot_be_obeyed_is_refused(to_revision: int, completed: CompletedRevisions, part: str) -> None:
    with pytest.raises(RollbackRevisionNotFound, match=part):
        choose(TargetRequest(hash="three", to_revision=to_revision), completed=completed)


@pytest.mark.parametrize(
    ("completed", "expected"),
    [(COMPLETED, 2), (CompletedRevisions(), EMPTY_REVISION)],
    ids=["an update", "a first create"],
)
def test_a_failure_goes_back_to_what_was_reached_last(completed: CompletedRevisions, expected: int) -> None:
    choice = choose(TargetRequest(hash="three", failure="web: broken"), before=make_target(3), completed=completed)
    assert choice == TargetChoice(
        cause=TargetCause.AUTOMATIC, revision=expected, failed_hash="three", failure="web: broken"
    )


@pytest.mark.parametrize(
    ("asked", "motive"),
    [
        (TargetRequest(hash="three"), TargetCause.AUTOMATIC),
        (TargetRequest(hash=""), TargetCause.AUTOMATIC),
        (TargetRequest(hash="a fourth"), TargetCause.SPEC),
        (TargetRequest(hash="three", is_retried=True), TargetCause.SPEC),
    ],
    ids=["applied again", "unreadable for now", "changed", "a retry"],
)
def test_what_failed_is_not_tried_again_unasked(asked: TargetRequest, motive: TargetCause) -> None:
    before = make_target(2, TargetCause.AUTOMATIC, failed_hash="three", failure="web: broken")
    assert choose(asked, before=before).cause is motive


def test_the_same_aim_is_the_same_target() -> None:
    before = make_target(3, is_first=True, protected_revisions=(1,))
    assert begin(TargetChoice(cause=TargetCause.SPEC), revision=3, before=before) == before


def test_a_retry_gives_the_target_its_time_again() -> None:
    assert (
        begin(TargetChoice(cause=TargetCause.SPEC), revision=3, before=make_target(3), is_retried=True).since == 200.0
    )


@pytest.mark.parametrize(
    ("heals_on_update", "is_completed"), [(False, True), (True, False)], ids=["Automatic", "OnUpdate"]
)
def test_a_retry_is_an_update_to_what_waits_for_one(heals_on_update: bool, is_completed: bool) -> None:
    context = TargetContext(now=200.5, is_retried=True, heals_on_update=heals_on_update)
    choice, before = TargetChoice(cause=TargetCause.SPEC), make_target(3, is_completed=True)
    found = target_choice.start_target(choice, revision=3, before=before, context=context)
    assert (found.is_completed, found.protected_revisions) == (is_completed, () if is_completed else (3,))


def test_only_the_very_first_target_creates() -> None:
    first = begin(TargetChoice(cause=TargetCause.SPEC), revision=1, before=None)
    again = begin(
        TargetChoice(cause=TargetCause.SPEC), revision=1, before=make_target(EMPTY_REVISION, TargetCause.AUTOMATIC)
    )
    assert (first.is_first, again.is_first) == (True, False)


@pytest.mark.parametrize(
    ("before", "is_recalled", "expected"),
    [
        (None, False, ()),
        (make_target(2, is_completed=True, protected_revisions=(1,)), False, (2,)),
        (make_target(2, protected_revisions=(1,)), False, (1,)),
        (make_target(2, protected_revisions=(1,)), True, (1, 2)),
    ],
    ids=["nothing before", "reached", "not reached", "unknown"],
)
def test_what_was_reached_last_is_held_back(
    before: Target | None, is_recalled: bool, expected: tuple[int, ...]
) -> None:
    assert (
        begin(
            TargetChoice(cause=TargetCause.SPEC), revision=3, before=before, is_recalled=is_recalled
        ).protected_revisions
        == expected
    )


def test_what_is_held_back_stays_bounded() -> None:
    target = make_target(1, is_completed=True)
    for number in range(2, 60):
        target = begin(TargetChoice(cause=TargetCause.SPEC), revision=number, before=target, is_recalled=True)
    assert (len(target.protected_revisions), target.protected_revisions[0], target.protected_revisions[-1]) == (
        MAX_PROTECTED_REVISIONS,
        1,
        58,
    )


@pytest.mark.parametrize(
    "target",
    [
        make_target(1, is_first=True),
        make_target(2, is_completed=True, is_cleanup_waived=True, protected_revisions=(1, 4)),
        make_target(1, TargetCause.ROLLBACK, rollback=ORDERED),
        make_target(EMPTY_REVISION, TargetCause.AUTOMATIC, failed_hash="three", failure="web: broken"),
        make_target(2, breakpoint_key="2-90", earlier_revision=4),
    ],
    ids=["first", "flags", "ordered", "automatic", "wanted again"],
)
def test_a_status_remembers_a_target_whole(target: Target) -> None:
    assert target_status.decode(target_status.encode(target)) == target


@pytest.mark.parametrize(
    "shown", [None, {}, {"revision": 1}, {"revision": 1, "cause": "Whim", "since": "2026-01-01T00:00:00Z"}]
)
def test_a_spoilt_memory_is_none(shown: dict[str, object] | None) -> None:
    assert target_status.decode({"target": shown}) is None


PASSED = ClearedBreakpoints(keys=("a/PostUpdate",))


@pytest.mark.parametrize(
    ("before", "revision", "resized", "expected"),
    [
        (make_target(2, cleared=PASSED), 3, 0, (NONE_CLEARED, "")),
        (make_target(2, cleared=PASSED), 3, 2, (PASSED, "2")),
        (make_target(3, cleared=PASSED, breakpoint_key="2"), 4, 3, (PASSED, "2")),
        (make_target(3, cleared=PASSED, breakpoint_key="2", earlier_revision=0), 2, 3, (PASSED, "")),
        (make_target(2, cleared=PASSED), 4, 3, (NONE_CLEARED, "3")),
        (make_target(3), 2, 0, (NONE_CLEARED, "2-200")),
        (make_target(2, earlier_revision=5), 4, 0, (NONE_CLEARED, "4-200")),
        (make_target(2, breakpoint_key="2-90", earlier_revision=5), 6, 0, (NONE_CLEARED, "")),
    ],
    ids=[
        "another template",
        "another size",
        "another size again",
        "the former size again",
        "a size that no status names between them",
        "an earlier revision again",
        "later than the target, but not new",
        "new after an earlier one",
    ],
)
def test_what_a_stop_is_recorded_under(
    before: Target, revision: int, resized: int, expected: tuple[ClearedBreakpoints, str]
) -> None:
    context = TargetContext(now=200.5, resized=resized, has_breakpoints=True)
    choice = TargetChoice(cause=TargetCause.SPEC)
    target = target_choice.start_target(choice, revision=revision, before=before, context=context)
    assert (target.cleared, target.breakpoint_key) == expected


def test_without_breakpoints_an_earlier_revision_costs_no_record() -> None:
    assert begin(TargetChoice(cause=TargetCause.SPEC), revision=2, before=make_target(3)).breakpoint_key == ""


def test_completed_remembers_two() -> None:
    completed = CompletedRevisions()
    for number in (1, 2, 2, 5):
        completed = completed.note(number)
    assert (completed.last, completed.previous) == (5, 2)


# ---------------------------------------------------------------- requests to restore a snapshot

TWO_REVISIONS = {1: "one", 2: "two"}
CLAIMS = (
    RestoredClaim(resource="data", snapshot="before-data"),
    RestoredClaim(resource="db", snapshot="before-db-0", claim="data-shop-db-0"),
)
RESOLVED = RollbackRequest(
    to_revision=1, spec_hash="", revision=1, snapshot="before", snapshot_uid="s1", token="t1", claims=CLAIMS
)
SETTLED = dataclasses.replace(RESOLVED, spec_hash="two")


def choose_of_two(request: TargetRequest, before: Target | None = None) -> TargetChoice:
    """The choice among two revisions."""
    return target_choice.choose_target(
        request, before=before, hashes=TWO_REVISIONS, completed=CompletedRevisions(last=2)
    )


def start(rollback: RollbackRequest, **more: object) -> Target:
    """The target of a restore."""
    target = Target(revision=1, cause=TargetCause.ROLLBACK, since=100.0, rollback=rollback)
    return dataclasses.replace(target, **more)  # type: ignore[arg-type]  # mypy cannot type keyword arguments of several fields


def test_a_request_counts_for_the_definition_beside_it() -> None:
    request = TargetRequest(hash="two", to_snapshot="before", rollback=RESOLVED)
    assert choose_of_two(request) == TargetChoice(cause=TargetCause.ROLLBACK, revision=1, rollback=SETTLED)


def test_a_later_definition_overrides_a_request_and_remembers_it() -> None:
    choice = choose_of_two(TargetRequest(hash="three", to_snapshot="before"), start(SETTLED))
    ended = dataclasses.replace(SETTLED, is_restored=True)
    assert choice == TargetChoice(cause=TargetCause.SPEC, rollback=ended)
    target = Target(revision=3, cause=TargetCause.SPEC, since=200.0, rollback=ended)
    assert choose_of_two(TargetRequest(hash="two", to_snapshot="before"), target).rollback == ended


def test_a_known_request_is_not_resolved_again() -> None:
    other = dataclasses.replace(RESOLVED, token="t2", revision=2)
    assert (
        choose_of_two(TargetRequest(hash="two", to_snapshot="before", rollback=other), start(SETTLED)).rollback
        == SETTLED
    )


def test_a_request_for_another_snapshot_is_another_one() -> None:
    other = dataclasses.replace(RESOLVED, snapshot="later", token="t2")
    found = choose_of_two(TargetRequest(hash="two", to_snapshot="later", rollback=other), start(SETTLED)).rollback
    assert found == dataclasses.replace(other, spec_hash="two")
    found = choose_of_two(TargetRequest(hash="two", to_revision=1), start(SETTLED)).rollback
    assert found == RollbackRequest(to_revision=1, spec_hash="two", revision=1)


def test_a_completed_restore_is_over() -> None:
    target = start(dataclasses.replace(SETTLED, is_halted=True))
    assert target.restore is not None
    done = target_choice.complete_target(target)
    assert done.restore is None
    assert done.rollback == dataclasses.replace(SETTLED, is_halted=True, is_restored=True)
    elsewhere = target_choice.start_target(
        TargetChoice(cause=TargetCause.SPEC, rollback=done.rollback),
        revision=2,
        before=done,
        context=TargetContext(now=200),
    )
    again = choose_of_two(TargetRequest(hash="two", to_snapshot="before"), elsewhere)
    back = target_choice.start_target(again, revision=1, before=elsewhere, context=TargetContext(now=300))
    assert (back.cause, back.revision, back.restore) == (TargetCause.ROLLBACK, 1, None)


def test_a_snapshot_without_volumes_is_a_mere_rollback() -> None:
    assert start(dataclasses.replace(SETTLED, claims=())).restore is None


@pytest.mark.parametrize("is_halted", [False, True])
@pytest.mark.parametrize("is_restored", [False, True])
def test_a_request_survives_a_restart(*, is_halted: bool, is_restored: bool) -> None:
    target = start(dataclasses.replace(SETTLED, is_halted=is_halted, is_restored=is_restored))
    assert target_status.decode(target_status.encode(target)) == target


@pytest.mark.parametrize("claims", [[{}], [{"resource": 1, "snapshot": "x"}], "text", [["resource"]]])
def test_a_damaged_request_is_lost_as_a_whole(claims: object) -> None:
    encoded = target_status.encode(start(SETTLED))
    encoded["controllerState"]["rollback"]["claims"] = claims
    assert target_status.decode(encoded) is None
