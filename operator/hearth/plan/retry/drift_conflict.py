"""Backoff for drift that another field manager keeps causing. The first repairs are immediate, later ones are delayed.

In memory only: a new process repairs at once and counts from the start. Pure: time and jitter are arguments.
"""

from __future__ import annotations

from hearth.model import growing_delay, value_class
from hearth.plan.retry.backoff import FIRST_DELAY, BackoffPolicy

CONFLICT_AFTER = 3
"""Repairs until it counts as a conflict: one or two changes may come from a person, three come from a controller."""
EXPIRY_FACTOR = 2.0
"""Multiple of the maximum delay without drift after which the record expires.

Longer than any delay, so that delayed repairs never look like the end of the conflict.
"""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DriftConflict:
    """In-memory record of repairs of one resource whose fields another field manager keeps changing."""

    repairs: int
    """Number of repairs."""
    next_repair: float
    """Monotonic seconds before which the operator makes no further repair."""
    expires_at: float
    """Monotonic seconds at which the record expires without further drift."""
    fields: str
    """The fields of the last repair, as text."""

    @property
    def is_conflict(self) -> bool:
        """Return whether to report it to the owner of the Stack."""
        return self.repairs >= CONFLICT_AFTER


def after_repair(previous: DriftConflict | None, fields: str, *, now: float, backoff: BackoffPolicy) -> DriftConflict:
    """Return the conflict after one more repair. now: monotonic seconds."""
    repairs = previous.repairs + 1 if previous is not None and now < previous.expires_at else 1
    delay = growing_delay.find(repairs, first=FIRST_DELAY, longest=backoff.max_backoff) * (1 - backoff.jitter() / 4)
    next_repair = now + delay
    return DriftConflict(
        repairs=repairs,
        next_repair=next_repair,
        expires_at=next_repair + EXPIRY_FACTOR * backoff.max_backoff,
        fields=fields,
    )
