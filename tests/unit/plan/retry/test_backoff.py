"""Retries grow apart, are bounded, and start again when what is tried changes."""

from __future__ import annotations

import pytest

from hearth.plan.retry import backoff
from hearth.plan.retry.backoff import Attempt, BackoffPolicy, RemovalAttempt, StepFailure

STEADY = BackoffPolicy(max_backoff=300.0, jitter=lambda: 0.0)
TROUBLE = StepFailure(reason="Rejected", message="no")


def fail(times: int, *, backoff_policy: BackoffPolicy = STEADY, failure: StepFailure = TROUBLE) -> Attempt:
    """What is remembered after that many failures at one thing, all at the time 0."""
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
    """In seconds, without the spread."""
    assert fail(times).retry_at == expected


def test_chance_only_shortens_and_by_a_quarter_at_most() -> None:
    """So the cap holds for every spread."""
    assert fail(3, backoff_policy=BackoffPolicy(max_backoff=300.0, jitter=lambda: 1.0)).retry_at == 3.0


def test_the_servers_request_to_wait_is_kept() -> None:
    """Retry-After counts where it is longer than the delay."""
    assert fail(1, failure=StepFailure(reason="Unavailable", message="busy", retry_after=30.0)).retry_at == 30.0


def test_another_subject_starts_from_nothing() -> None:
    """A new definition is not punished for the failures of the old one."""
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
    """Trying continues either way."""
    assert fail(times, failure=failure).is_exhausted is expected


def test_an_early_retry_that_fails_is_repeated_twice() -> None:
    """A server notices late what the trigger reports. The repetitions do not count as failures."""
    attempt, times = fail(9), []
    attempt = backoff.expedite(attempt, now=100.0, asks_again=True)
    for _ in range(4):
        now = attempt.retry_at
        attempt = backoff.after_failure(attempt, TROUBLE, subject=RemovalAttempt(uid="s"), now=now, backoff=STEADY)
        times.append((now, attempt.failures))
    assert times == [(100.0, 10), (101.2, 10), (105.0, 10), (405.0, 11)]


def test_other_early_retries_are_not_repeated() -> None:
    """What a quota leaves is known at once."""
    attempt = backoff.expedite(fail(9), now=100.0)
    after = backoff.after_failure(attempt, TROUBLE, subject=RemovalAttempt(uid="s"), now=100.0, backoff=STEADY)
    assert after.retry_at == 400.0
