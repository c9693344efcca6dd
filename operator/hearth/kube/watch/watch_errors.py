"""Why a watch ended, and what that calls for: going on where it was or listing everything anew, and after what pause.

Pure rules without any I/O; must not know what is watched.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hearth.model import errors

FIRST_PAUSE = 0.1
"""Seconds; a restarted API server is back within a few, and one request in 0.1 s harms nobody."""
LONGEST_PAUSE = 30.0
LONGEST_OBEYED_PAUSE = 60.0
"""Seconds: a server that wants to be left alone for longer is asked all the same, or the cache would be deaf."""
SUSPICIOUS_FAILURES = 3
"""In a row at one version: then the version itself may be what the server cannot answer to."""
SUSPICIOUS_STALLS = 2
"""In a row, without a byte in between. A server restored from a backup is silent about versions that it has not reached yet;
but any server leaves out a bookmark now and then, the first one after a list above all (one in ten, seen with 1.36)."""


class WatchEndReason(enum.StrEnum):
    """Why a watch ended; the value is the label in metrics and logs."""

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
"""The ends of attempts that say nothing of what is watched: the next one may."""
ORDINARY = frozenset({WatchEndReason.ENDED, WatchEndReason.NO_WATCH_LIST})
REASONS_BY_CODE = {
    401: WatchEndReason.UNAUTHORIZED,
    403: WatchEndReason.FORBIDDEN,
    404: WatchEndReason.NOT_SERVED,
    410: WatchEndReason.EXPIRED,
    429: WatchEndReason.THROTTLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFailure:
    """The end of a watch."""

    reason: WatchEndReason
    detail: str = ""
    """For the log; holds nothing of any object."""
    retry_after: float | None = None
    """Seconds, where the server gave them."""


class WatchInterrupted(Exception):
    """A watch cannot go on; caught by its loop alone."""

    def __init__(self, interruption: WatchFailure) -> None:
        self.interruption = interruption
        super().__init__(interruption.detail or interruption.reason.value)


def interrupt(reason: WatchEndReason, detail: str = "") -> WatchInterrupted:
    """The exception for `reason`, to be raised."""
    return WatchInterrupted(WatchFailure(reason=reason, detail=detail))


def classify(error: Exception) -> WatchFailure:
    """What `error` means for a watch."""
    match error:
        case WatchInterrupted():
            return error.interruption
        case errors.ApiStatusError():
            status = error.status or {"message": str(error)}
            return judge_status(status, code=error.code, retry_after=error.retry_after)
        case errors.Unreachable():
            return WatchFailure(reason=WatchEndReason.UNREACHABLE, detail=str(error))
        case TimeoutError():
            return WatchFailure(reason=WatchEndReason.STALLED)
        case _:
            return WatchFailure(reason=WatchEndReason.UNEXPECTED, detail=type(error).__name__)


def judge_status(
    status: Mapping[str, Any],
    *,
    code: int,
    retry_after: float | None = None,
    default: WatchEndReason = WatchEndReason.REFUSED,
) -> WatchFailure:
    """What a `Status` means, whether it came as an answer or within a stream."""
    details = status.get("details") or {}
    causes = details.get("causes") or ()
    if any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes):
        return WatchFailure(reason=WatchEndReason.BACKWARDS, detail=str(status.get("message", "")))
    if retry_after is None:
        retry_after = details.get("retryAfterSeconds")
    return WatchFailure(
        reason=REASONS_BY_CODE.get(code, default), detail=str(status.get("message", "")), retry_after=retry_after
    )


def needs_list(reason: WatchEndReason, *, failures: int, stalls: int) -> bool:
    """Whether only a fresh list helps, after so many failures in a row, and so many streams in a row that fell silent."""
    if reason is WatchEndReason.STALLED:
        return stalls >= SUSPICIOUS_STALLS
    return reason in NEEDS_LIST or (reason in SUSPECTS_VERSION and failures >= SUSPICIOUS_FAILURES)


def find_delay(interruption: WatchFailure, *, failures: int, uniform: Callable[[float, float], float]) -> float:
    """Seconds to wait before the next attempt; drawn, so that a thousand watches do not come back in one instant."""
    # The exponent is bounded, since the number of failures in a row is not.
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 16))
    asked = min(interruption.retry_after or 0.0, LONGEST_OBEYED_PAUSE)
    return max(uniform(longest / 2, longest), asked)
