"""How often something was tried, and when it is tried again. Pure: time and chance are arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

FIRST_DELAY = 1.0
"""Seconds; a refusal that a second mends (a webhook's restart, a quota freed) is not worth more."""
GROWTH = 2.0
MAX_BACKOFF = 300.0
"""Seconds; the default of `retry.maxBackoff`."""
LIMIT = 5
"""Failures after which a resource counts as failed; trying goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is remembered of failures at one thing. Lost with the process, which costs one more try."""

    subject: str
    """What was tried: the hash of the definition. Another subject starts from nothing."""
    failures: int
    next_try: float
    """Monotonic seconds."""
    reason: str
    message: str
    is_final: bool
    """Whether no retry can mend it, so that it counts as the limit at once."""
    limit: int = LIMIT
    """Failures after which the Stack is to say Failed."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the Stack is to say Failed because of it."""
        return self.is_final or self.failures >= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why something was not done."""

    reason: str
    """One CamelCase word."""
    message: str
    is_final: bool = False
    """Whether no retry can mend it."""
    after: float = 0.0
    """Seconds that the server asked to wait."""
    immutable: str = ""
    """The field that cannot be changed in place, where that is what stands in the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How retries are spread, and how many of them are borne."""

    limit: int = LIMIT

    max_backoff: float = MAX_BACKOFF
    """Seconds."""
    chance: Callable[[], float]
    """From 0 to 1: shortens a delay by up to a quarter, so that what failed together does not return together."""


def after_failure(
    previous: Attempt | None, trouble: Trouble, *, subject: str, now: float, patience: Patience
) -> Attempt:
    """The attempt as it stands after one more failure. now: monotonic seconds."""
    failures = previous.failures + 1 if previous is not None and previous.subject == subject else 1
    delay = min(FIRST_DELAY * GROWTH ** min(failures - 1, 30), patience.max_backoff) * (1 - patience.chance() / 4)
    return Attempt(
        subject=subject,
        failures=failures,
        next_try=now + max(delay, trouble.after),
        reason=trouble.reason,
        message=trouble.message,
        is_final=trouble.is_final,
        limit=patience.limit,
    )


def renew(attempt: Attempt, *, now: float) -> Attempt:
    """The attempt as if nothing had failed yet, due at once; what had failed is still told until it is tried."""
    return replace(attempt, failures=0, next_try=now, is_final=False)
