"""Classifies why a watch ended, and decides whether to resume or list again, and after what delay. Pure."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from hearth.model import errors, retry_delays, value_class

SUSPICIOUS_FAILURES = 3
"""Consecutive failures at one version after which the version itself may be the cause."""
SUSPICIOUS_STALLS = 2
"""Consecutive streams without a single byte after which a new list is required.

A server restored from a backup sends nothing for versions that it has not reached. But any server sometimes omits a
bookmark, most often the first one after a list (one in ten, seen with 1.36).
"""


class WatchEndReason(enum.StrEnum):
    """Reason for the end of a watch; the value is the label in metrics and logs."""

    ENDED = "ended"
    UNENDED_LIST = "unended-list"
    STALLED = "stalled"
    EXPIRED = "expired"
    BACKWARDS = "backwards"
    BROKEN = "broken"
    ERROR = "error"
    NO_WATCH_LIST = "no-watch-list"
    THROTTLED = "throttled"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_SERVED = "not-served"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    UNEXPECTED = "unexpected"


NEEDS_LIST = frozenset(
    {WatchEndReason.EXPIRED, WatchEndReason.BACKWARDS, WatchEndReason.NOT_SERVED, WatchEndReason.NO_WATCH_LIST}
)
SUSPECTS_VERSION = frozenset(
    {
        WatchEndReason.ENDED,
        WatchEndReason.BROKEN,
        WatchEndReason.ERROR,
        WatchEndReason.REFUSED,
        WatchEndReason.UNEXPECTED,
    }
)
UNANSWERED = frozenset(
    {
        WatchEndReason.UNREACHABLE,
        WatchEndReason.STALLED,
        WatchEndReason.UNAUTHORIZED,
        WatchEndReason.THROTTLED,
        WatchEndReason.NO_WATCH_LIST,
        WatchEndReason.UNENDED_LIST,
    }
)
"""Failures that do not describe the watched objects. The next attempt may succeed."""
TEMPORARY = frozenset(
    {
        WatchEndReason.ENDED,
        WatchEndReason.EXPIRED,
        WatchEndReason.NO_WATCH_LIST,
        WatchEndReason.UNENDED_LIST,
        WatchEndReason.THROTTLED,
        WatchEndReason.NOT_SERVED,
        WatchEndReason.FORBIDDEN,
    }
)
"""Reasons after which the next attempt should receive the full set, or which already are the server's answer."""
AWAY = frozenset({WatchEndReason.UNREACHABLE, WatchEndReason.REFUSED})
"""Reasons after which the store of the server may have been replaced: restored from a backup, or rebuilt."""
SETTLED_AFTER = 10.0
"""Minimum seconds of a stream whose end counts as a first failure."""
UNKNOWN_PARAMETERS = frozenset({400, 422})
"""Status codes of a server that cannot send the initial set as events."""
ORDINARY = frozenset({WatchEndReason.ENDED, WatchEndReason.NO_WATCH_LIST})
REASONS_BY_CODE = {
    401: WatchEndReason.UNAUTHORIZED,
    403: WatchEndReason.FORBIDDEN,
    404: WatchEndReason.NOT_SERVED,
    410: WatchEndReason.EXPIRED,
    429: WatchEndReason.THROTTLED,
}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WatchFailure:
    """The end of a watch."""

    reason: WatchEndReason
    detail: str = ""
    """Text for the log; contains no object data."""
    retry_after: float | None = None
    """Seconds to wait, if the server sent them."""


class WatchInterrupted(Exception):
    """Failure of a watch, caught only by its loop."""

    def __init__(self, failure: WatchFailure) -> None:
        self.interruption = failure
        super().__init__(failure.detail or failure.reason.value)


def interrupt(reason: WatchEndReason, detail: str = "") -> WatchInterrupted:
    """Create the exception for `reason`."""
    return WatchInterrupted(WatchFailure(reason=reason, detail=detail))


def classify(error: Exception) -> WatchFailure:
    """Classify `error` as a failure of a watch."""
    match error:
        case WatchInterrupted():
            return error.interruption
        case errors.ApiStatusError():
            status = error.status or {"message": str(error)}
            return classify_status(status, code=error.code, retry_after=error.retry_after)
        case errors.Unreachable():
            return WatchFailure(reason=WatchEndReason.UNREACHABLE, detail=str(error))
        case TimeoutError():
            return WatchFailure(reason=WatchEndReason.STALLED)
        case _:
            return WatchFailure(reason=WatchEndReason.UNEXPECTED, detail=type(error).__name__)


def classify_status(
    status: Mapping[str, Any],
    *,
    code: int,
    retry_after: float | None = None,
    default_reason: WatchEndReason = WatchEndReason.REFUSED,
) -> WatchFailure:
    """Classify a `Status`, received as a response or within a stream."""
    details = status.get("details") or {}
    causes = details.get("causes") or ()
    if any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes):
        return WatchFailure(reason=WatchEndReason.BACKWARDS, detail=str(status.get("message", "")))
    if retry_after is None:
        retry_after = details.get("retryAfterSeconds")
    return WatchFailure(
        reason=REASONS_BY_CODE.get(code, default_reason), detail=str(status.get("message", "")), retry_after=retry_after
    )


def needs_list(reason: WatchEndReason, *, failures: int, stalls: int) -> bool:
    """Return whether a new list is required after these numbers of consecutive failures and stalled streams."""
    if reason is WatchEndReason.STALLED:
        return stalls >= SUSPICIOUS_STALLS
    return reason in NEEDS_LIST or (reason in SUSPECTS_VERSION and failures >= SUSPICIOUS_FAILURES)


def find_delay(failure: WatchFailure, *, failures: int, uniform: Callable[[float, float], float]) -> float:
    """Return the seconds before the next attempt, randomized so that a thousand watches do not reconnect at once."""
    # The exponent is limited because the number of consecutive failures is not.
    longest = retry_delays.WATCH.find_seconds(failures)
    requested_pause = min(failure.retry_after or 0.0, retry_delays.LONGEST_OBEYED_PAUSE)
    return max(uniform(longest / 2, longest), requested_pause)


def is_ordinary(reason: WatchEndReason, *, is_resumable: bool, failures: int) -> bool:
    """Return whether the end of an attempt is normal, so that no warning is logged.

    is_resumable: whether its version is still known; failures: consecutive ones, this one included.
    """
    if reason is WatchEndReason.THROTTLED and failures <= 1:
        # For a second after a CRD was installed, a server answers: "storage is (re)initializing".
        return True
    if reason is WatchEndReason.NOT_SERVED and failures > 1:
        # Report it only once, because a kind can be missing forever.
        return True
    # If the watch resumes after a stall, the server most likely skipped a bookmark, and nothing is lost.
    return reason in ORDINARY or (reason is WatchEndReason.STALLED and is_resumable)
