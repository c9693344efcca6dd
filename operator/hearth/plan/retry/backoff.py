"""Counts failed attempts and computes the time of the next one. Drift repairs have the same backoff.

Failures are counted for each attempt ID: a changed target or object has another ID and starts at zero.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from hearth.model import growing_delay, retry_delays, value_class
from hearth.plan.retry.retry_triggers import RetryTriggers

LIMIT = 5
"""Failures after which a resource counts as failed; retries continue."""
EARLY_SHARE = 1 / 16
"""Minimum share of a delay that passes before a trigger may end it.

An object that changes every second must not cause a thousand retries per second. The minimum is one second after five
failures, and nineteen seconds for a delay of five minutes.
"""
ASKED_AGAIN = (1.2, 5.0)
"""Seconds until a failed early retry is repeated: an API server keeps enforcing a policy, or denying a permission, for
about a second after it has changed. The minimum share of the delay counts from the last repetition."""


class SuspendPurpose(enum.StrEnum):
    """What to do with the fields that suspend an object."""

    SUSPEND = "suspend"
    RESUME = "resume"
    """The object has its definition again, so the suspension has no further effect."""
    RESTORE = "restore"
    """The definition cannot be applied now, so the object runs as before."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ApplyAttempt:
    """Apply of a definition to an object, or creation of an object."""

    hash: str
    """Keyed hash of the definition."""
    uid: str | None = None
    """UID of the object; None to create one."""
    may_adopt: bool = False
    inherited_rules: str = ""
    """Digest of the rules that the object inherits."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RemovalAttempt:
    """Deletion or release of an object."""

    uid: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DetachAttempt:
    """Deletion of a StatefulSet that keeps its Pods and claims for another definition."""

    hash: str
    """Keyed hash of the definition."""
    uid: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkAttempt:
    """Write of a health mark onto an object."""

    uid: str
    reason: str | None


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendAttempt:
    """Suspend, resume or restore of an object."""

    uid: str
    purpose: SuspendPurpose


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class FailedObject:
    """An object of a definition that was applied and then failed permanently."""

    hash: str
    """Keyed hash of the definition."""


AttemptId: TypeAlias = ApplyAttempt | RemovalAttempt | DetachAttempt | MarkAttempt | SuspendAttempt | FailedObject


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """In-memory record of the failures of one step. Losing it costs one extra retry."""

    attempt_id: AttemptId
    """Identifies the operation. Another ID resets the count."""
    failures: int
    retry_at: float
    """Monotonic seconds; infinite if only a request or another plan causes a retry."""
    reason: str
    message: str
    is_final: bool
    """Whether no retry can succeed. If so, the limit counts as reached."""
    triggers: RetryTriggers = ()
    """Events that may end the failure. Any of them triggers an early retry."""
    earliest_retry: float = 0.0
    """Monotonic seconds before which even a trigger causes no retry."""
    asks_again_at: tuple[float, ...] = ()
    """Monotonic seconds when an early retry that fails is repeated. These repetitions do not count as failures."""
    limit: int = LIMIT
    """Failures after which the phase of the Stack ends in Failed."""
    most: int | None = None
    """The resource's own limit. The lower of the two limits applies."""
    is_internal: bool = False
    """Whether the last failure was an error of the operator."""
    is_wait: bool = False
    """Whether the last attempt was only too early, which is not a failure."""
    is_outside_plan: bool = False
    """Whether the approved plan does not contain the last attempt, so that a person must approve another one."""

    @property
    def wake_at(self) -> float | None:
        """Return the time of the next retry in monotonic seconds; None if none is due."""
        return self.retry_at if math.isfinite(self.retry_at) else None

    @property
    def is_exhausted(self) -> bool:
        """Return whether the attempt makes the phase of the Stack end in Failed."""
        limit = self.limit if self.most is None else min(self.limit, self.most)
        return self.is_final or (self.failures >= limit and not (self.is_wait or self.is_outside_plan))


