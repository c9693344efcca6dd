"""What metrics show of the status of one Stack: its true conditions, and since when an action is in progress. Pure.

Must not trust the status: any client with the right to write it may have done so.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from hearth.plan.status import conditions

STALLED: Final = "Stalled"
ROLLED_BACK: Final = "RolledBack"
"""Reason of `Ready` after an automatic rollback. It is shown like a condition, because its phase is also that of a
rollback on request."""
SHOWN: Final = frozenset({STALLED, *conditions.EXTRA_TYPES})
"""The conditions that are counted. A fixed set, so that no client can add values of a label."""


def find_true(status: Any) -> tuple[str, ...]:
    """Return the shown conditions that are True; equal results are one object."""
    found = {type_ for type_, state, _ in _read(status) if state == "True"} & SHOWN
    if any(type_ == "Ready" and reason == ROLLED_BACK for type_, _, reason in _read(status)):
        found.add(ROLLED_BACK)
    return _share(tuple(sorted(found)))


def find_start(status: Any) -> str:
    """Return since when the Stack is reconciling, as the status states it; "" if it is not."""
    for each in _list(status):
        if each.get("type") == "Reconciling" and each.get("status") == "True":
            since = each.get("lastTransitionTime")
            return since if isinstance(since, str) else ""
    return ""


def _read(status: Any) -> list[tuple[Any, Any, Any]]:
    """Return type, status and reason of each condition that is valid enough."""
    found = ((each.get("type"), each.get("status"), each.get("reason")) for each in _list(status))
    return [each for each in found if isinstance(each[0], str)]


def _list(status: Any) -> list[dict[str, Any]]:
    entries = status.get("conditions") if isinstance(status, dict) else None
    return [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []


@functools.lru_cache(maxsize=1024)
def _share(found: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same object for an equal tuple, because nearly all Stacks have the same few."""
    return found
