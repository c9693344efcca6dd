"""Retries and repairs have growing, bounded delays that restart when the attempted step changes."""

from __future__ import annotations

import pytest

from hearth.model import growing_delay
from hearth.plan.retry import backoff
from hearth.plan.retry.backoff import Attempt, BackoffPolicy, DriftConflict, RemovalAttempt, StepFailure

STEADY = BackoffPolicy(max_backoff=300.0, jitter=lambda: 0.0)
TROUBLE = StepFailure(reason="Rejected", message="no")


def fail(times: int, *, backoff_policy: BackoffPolicy = STEADY, failure: StepFailure = TROUBLE) -> Attempt:
    """The backoff after that many failures of one step, all at time 0."""
    attempt = None
    for _ in range(times):
        attempt = backoff.after_failure(
            attempt, failure, subject=RemovalAttempt(uid="s"), now=0.0, backoff=backoff_policy
        )
    assert attempt is not None
    return attempt


@pytest.mark.parametrize(
    ("times", "expected"),
    [(1, 1.0), (2, 2.0), (5, 16.0), (9, 256.0), (10, 300.0), (1000, 300.0)],
    ids=["first", "doubled", "fifth", "below the cap", "capped", "no overflow"],
)
def test_the_delay_doubles_up_to_the_cap(times: int, expected: float) -> None:
    assert fail(times).retry_at == expected


def test_chance_only_shortens_and_by_a_quarter_at_most() -> None:
    assert fail(3, backoff_policy=BackoffPolicy(max_backoff=300.0, jitter=lambda: 1.0)).retry_at == 3.0


def test_the_servers_request_to_wait_is_kept() -> None:
    assert fail(1, failure=StepFailure(reason="Unavailable", message="busy", retry_after=30.0)).retry_at == 30.0


def test_another_subject_starts_from_nothing() -> None:
    after = backoff.after_failure(fail(8), TROUBLE, subject=RemovalAttempt(uid="other"), now=100.0, backoff=STEADY)
    assert (after.failures, after.retry_at) == (1, 101.0)


@pytest.mark.parametrize(
    ("times", "failure", "expected"),
    [
        (backoff.LIMIT - 1, TROUBLE, False),
        (backoff.LIMIT, TROUBLE, True),
        (1, StepFailure(reason="Invalid", message="no", is_final=True), True),
    ],
    ids=["below the limit", "at the limit", "a mistake counts as the limit at once"],
)
def test_a_resource_has_failed_when_its_limit_is_used_up(times: int, failure: StepFailure, expected: bool) -> None:
    assert fail(times, failure=failure).is_exhausted is expected


def test_an_early_retry_that_fails_is_repeated_twice() -> None:
    attempt, times = fail(9), []
    attempt = backoff.expedite(attempt, now=100.0, asks_again=True)
    for _ in range(4):
        now = attempt.retry_at
        attempt = backoff.after_failure(attempt, TROUBLE, subject=RemovalAttempt(uid="s"), now=now, backoff=STEADY)
        times.append((now, attempt.failures))
    assert times == [(100.0, 10), (101.2, 10), (105.0, 10), (405.0, 11)]


def test_other_early_retries_are_not_repeated() -> None:
    attempt = backoff.expedite(fail(9), now=100.0)
    after = backoff.after_failure(attempt, TROUBLE, subject=RemovalAttempt(uid="s"), now=100.0, backoff=STEADY)
    assert after.retry_at == 400.0


# ---------------------------------------------------------------- a field manager that keeps taking fields back

HOUR = 3600.0


def count_answers(seconds: float, *, chance: float, pause: float = 0.1) -> list[float]:
    """Times of the repairs if a user takes over the field again `pause` seconds after each repair."""
    backoff_policy = BackoffPolicy(jitter=lambda: chance)
    now, answered = 0.0, list[float]()
    conflict: DriftConflict | None = None
    while now < seconds:
        if conflict is not None and conflict.expires_at <= now:
            conflict = None
        if conflict is None or conflict.next_repair <= now:
            answered.append(now)
            conflict = backoff.after_repair(conflict, "spec.value", now=now, backoff=backoff_policy)
            now += pause
        else:
            now = conflict.next_repair
    return answered


def test_the_first_answer_is_at_once_and_the_next_ones_grow_apart() -> None:
    assert count_answers(40, chance=0.0) == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_answers_of_a_minute_and_an_hour_are_few(chance: float) -> None:
    assert len(count_answers(60, chance=chance)) <= 7
    assert len(count_answers(HOUR, chance=chance)) <= 25
    assert len([at for at in count_answers(3 * HOUR, chance=chance) if at > 2 * HOUR]) <= 16


@pytest.mark.parametrize("pause", [1.0, 60.0, 299.0, 599.0, 600.0, 601.0, 900.0])
def test_no_rhythm_gets_more_answers(pause: float) -> None:
    assert len(count_answers(HOUR, chance=1.0, pause=pause)) <= 45


def test_a_quiet_time_makes_it_forgotten() -> None:
    backoff_policy = BackoffPolicy(jitter=lambda: 0.0, max_backoff=10.0)
    conflict = backoff.after_repair(None, "spec.value", now=0.0, backoff=backoff_policy)
    assert (conflict.repairs, conflict.next_repair, conflict.expires_at) == (1, 1.0, 21.0)
    assert backoff.after_repair(conflict, "spec.value", now=20.9, backoff=backoff_policy).repairs == 2
    assert backoff.after_repair(conflict, "spec.value", now=21.0, backoff=backoff_policy).repairs == 1


def test_it_counts_as_contested_from_the_third_answer() -> None:
    conflict: DriftConflict | None = None
    said = []
    for now in (0.0, 1.0, 3.0):
        conflict = backoff.after_repair(conflict, "spec.value", now=now, backoff=BackoffPolicy(jitter=lambda: 0.0))
        said.append(conflict.is_conflict)
    assert said == [False, False, True]


# ---------------------------------------------------------------- the common formula of all backoffs


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 2.0), (1, 2.0), (2, 4.0), (3, 8.0), (4, 10.0), (100_000, 10.0)],
)
def test_a_delay_doubles_up_to_the_longest(failures: int, seconds: float) -> None:
    assert growing_delay.find(failures, first=2.0, longest=10.0) == seconds
