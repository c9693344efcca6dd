"""Detects circles of Stacks that read each other's objects, and collections that grow from their own members.

A circle between Stacks only causes a warning, because most circles converge. A collection whose list contains objects
that are made from its own members might grow forever, so its number of members is limited.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from hearth.model import value_class
from hearth.model.kinds import ObjectRef
from hearth.model.packing import NOTHING

Maker: TypeAlias = tuple[str, str]
"""The creator of an object: the UID of a Stack, and the name of a resource in its template; "" for any resource."""

NO_STACKS = frozenset[str]()
MOST_READ: Final = 1_000
"""Maximum number of Stacks, or of resources that read something, that a search visits. A circle has two or three."""
GROWN_MEMBERS: Final = 32
"""Number of members that may be made from one another. Stacks that exchange a list have fewer."""
MEMBERS_FOR_EACH: Final = 2
"""Number of additional members for each listed object that is not made from the members."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class GrowingCollection:
    """A collection whose list contains objects that are made from its own members."""

    most: int
    """Maximum number of members."""
    stacks: tuple[str, ...]
    """The sorted UIDs of the Stacks that created these objects."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackReading:
    """The objects of Stacks that one Stack reads."""

    stacks: frozenset[str] = NO_STACKS
    """The Stacks whose objects this Stack reads or waits for."""
    makers: Mapping[str, frozenset[Maker]] = field(default_factory=dict)
    """By resource: the creators of the objects that it is made from, as far as signatures prove them."""
    nested: Mapping[str, str] = field(default_factory=dict)
    """The resource name of each nested Stack, by UID of the nested Stack."""
    is_complete: bool = True
    """Whether all objects that the Stack reads are known."""


NO_READING: Final = StackReading()


class OtherStacks(Protocol):
    """Looks up Stacks that other Stacks read."""

    def find_parent(self, uid: str) -> str:
        """Return the UID of the Stack in which the given one is nested, or ""."""

    def is_awaited(self, uid: str) -> bool:
        """Return whether this process is about to load it."""


@dataclass(slots=True)
class ReadCircles:
    """The Stacks that each loaded Stack reads, to detect circles. Stores only UIDs and names of resources."""

    _readings: dict[str, StackReading] = field(default_factory=dict)
    """What each Stack reads, by UID."""
    _limited: dict[str, frozenset[str]] = field(default_factory=dict)
    """By UID of a Stack with a limited collection: the Stacks of that circle."""
    _waiting: dict[str, frozenset[ObjectRef]] = field(default_factory=dict)
    """By UID of a Stack that waits for objects to read: the objects that do not exist."""

    @property
    def waiting(self) -> Mapping[str, frozenset[ObjectRef]]:
        """Return the first `MOST_READ` Stacks that wait for objects to read, with the objects that do not exist."""
        return dict(itertools.islice(self._waiting.items(), MOST_READ))

    def note_waiting(self, uid: str, missing: frozenset[ObjectRef] | None) -> bool:
        """Record the missing objects that a Stack waits to read, None if it does not wait; return whether that changed."""
        if self._waiting.get(uid) == missing:
            return False
        if missing is None:
            del self._waiting[uid]
        else:
            self._waiting[uid] = missing
        return True

    def note(self, uid: str, reading: StackReading | None) -> set[str]:
        """Record what a Stack reads, None if it is not loaded; return the other Stacks whose circles changed."""
        known = self._readings.get(uid)
        if known == reading:
            return set()
        before = self.find(uid)
        if reading is None:
            self._readings.pop(uid, None)
            self._limited.pop(uid, None)
        else:
            self._readings[uid] = reading
        concerned = {each for each, circle in self._limited.items() if uid in circle}
        return (set(before) ^ set(self.find(uid))) | concerned - {uid}

    def find(self, uid: str) -> tuple[str, ...]:
        """Return the Stacks of a shortest circle, starting with one that this Stack reads; () if there is no circle."""
        if uid not in self._readings:
            return ()
        came_from: dict[str, str] = {}
        layer = [uid]
        while layer and len(came_from) < MOST_READ:
            next_layer = []
            for each in layer:
                for read in sorted(self._readings.get(each, NO_READING).stacks - {each}):
                    if read == uid:
                        return retrace(each, uid, came_from)
                    if read not in came_from:
                        came_from[read] = each
                        next_layer.append(read)
            layer = next_layer
        return ()

    def find_growing(
        self,
        uid: str,
        listed: Mapping[Maker | None, int],
        *,
        live: Iterable[str],
        given: Iterable[str],
        others: OtherStacks,
    ) -> dict[str, GrowingCollection]:
        """Find the collections of a Stack whose lists contain objects that are made from their own members.

        listed: the number of listed objects by creator; live: the collections made from these lists; given: the
        collections whose elements may come from the parent Stack.
        """
        found: dict[str, GrowingCollection] = {}
        circle: set[str] = set()
        for root in (*live, *given):
            feeding = self._find_feeding((uid, root), others)
            # Elements from the parent Stack have no recorded creators, so everything that feeds the collection counts.
            inside = feeding & listed.keys() if root in live else feeding
            if inside:
                outside = sum(number for maker, number in listed.items() if maker not in inside) if root in live else 0
                stacks = tuple(sorted({stack for stack, _ in inside}))
                found[root] = GrowingCollection(most=GROWN_MEMBERS + MEMBERS_FOR_EACH * outside, stacks=stacks)
                circle.update(stack for stack, _ in feeding)
        if found:
            self._limited[uid] = frozenset(circle - {uid})
        else:
            self._limited.pop(uid, None)
        return found

    def _find_feeding(self, goal: Maker, others: OtherStacks) -> set[Maker]:
        """Return the creators of objects for the goal that are themselves made from objects of the goal."""
        readers: dict[Maker, list[Maker]] = {}
        seen, waiting, number = {goal}, [goal], 0
        while waiting and number < MOST_READ:
            each = waiting.pop()
            # Until a Stack is loaded, assume that it reads objects of the goal.
            reading = self._readings.get(each[0])
            is_known = reading.is_complete if reading is not None else not others.is_awaited(each[0])
            makers = self._find_makers(each, others) if is_known else frozenset({goal})
            number += bool(makers)
            for maker in makers:
                readers.setdefault(maker, []).append(each)
                if maker not in seen:
                    seen.add(maker)
                    waiting.append(maker)
        if waiting:
            # The search was cut off, so assume that every visited creator uses objects of the goal.
            return seen
        feeding: set[Maker] = set()
        waiting = [each for each in (goal, (goal[0], "")) if each in readers]
        while waiting:
            each = waiting.pop()
            if each not in feeding:
                feeding.add(each)
                waiting.extend(readers.get(each, ()))
        return feeding

    def _find_makers(self, reader: Maker, others: OtherStacks) -> frozenset[Maker]:
        """Return the creators of the objects that a resource is made from."""
        uid, root = reader
        makers = self._readings.get(uid, NO_READING).makers
        found = makers.get(root, NOTHING) if root else frozenset[Maker]().union(*makers.values())
        if parent := others.find_parent(uid):
            # The parent Stack makes the definition of a nested Stack.
            found |= {(parent, self._readings.get(parent, NO_READING).nested.get(uid, ""))}
        return found


def retrace(last: str, uid: str, came_from: Mapping[str, str]) -> tuple[str, ...]:
    """Return the path to the last Stack, without its start."""
    way = []
    while last != uid:
        way.append(last)
        last = came_from[last]
    return tuple(reversed(way))
