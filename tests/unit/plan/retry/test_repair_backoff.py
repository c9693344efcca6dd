"""How a field manager that keeps taking fields back is answered: at once, then more and more slowly, and never too often."""

from __future__ import annotations

import pytest

from hearth.plan.retry import backoff
from hearth.plan.retry.backoff import BackoffPolicy, DriftConflict

HOUR = 3600.0


def count_answers(seconds: float, *, chance: float, pause: float = 0.1) -> list[float]:
    """When a user is answered who takes the field again `pause` seconds after each answer."""
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
    """As retries do."""
    assert count_answers(40, chance=0.0) == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_answers_of_a_minute_and_an_hour_are_few(chance: float) -> None:
    """Regardless of the chance that spreads them."""
    assert len(count_answers(60, chance=chance)) <= 7
    assert len(count_answers(HOUR, chance=chance)) <= 25
    assert len([at for at in count_answers(3 * HOUR, chance=chance) if at > 2 * HOUR]) <= 16


@pytest.mark.parametrize("pause", [1.0, 60.0, 299.0, 599.0, 600.0, 601.0, 900.0])
def test_no_rhythm_gets_more_answers(pause: float) -> None:
    """Not even that of another field manager that waits until all is forgotten."""
    assert len(count_answers(HOUR, chance=1.0, pause=pause)) <= 45


def test_a_quiet_time_makes_it_forgotten() -> None:
    """Twice the longest delay after the moment when the next answer was allowed."""
    backoff_policy = BackoffPolicy(jitter=lambda: 0.0, max_backoff=10.0)
    conflict = backoff.after_repair(None, "spec.value", now=0.0, backoff=backoff_policy)
    assert (conflict.repairs, conflict.next_repair, conflict.expires_at) == (1, 1.0, 21.0)
    assert backoff.after_repair(conflict, "spec.value", now=20.9, backoff=backoff_policy).repairs == 2
    assert backoff.after_repair(conflict, "spec.value", now=21.0, backoff=backoff_policy).repairs == 1


def test_it_counts_as_contested_from_the_third_answer() -> None:
    """Twice may be a person."""
    conflict: DriftConflict | None = None
    said = []
    for now in (0.0, 1.0, 3.0):
        conflict = backoff.after_repair(conflict, "spec.value", now=now, backoff=BackoffPolicy(jitter=lambda: 0.0))
        said.append(conflict.is_conflict)
    assert said == [False, False, True]
