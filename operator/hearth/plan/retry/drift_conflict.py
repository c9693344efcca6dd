"""Somebody who takes the same fields back again and again: answered at once first, then more and more slowly.

Remembered by the process alone: whoever forgets it answers at once, and learns it anew. Pure; time and chance are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

from hearth.plan.retry.backoff import FIRST_DELAY, GROWTH, BackoffPolicy

CONFLICT_AFTER = 3
"""Answers until it counts as contested: once is an accident, twice a stubborn person, then it is a machine."""
EXPIRY_FACTOR = 2.0
"""For how many of the longest delays nothing must happen until all is forgotten. Longer than any delay, so that the slow
answers themselves never look like peace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftConflict:
    """What is remembered of fields of one resource that somebody took and we took back."""

    repairs: int
    """How often they were taken back."""
    next_repair: float
    """Monotonic seconds before which nothing is taken back again."""
    expires_at: float
    """Monotonic seconds at which all of it is forgotten unless something was taken by then."""
    fields: str
    """What was taken last, in words."""

    @property
    def is_conflict(self) -> bool:
        """Whether the Stack's owner is to know."""
        return self.repairs >= CONFLICT_AFTER


def after_repair(previous: DriftConflict | None, fields: str, *, now: float, patience: BackoffPolicy) -> DriftConflict:
    """The contest as it stands after one more answer. now: monotonic seconds."""
    answers = previous.repairs + 1 if previous is not None and now < previous.expires_at else 1
    delay = min(FIRST_DELAY * GROWTH ** min(answers - 1, 30), patience.max_backoff) * (1 - patience.jitter() / 4)
    next_answer = now + delay
    return DriftConflict(
        repairs=answers,
        next_repair=next_answer,
        expires_at=next_answer + EXPIRY_FACTOR * patience.max_backoff,
        fields=fields,
    )
