"""Requests to restore a snapshot: when they count, what survives a restart, and that data is replaced once."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.plan.target import target_choice, target_status
from hearth.plan.target.target import CompletedRevisions, RestoredClaim, RollbackRequest, Target, TargetCause
from hearth.plan.target.target_choice import TargetChoice, TargetContext, TargetRequest

HASHES = {1: "one", 2: "two"}
CLAIMS = (
    RestoredClaim(resource="data", snapshot="before-data"),
    RestoredClaim(resource="db", snapshot="before-db-0", claim="data-shop-db-0"),
)
RESOLVED = RollbackRequest(
    to_revision=1, spec_hash="", revision=1, snapshot="before", snapshot_uid="s1", token="t1", claims=CLAIMS
)
SETTLED = dataclasses.replace(RESOLVED, spec_hash="two")


def choose(request: TargetRequest, before: Target | None = None) -> TargetChoice:
    """The choice among two revisions."""
    return target_choice.choose_target(request, before=before, hashes=HASHES, completed=CompletedRevisions(last=2))


def start(rollback: RollbackRequest, **more: object) -> Target:
    """The target of a restore."""
    target = Target(revision=1, cause=TargetCause.ROLLBACK, since=100.0, rollback=rollback)
    return dataclasses.replace(target, **more)  # type: ignore[arg-type]  # mypy cannot type keyword arguments of several fields


def test_a_request_counts_for_the_definition_beside_it() -> None:
    """As one for a revision does."""
    request = TargetRequest(hash="two", to_snapshot="before", rollback=RESOLVED)
    assert choose(request) == TargetChoice(cause=TargetCause.ROLLBACK, revision=1, rollback=SETTLED)


def test_a_later_definition_overrides_a_request_and_remembers_it() -> None:
    """So that it is not resolved, and data not replaced, again: neither now nor once the definition returns."""
    choice = choose(TargetRequest(hash="three", to_snapshot="before"), start(SETTLED))
    ended = dataclasses.replace(SETTLED, is_restored=True)
    assert choice == TargetChoice(cause=TargetCause.SPEC, rollback=ended)
    target = Target(revision=3, cause=TargetCause.SPEC, since=200.0, rollback=ended)
    assert choose(TargetRequest(hash="two", to_snapshot="before"), target).rollback == ended


def test_a_known_request_is_not_resolved_again() -> None:
    """What the name would resolve to now does not matter."""
    other = dataclasses.replace(RESOLVED, token="t2", revision=2)
    assert choose(TargetRequest(hash="two", to_snapshot="before", rollback=other), start(SETTLED)).rollback == SETTLED


def test_a_request_for_another_snapshot_is_another_one() -> None:
    """And so is one for a revision."""
    other = dataclasses.replace(RESOLVED, snapshot="later", token="t2")
    found = choose(TargetRequest(hash="two", to_snapshot="later", rollback=other), start(SETTLED)).rollback
    assert found == dataclasses.replace(other, spec_hash="two")
    found = choose(TargetRequest(hash="two", to_revision=1), start(SETTLED)).rollback
    assert found == RollbackRequest(to_revision=1, spec_hash="two", revision=1)


def test_a_completed_restore_is_over() -> None:
    """The claims stay as they are from then on, even if the target starts once more."""
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
    again = choose(TargetRequest(hash="two", to_snapshot="before"), elsewhere)
    back = target_choice.start_target(again, revision=1, before=elsewhere, context=TargetContext(now=300))
    assert (back.cause, back.revision, back.restore) == (TargetCause.ROLLBACK, 1, None)


def test_a_snapshot_without_volumes_is_a_mere_rollback() -> None:
    """Nothing is suspended for it."""
    assert start(dataclasses.replace(SETTLED, claims=())).restore is None


@pytest.mark.parametrize("is_halted", [False, True])
@pytest.mark.parametrize("is_restored", [False, True])
def test_a_request_survives_a_restart(*, is_halted: bool, is_restored: bool) -> None:
    """With all that the next process needs."""
    target = start(dataclasses.replace(SETTLED, is_halted=is_halted, is_restored=is_restored))
    assert target_status.decode(target_status.encode(target)) == target


@pytest.mark.parametrize("claims", [[{}], [{"resource": 1, "snapshot": "x"}], "text", [["resource"]]])
def test_a_damaged_request_is_lost_as_a_whole(claims: object) -> None:
    """Half a restore is none."""
    encoded = target_status.encode(start(SETTLED))
    encoded["controllerState"]["rollback"]["claims"] = claims
    assert target_status.decode(encoded) is None
