"""What metrics show of the status of one Stack: its true conditions, and since when an action is in progress. Pure.

Must not trust the status: any client with the right to write it may have done so.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from hearth.plan.state.condition_types import ConditionType

STALLED: Final = "Stalled"
ROLLED_BACK: Final = "RolledBack"
"""Reason of `Ready` after an automatic rollback. It is shown like a condition, because its phase is also that of a
rollback on request."""
SHOWN: Final = frozenset({STALLED, *ConditionType})
"""The conditions that are counted. A fixed set, so that no client can add values of a label."""


def summarize(status: Any) -> tuple[tuple[str, ...], str]:
    """Return the shown conditions that are True, and since when the Stack is reconciling ("" if it is not).

    One pass, because each status that a watch brings is summarized. Equal conditions are one object.
    """
    entries = status.get("conditions") if isinstance(status, dict) else None
    found: list[str] = []
    since: Any = ""
    for each in entries if isinstance(entries, list) else ():
        if not isinstance(each, dict) or not isinstance(type_ := each.get("type"), str):
            continue
        if each.get("status") == "True":
            if type_ in SHOWN:
                found.append(type_)
            elif type_ == "Reconciling":
                since = each.get("lastTransitionTime")
        elif type_ == "Ready" and each.get("reason") == ROLLED_BACK:
            found.append(ROLLED_BACK)
    return _share(tuple(sorted(set(found)))) if found else (), since if isinstance(since, str) else ""


@functools.lru_cache(maxsize=1024)
def _share(found: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same object for an equal tuple, because nearly all Stacks have the same few."""
    return found
