"""What is said of work that ended in an error that no code expects: a bug of the operator, not a mistake of its user.

Holds no exception, and never the text of one: that may quote a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from hearth.plan.retry.backoff import FIRST_DELAY, GROWTH, MAX_BACKOFF, Attempt, StepFailure

REASON = "InternalError"
"""Of a resource, and of the Stack's conditions."""
TYPE = "InternalError"
"""Of the condition that is there while any work for the Stack fails so."""
HINT = "this is an error of the operator, see its log; it is tried again"

OnError: TypeAlias = Callable[[str, Exception], None]
"""Gets the resource that something was decided for, and what was raised then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When work that failed so is done again."""

    failures: int
    due: float
    """Monotonic seconds."""


def after_failure(before: Retry | None, *, now: float) -> Retry:
    """One more failure; what is done again before it is due counts as the same. now: monotonic seconds."""
    if before is not None and now < before.due:
        return before
    failures = before.failures + 1 if before is not None else 1
    delay = min(FIRST_DELAY * GROWTH ** min(failures - 1, 30), MAX_BACKOFF)
    return Retry(failures=failures, due=now + delay)


def ignore_nothing(_resource: str, error: Exception) -> None:
    """Let it be raised."""
    raise error


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What of the work for a Stack fails."""

    works: tuple[str, ...]
    """What it is called, in order: `accept`, `pass`, `status` …"""
    is_blocking: bool
    """Whether the Stack does not get on without it."""

    @property
    def message(self) -> str:
        """For the Stack's owner."""
        return f"cannot do {' and '.join(repr(work) for work in self.works)} for the Stack: {HINT}"


def explain(what: str) -> str:
    """The message about work that failed so. what: `apply configmap/web`."""
    return f"cannot {what}: {HINT}"


def make_trouble(what: str) -> StepFailure:
    """What came of a step that failed so. what: `apply configmap/web`."""
    return StepFailure(reason=REASON, message=explain(what))


def make_attempt(before: Attempt | None, *, subject: str, what: str, now: float) -> Attempt:
    """The same as an attempt that is remembered."""
    known = before is not None and before.attempt_id == subject and before.reason == REASON
    retry = after_failure(Retry(failures=before.failures, due=before.retry_at) if before and known else None, now=now)
    return Attempt(
        attempt_id=subject,
        failures=retry.failures,
        retry_at=retry.due,
        reason=REASON,
        message=explain(what),
        is_final=False,
    )
