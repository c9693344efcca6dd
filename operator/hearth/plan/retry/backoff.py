"""How often something was tried, and when it is tried again. Pure: time and chance are arguments."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace

from hearth.plan.retry.retry_triggers import RetryTriggers

FIRST_DELAY = 1.0
"""Seconds; a refusal that a second mends (a webhook's restart, a quota freed) is not worth more."""
GROWTH = 2.0
MAX_BACKOFF = 300.0
"""Seconds; the default of `retry.maxBackoff`."""
LIMIT = 5
"""Failures after which a resource counts as failed; trying goes on."""
EARLY_SHARE = 1 / 16
"""Of a delay, that passes before news may end it: what changes every second must not have a thousand resources tried
every second. After five failures this is one second, at five minutes nineteen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is remembered of failures at one thing. Lost with the process, which costs one more try."""

    attempt_id: str
    """What was tried: the hash of the definition. Another subject starts from nothing."""
    failures: int
    retry_at: float
    """Monotonic seconds."""
    reason: str
    message: str
    is_final: bool
    """Whether no retry can mend it, so that it counts as the limit at once."""
    triggers: RetryTriggers = ()
    """What it may hang on: a change of any of them is worth an early try."""
    earliest_retry: float = 0.0
    """Monotonic seconds before which not even such a change lets it be tried."""
    limit: int = LIMIT
    """Failures after which the Stack is to say Failed."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the Stack is to say Failed because of it."""
        return self.is_final or self.failures >= self.limit


class ServerResponse(enum.Enum):
    """Closed: how the API server itself did, whatever it said of the one thing that was asked of it."""

    ANSWERS = "answers"
    BUSY = "busy"
    """It turns requests away, whatever they are about."""
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailure:
    """Why something was not done."""

    reason: str
    """One CamelCase word."""
    message: str
    is_final: bool = False
    """Whether no retry can mend it."""
    retry_after: float = 0.0
    """Seconds that the server asked to wait."""
    immutable: str = ""
    """The field that cannot be changed in place, where that is what stands in the way."""
    causes: RetryTriggers = ()
    """What it may hang on, as far as a watch can tell of that."""
    server: ServerResponse = ServerResponse.ANSWERS


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPolicy:
    """How retries are spread, and how many of them are borne."""

    limit: int = LIMIT

    first_delay: float = FIRST_DELAY
    """Seconds."""
    max_backoff: float = MAX_BACKOFF
    """Seconds."""
    jitter: Callable[[], float]
    """From 0 to 1: shortens a delay by up to a quarter, so that what failed together does not return together."""


def after_failure(
    previous: Attempt | None, trouble: StepFailure, *, subject: str, now: float, patience: BackoffPolicy
) -> Attempt:
    """The attempt as it stands after one more failure. now: monotonic seconds."""
    failures = previous.failures + 1 if previous is not None and previous.attempt_id == subject else 1
    delay = min(patience.first_delay * GROWTH ** min(failures - 1, 30), patience.max_backoff) * (
        1 - patience.jitter() / 4
    )
    return Attempt(
        attempt_id=subject,
        failures=failures,
        retry_at=now + max(delay, trouble.retry_after),
        reason=trouble.reason,
        message=trouble.message,
        is_final=trouble.is_final,
        limit=patience.limit,
        triggers=trouble.causes,
        earliest_retry=now + max(delay * EARLY_SHARE, FIRST_DELAY, trouble.retry_after),
    )


def expedite(attempt: Attempt, *, now: float) -> Attempt:
    """The attempt once something that it hangs on changed: due at once, or as soon as it decently may; its count stays."""
    due = max(now, attempt.earliest_retry)
    return replace(attempt, retry_at=due) if due < attempt.retry_at else attempt


def reset(attempt: Attempt, *, now: float) -> Attempt:
    """The attempt as if nothing had failed yet, due at once; what had failed is still told until it is tried."""
    return replace(attempt, failures=0, retry_at=now, is_final=False)
