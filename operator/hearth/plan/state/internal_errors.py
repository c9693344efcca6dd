"""Messages and retries for unexpected exceptions, which are bugs of the operator.

An exception and its text are never stored, because the text may contain a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hearth.model import retry_delays, value_class
from hearth.plan.retry.backoff import Attempt, AttemptId, StepFailure

REASON = "InternalError"
"""The reason for a resource and for the Stack's conditions."""
HINT = "this is an internal error of the operator, see its log; the operator retries"

OnError: TypeAlias = Callable[[str, Exception], None]
"""Receives the resource that was being planned and the exception."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Time of the next attempt after an internal error."""

    failures: int
    due: float
    """Monotonic seconds."""


def after_failure(before: Retry | None, *, now: float) -> Retry:
    """Count one more failure. A repetition before it is due counts as the same failure. now: monotonic seconds."""
    if before is not None and now < before.due:
        return before
    failures = before.failures + 1 if before is not None else 1
    delay = retry_delays.STEP.find_seconds(failures)
    return Retry(failures=failures, due=now + delay)


def ignore_nothing(_resource: str, error: Exception) -> None:
    """Raise the error."""
    raise error


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Work for a Stack that fails with internal errors."""

    works: tuple[str, ...]
    """Names of the work in order: `accept`, `pass`, `status` …"""
    is_blocking: bool
    """Whether the Stack makes no progress without this work."""

    @property
    def message(self) -> str:
        """Return the message for the Stack's owner."""
        return f"cannot do {' and '.join(repr(work) for work in self.works)} for the Stack: {HINT}"


def explain(what: str) -> str:
    """Return the message about work that failed with an internal error. what: `apply configmap/web`."""
    return f"cannot {what}: {HINT}"


def internal_failure(what: str) -> StepFailure:
    """Return the failure of a step that ended in an internal error. what: `apply configmap/web`."""
    return StepFailure(reason=REASON, message=explain(what), is_internal=True)


def make_attempt(before: Attempt | None, *, subject: AttemptId, what: str, now: float) -> Attempt:
    """Return an internal error as an attempt to record."""
    known = before is not None and before.attempt_id == subject and before.is_internal
    retry = after_failure(Retry(failures=before.failures, due=before.retry_at) if before and known else None, now=now)
    return Attempt(
        attempt_id=subject,
        failures=retry.failures,
        retry_at=retry.due,
        reason=REASON,
        message=explain(what),
        is_final=False,
        is_internal=True,
    )
