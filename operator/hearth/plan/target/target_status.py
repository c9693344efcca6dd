"""Encoding of a target as `status.wish`, for the next process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import limits, times
from hearth.model.child import Object
from hearth.plan.environment import cleared_breakpoints
from hearth.plan.target.target import (
    MAX_PROTECTED_REVISIONS,
    CompletedRevisions,
    RollbackRequest,
    SuspendTransition,
    Target,
    TargetCause,
)

TOO_HIGH = 10**limits.COUNT_DIGITS
"""Exclusive upper bound of revision numbers."""


def encode(wish: Target) -> Object:
    """Encode a target for a status; omit false and empty fields."""
    said: Object = {"revision": wish.revision, "cause": str(wish.cause), "since": times.format_time(wish.since)}
    flags = {"first": wish.is_first, "completed": wish.is_completed, "cleanupWaived": wish.is_cleanup_waived}
    said.update({key: True for key, is_so in flags.items() if is_so})
    if wish.protected_revisions:
        said["keeps"] = list(wish.protected_revisions)
    if wish.rollback is not None:
        said["order"] = {
            "toRevision": wish.rollback.to_revision, "besideHash": wish.rollback.spec_hash, "revision": wish.rollback.revision
        }  # fmt: skip
    if wish.suspend is not None:
        said["turn"] = {"suspended": wish.suspend.is_suspended, "since": times.format_time(wish.suspend.since)}
        said["turn"].update({"reached": True} if wish.suspend.is_completed else {})
    if wish.failed_hash:
        said["failedHash"] = wish.failed_hash
    if wish.failure:
        said["failure"] = wish.failure
    return {**said, **cleared_breakpoints.encode(wish.cleared)}


def decode(said: Mapping[str, Any] | None) -> Target | None:
    """Decode the target from a status; None if it is absent or invalid."""
    if not said:
        return None
    try:
        return Target(
            revision=read_number(said["revision"]),
            cause=TargetCause(said["cause"]),
            since=times.parse_time(said["since"]),
            is_first=bool(said.get("first")),
            is_completed=bool(said.get("completed")),
            is_cleanup_waived=bool(said.get("cleanupWaived")),
            protected_revisions=tuple(read_number(each) for each in said.get("keeps") or ())[:MAX_PROTECTED_REVISIONS],
            rollback=_read_order(said.get("order")),
            failed_hash=read_text(said.get("failedHash", "")),
            failure=read_text(said.get("failure", "")),
            cleared=cleared_breakpoints.decode(said),
            suspend=_read_turn(said.get("turn")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        # Another writer changed the status: the stored target is lost, and the spec is the target.
        return None


def read_number(value: Any) -> int:
    """Decode a revision number. Raises ValueError if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < TOO_HIGH:
        raise ValueError("is no number of a revision")
    return value


def read_text(value: Any) -> str:
    """Decode a string. Raises ValueError if it is not a string."""
    if not isinstance(value, str):
        raise ValueError("is no text")  # noqa: TRY004 -- one error type for all invalid values
    return value


def _read_order(said: Mapping[str, Any] | None) -> RollbackRequest | None:
    """Decode the rollback request. Raises AttributeError, KeyError, TypeError or ValueError if it is invalid."""
    if not said:
        return None
    stated, revision = read_number(said["toRevision"]), read_number(said["revision"])
    return RollbackRequest(to_revision=stated, spec_hash=read_text(said["besideHash"]), revision=revision)


def _read_turn(said: Mapping[str, Any] | None) -> SuspendTransition | None:
    """Decode the suspend transition. Raises AttributeError, KeyError, TypeError or ValueError if it is invalid."""
    if not said:
        return None
    since = times.parse_time(said["since"])
    return SuspendTransition(is_suspended=bool(said["suspended"]), since=since, is_completed=bool(said.get("reached")))


def write_completed(completed: CompletedRevisions) -> Object:
    """Encode the completed revisions for a status."""
    numbers = {"lastCompletedRevision": completed.last, "previousCompletedRevision": completed.previous}
    said: Object = {key: number for key, number in numbers.items() if number is not None}
    return said if completed.is_known else {**said, "historyUnknown": True}


def read_completed(memory: Mapping[str, Any] | None) -> CompletedRevisions:
    """Decode the completed revisions. memory: None if it was lost."""
    if memory is None:
        return CompletedRevisions(is_known=False)
    last, previous = (find_number(memory, key) for key in ("lastCompletedRevision", "previousCompletedRevision"))
    return CompletedRevisions(last=last, previous=previous, is_known=not memory.get("historyUnknown"))


def find_number(memory: Mapping[str, Any], key: str) -> int | None:
    """Return the revision number in that field; None if there is none."""
    try:
        return read_number(memory[key])
    except (KeyError, ValueError):
        return None


def read_handled(memory: Mapping[str, Any]) -> dict[str, str]:
    """Return the last handled token of each request."""
    handled = memory.get("handled")
    found = handled.items() if isinstance(handled, dict) else ()
    return {verb: token for verb, token in found if isinstance(token, str)}
