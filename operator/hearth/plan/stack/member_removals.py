"""Decides which members of a collection may be removed without an edit by a user.

Another client may control the list, and its error must not delete the data of the members. If too many members
disappear at once, their objects stay until the user releases them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hearth.model import members
from hearth.model.text.enumeration import enumerate_names
from hearth.template.blueprint import Blueprint

SETTLED_AFTER: Final = 2.0
"""Seconds that a member must be unwanted before its removal. When a kind is deleted, the API server deletes its objects
one by one."""
WINDOW: Final = 600.0
"""Seconds during which removals count together."""
FEW: Final = 4
"""In collections with fewer members, several members are never removed at once, unless the limit is a number or
100%."""
ALL: Final = "100%"


@dataclass(slots=True)
class Removals:
    """The unwanted members of one collection."""

    since: dict[str, float] = field(default_factory=dict)
    """By name: the monotonic time when a member with an object was first unwanted."""
    is_confirmed: bool = False
    """Whether the list behind the members was confirmed to exist since then, see `MemberRemovals.list_questions`."""
    allowed: set[str] = field(default_factory=set)
    """The members that may be removed."""
    history: list[tuple[float, int]] = field(default_factory=list)
    """Monotonic times of removals, each with the number of members that were allowed to be removed."""
    is_excess: bool = False
    """Whether too many members wait to be removed without a user's consent."""
    is_full: bool = False
    """Like `is_excess`, but set before the decision, so that no member is created in the meantime."""

    @property
    def waiting(self) -> list[str]:
        """Return the members whose objects stay, in order."""
        return sorted(name for name in self.since if name not in self.allowed)

    @property
    def due(self) -> float:
        """Return the monotonic time from which the waiting members count as unwanted; infinite if there are none."""
        return max((self.since[name] for name in self.waiting), default=math.inf) + SETTLED_AFTER


class MemberRemovals:
    """The collections of one Stack. Kept next to its planners."""

    def __init__(self) -> None:
        self._found: dict[str, Removals] = {}
        """By collection."""
        self.wake_at: float | None = None
        """Monotonic time of the next decision that depends only on time."""
        self.is_releasing = False
        """Whether the user released all waiting members, and one of them still has an object."""

    @property
    def is_open(self) -> bool:
        """Whether any decision is left, so that time or an answer may change which objects stay."""
        return self.is_releasing or any(each.since for each in self._found.values())

    @property
    def is_undecided(self) -> bool:
        """Whether members wait for a decision that is certain to come."""
        return any(each.waiting and not each.is_excess for each in self._found.values())

    @property
    def count(self) -> int:
        """Return how many members have objects that stay although they are not wanted."""
        return sum(len(each.waiting) for each in self._found.values())

    def list_waiting(self, collection: str) -> list[str]:
        """Return the members of a collection that are not wanted, and whose objects stay."""
        found = self._found.get(collection)
        return found.waiting if found is not None else []

    def confirm(self, collection: str) -> None:
        """Record the answer that the list behind the collection exists."""
        if collection in self._found:
            self._found[collection].is_confirmed = True

    def release(self, blueprint: Blueprint) -> None:
        """Release all waiting members at the request of the user, including those that are detected after a restart.

        Without a collection that limits its removals, none can be waiting.
        """
        is_limited = any(each.max_removed is not None for each in blueprint.collections.values())
        self.is_releasing = self.is_releasing or is_limited or bool(blueprint.unresolved)

    def forget(self) -> None:
        """Forget everything: no collection has a limit."""
        self._found.clear()
        self.is_releasing, self.wake_at = False, None

    def holds(self, name: str, blueprint: Blueprint) -> bool:
        """Return whether the objects of a resource that the blueprint does not have stay nevertheless."""
        root = members.root_of(name)
        if root in blueprint.unresolved:
            return True
        found = self._found.get(root)
        return found is not None and name in found.since and name not in found.allowed

    def update(self, blueprint: Blueprint, existing: Mapping[str, Collection[str]], *, now: float) -> set[str]:
        """Decide again; return the members whose objects became obsolete or are no longer obsolete.

        existing: by collection, the members with objects; now: monotonic seconds.
        """
        changed: set[str] = set()
        self.wake_at = None
        before = {name: set(each.waiting) for name, each in self._found.items()}
        for name in list(self._found):
            if name not in existing:
                del self._found[name]
        for name, present in existing.items():
            collection = blueprint.collections.get(name)
            if collection is None or collection.max_removed is None:
                # Without the collection, or without a limit, its objects are treated like objects of any removed
                # resource.
                if self._found.pop(name, None) is not None:
                    changed.update(present)
                continue
            removals = self._found.setdefault(name, Removals())
            self._decide(removals, present, frozenset(collection.members), collection.max_removed, now=now)
            changed |= before.get(name, set()) ^ set(removals.waiting)
        if self.is_releasing and not blueprint.unresolved:
            self.is_releasing = any(each.since for each in self._found.values())
        return changed

    def _decide(
        self,
        removals: Removals,
        present: Collection[str],
        wanted: frozenset[str],
        max_removed: int | str,
        *,
        now: float,
    ) -> None:
        unwanted = {name for name in present if name not in wanted}
        removals.since = {name: removals.since.get(name, now) for name in sorted(unwanted)}
        removals.allowed = unwanted if self.is_releasing else removals.allowed & unwanted
        removals.is_excess = removals.is_full = False
        removals.history = [entry for entry in removals.history if entry[0] > now - WINDOW]
        waiting = removals.waiting
        if not waiting:
            removals.is_confirmed = False
            return
        recent = sum(count for _, count in removals.history)
        removals.is_full = not is_within(len(waiting) + recent, of=len(present) + recent, most=max_removed)
        due = removals.due
        if now < due:
            removals.is_confirmed = False
            self._schedule_wakeup(due)
        elif removals.is_confirmed and not removals.is_full:
            removals.allowed.update(waiting)
            removals.history.append((now, len(waiting)))
        elif removals.is_confirmed:
            removals.is_excess = True
            if removals.history:
                self._schedule_wakeup(removals.history[0][0] + WINDOW)

    def _schedule_wakeup(self, at: float) -> None:
        self.wake_at = at if self.wake_at is None else min(self.wake_at, at)

    def is_full(self, collection: str) -> bool:
        """Return whether more members wait to be removed than allowed, so that none is created."""
        found = self._found.get(collection)
        return found is not None and found.is_full

    def has_turnover(self, collection: str) -> bool:
        """Return whether members were removed recently, or wait to be removed."""
        found = self._found.get(collection)
        return found is not None and bool(found.history or found.since)

    def list_questions(self, *, now: float) -> list[str]:
        """Return the collections that only wait for one answer: whether the list behind them still exists."""
        return [name for name, each in self._found.items() if not each.is_confirmed and now >= each.due]

    def describe(self, request: str) -> Iterator[str]:
        """Describe the objects that stay because too many members disappeared. request: the releasing command."""
        for name, each in sorted(self._found.items()):
            if each.is_excess:
                kept = [members.key_of(member) for member in each.waiting]
                yield (
                    f"{name}: {len(kept)} members are no longer wanted, more than can be removed automatically within ten minutes "
                    f"(updatePolicy.maxRemoved); their objects stay: {enumerate_names(kept)}; to delete them: {request}"
                )


def is_within(number: int, *, of: int, most: int | str) -> bool:
    """Return whether this many of all members may be removed. most: a number or a percentage."""
    if isinstance(most, int):
        return number <= most
    if most == ALL:
        return True
    if of < FEW:
        return number <= 1
    return number <= int(most.removesuffix("%")) * of // 100