class ServerResponse(enum.Enum):
    """State of the API server itself, independent of the single request. A closed set."""

    ANSWERS = "answers"
    BUSY = "busy"
    """It throttles requests regardless of their content."""
    SILENT = "silent"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StepFailure:
    """Reason why a step failed."""

    reason: str
    """One CamelCase word."""
    message: str
    is_final: bool = False
    """Whether no retry can succeed."""
    retry_after: float = 0.0
    """Seconds that the API server asks to wait."""
    immutable: str = ""
    """The immutable field that caused the failure, if any."""
    is_proven: bool = True
    """Whether it is proven that a new object would help. If not, only a policy that deletes first may rely on it."""
    causes: RetryTriggers = ()
    """Events that may end the failure, if a watch can observe them."""
    server: ServerResponse = ServerResponse.ANSWERS
    code: int = 0
    """HTTP code of the API server's error, or 0 if it sent none."""
    is_internal: bool = False
    """Whether it is an error of the operator."""
    is_name_taken: bool = False
    """Whether another Stack's object has the generated name, so that another name helps."""
    is_wait: bool = False
    """Whether the step was only too early, so it never counts as a failure of the resource."""
    is_outside_plan: bool = False
    """Whether the approved plan does not contain the step, so that nothing was sent."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPolicy:
    """Delays between retries, and the number of allowed failures."""

    limit: int = LIMIT
    most: int | None = None
    """See `Attempt.most`."""

    first_delay: float = retry_delays.STEP.first
    """Seconds."""
    max_backoff: float = retry_delays.STEP.longest
    """Seconds."""
    jitter: Callable[[], float]
    """From 0 to 1: shortens a delay by up to a quarter, so that simultaneous failures do not retry simultaneously."""

    def find_delay(self, failures: float, *, first: float = retry_delays.STEP.first) -> float:
        """Return the seconds to wait after this many failures. first: seconds to wait after the first failure."""
        return growing_delay.find(failures, first=first, longest=self.max_backoff) * (1 - self.jitter() / 4)


def after_failure(
    previous: Attempt | None, failure: StepFailure, *, subject: AttemptId, now: float, backoff: BackoffPolicy
) -> Attempt:
    """Return the attempt after one more failure. now: monotonic seconds."""
    previous = previous if previous is not None and previous.attempt_id == subject else None
    failures = previous.failures + (previous.retry_at not in previous.asks_again_at) if previous is not None else 1
    asks_again_at = previous.asks_again_at if previous is not None else ()
    # Only a person, or another plan, makes a difference: a retry would change the status all the time.
    delay = math.inf if failure.is_outside_plan else backoff.find_delay(failures, first=backoff.first_delay)
    return Attempt(
        attempt_id=subject,
        failures=failures,
        retry_at=max(min((now + delay, *(each for each in asks_again_at if each > now))), now + failure.retry_after),
        asks_again_at=asks_again_at,
        reason=failure.reason,
        message=failure.message,
        is_final=failure.is_final,
        is_internal=failure.is_internal,
        is_wait=failure.is_wait,
        is_outside_plan=failure.is_outside_plan,
        limit=backoff.limit,
        most=backoff.most,
        triggers=failure.causes,
        earliest_retry=now + max(delay * EARLY_SHARE, retry_delays.STEP.first, failure.retry_after),
    )


def expedite(attempt: Attempt, *, now: float, asks_again: bool = False) -> Attempt:
    """Return the attempt after a trigger: due now, or at `earliest_retry`. Its count of failures is unchanged.

    asks_again: whether the API server may take a moment to notice the change behind the trigger.
    """
    due = max(now, attempt.earliest_retry)
    if due >= attempt.retry_at:
        return attempt
    again = tuple(due + each for each in ASKED_AGAIN) if asks_again else attempt.asks_again_at
    return replace(attempt, retry_at=due, asks_again_at=again)


def reset(attempt: Attempt, *, now: float) -> Attempt:
    """Return the attempt with no failures, due now. Its reason and message stay until the retry."""
    return replace(attempt, failures=0, retry_at=now, is_final=False)


# Backoff for drift that another field manager keeps causing. The first repairs are immediate, later ones are delayed. In
# memory only: a new process repairs at once and counts from the start.

CONFLICT_AFTER = 3
"""Number of repairs after which drift counts as a conflict. A person may change a field once or twice; a third change
comes from a controller."""
EXPIRY_FACTOR = 2.0
"""The record expires after this multiple of the maximum delay without drift.

This is longer than any delay, so delayed repairs never look like the end of the conflict.
"""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DriftConflict:
    """In-memory record of repairs of one resource whose fields another field manager keeps changing."""

    repairs: int
    """Number of repairs."""
    next_repair: float
    """Monotonic seconds before which the operator makes no further repair."""
    expires_at: float
    """Monotonic seconds when the record expires without further drift."""
    fields: str
    """The fields of the last repair, as text."""

    @property
    def is_conflict(self) -> bool:
        """Return whether to report it to the owner of the Stack."""
        return self.repairs >= CONFLICT_AFTER


def after_repair(previous: DriftConflict | None, fields: str, *, now: float, backoff: BackoffPolicy) -> DriftConflict:
    """Return the conflict after one more repair. now: monotonic seconds."""
    repairs = previous.repairs + 1 if previous is not None and now < previous.expires_at else 1
    next_repair = now + backoff.find_delay(repairs)
    return DriftConflict(
        repairs=repairs,
        next_repair=next_repair,
        expires_at=next_repair + EXPIRY_FACTOR * backoff.max_backoff,
        fields=fields,
    )
