"""Fair queues: namespaces take turns, no matter how much each one enqueues.

All operations take constant time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

RESERVED_FRACTION = 8
"""One place in eight is reserved for members with nothing in progress.

A large Stack whose writes hang in a webhook for half a minute cannot block the others.
"""
RESERVED_FROM = 4
"""Minimum number of places to reserve one; with fewer, a single busy Stack would lose too much."""


def find_share(held: int, *, free: int, most: int) -> int:
    """Return how much of a shared limit one namespace may use: half of the amount that other namespaces leave, but at
    least one.

    held: used by this namespace; free: not used; most: the limit of each namespace. The shares shrink as the limit
    fills up, so that some capacity remains for later namespaces.
    """
    return min(most, max(1, (held + free) // 2)) if free > 0 else min(most, held)


class NamespaceLine:
    """A queue of UIDs where namespaces take turns."""

    def __init__(self) -> None:
        """Create an empty line."""
        self._namespaces: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        """Namespaces in the order of their turns, each with its UIDs in order. No namespace is empty."""

    def __bool__(self) -> bool:
        """Return whether any UID is in line."""
        return bool(self._namespaces)

    def has(self, namespace: str, uid: str) -> bool:
        """Return whether that UID of the namespace is in line."""
        return uid in self._namespaces.get(namespace, ())

    def namespaces(self) -> Iterator[str]:
        """Iterate over the namespaces, in the order of their turns."""
        return iter(self._namespaces)

    def call(self, namespace: str) -> str:
        """Return the first UID of a namespace that is in line, and move the namespace to the end.

        The UID stays in line.
        """
        self._namespaces.move_to_end(namespace)
        return next(iter(self._namespaces[namespace]))

    def add(self, namespace: str, uid: str) -> None:
        """Add a UID at the end of its namespace. A UID that is already in line keeps its place."""
        line = self._namespaces.get(namespace)
        if line is None:
            line = self._namespaces[namespace] = OrderedDict()
        line.setdefault(uid)

    def discard(self, namespace: str, uid: str) -> None:
        """Remove a UID, if it is in line."""
        line = self._namespaces.get(namespace)
        if line is not None:
            line.pop(uid, None)
            if not line:
                del self._namespaces[namespace]

    def pop(self) -> str:
        """Remove and return the first UID of the namespace whose turn it is. Raises KeyError if none is in line."""
        namespace, line = next(iter(self._namespaces.items()))
        uid, _ = line.popitem(last=False)
        if line:
            self._namespaces.move_to_end(namespace)
        else:
            del self._namespaces[namespace]
        return uid


@dataclass(slots=True)
class Namespace:
    """The members of one namespace."""

    name: str
    idle: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """Members in line with nothing in progress, in the order of their turns."""
    busy: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """The other members in line, in the order of their turns."""
    running: int = 0
    line: OrderedDict[str, int] | None = None
    """The line that contains it."""


class FairTurns:
    """Turns for a limited number of concurrent workers: by namespace, and within a namespace by Stack.

    Namespaces and Stacks with nothing in progress come first. A few places are reserved for namespaces with nothing in
    progress, and a few for such Stacks in other namespaces.
    """

    def __init__(self, *, reserve_from: int = RESERVED_FROM) -> None:
        """Create it with nothing in line. reserve_from: with fewer places, none is reserved."""
        self._reserve_from = reserve_from
        self.in_flight = 0
        """Places in use."""
        self._namespaces: dict[str, Namespace] = {}
        """Namespaces with a member in line or in progress."""
        self._members: dict[str, Namespace] = {}
        """The namespace of each member in line."""
        self._running: dict[str, tuple[Namespace, int]] = {}
        """By member: its namespace, and how many places it uses."""
        # The queues of namespaces, each with a number that orders them by waiting time.
        self._fresh: OrderedDict[str, int] = OrderedDict()
        """Namespaces with nothing in progress."""
        self._mixed: OrderedDict[str, int] = OrderedDict()
        """Namespaces with queued members and nothing in progress."""
        self._busy: OrderedDict[str, int] = OrderedDict()
        """Other namespaces."""
        self._number = 0

    def __bool__(self) -> bool:
        """Return whether any member is in line."""
        return bool(self._members)

    def __contains__(self, member: object) -> bool:
        """Return whether the member is in line."""
        return member in self._members

    def add(self, namespace: str, member: str) -> None:
        """Add a member at the end of the line. A member that is already in line keeps its place."""
        if member in self._members:
            return
        running = self._running.get(member)
        found = running[0] if running is not None else self._namespaces.get(namespace)
        if found is None:
            found = self._namespaces[namespace] = Namespace(namespace)
        self._members[member] = found
        (found.idle if running is None else found.busy)[member] = None
        self._place(found)

    def discard(self, member: str) -> None:
        """Remove a member from the queue if it is there; its work in progress continues."""
        found = self._members.pop(member, None)
        if found is not None:
            found.idle.pop(member, None)
            found.busy.pop(member, None)
            self._place(found)

    def take(self, room: int) -> str | None:
        """Remove the member whose turn it is from the line, and count it as in progress.

        Returns None if no member may start.

        room: how many may be in progress at once.
        """
        line = self._find_line(room)
        if line is None:
            return None
        found = self._namespaces[next(iter(line))]
        member, _ = (found.idle or found.busy).popitem(last=False)
        del self._members[member]
        _, count = self._running.get(member, (found, 0))
        self._running[member] = (found, count + 1)
        found.running += 1
        self.in_flight += 1
        self._place(found, is_served=True)
        return member

    def may_take(self, room: int) -> bool:
        """Return whether `take` would return a member."""
        return self._find_line(room) is not None

    def end(self, member: str) -> None:
        """Record that one task of a member has ended."""
        found, count = self._running.pop(member)
        self.in_flight -= 1
        found.running -= 1
        if count > 1:
            self._running[member] = (found, count - 1)
        elif member in found.busy:
            del found.busy[member]
            found.idle[member] = None
        self._place(found)

    def _find_line(self, room: int) -> OrderedDict[str, int] | None:
        """Return the line whose first namespace has the turn."""
        used = self.in_flight
        if self._fresh:
            return self._fresh if used < room else None
        for_namespaces = max(1, room // (2 * RESERVED_FRACTION)) if room >= self._reserve_from else 0
        mixed = self._mixed if self._mixed and used < room - for_namespaces else None
        busy = self._busy if self._busy and used < room - max(for_namespaces, room // RESERVED_FRACTION) else None
        if mixed is None or busy is None:
            return mixed if busy is None else busy
        return mixed if next(iter(mixed.values())) < next(iter(busy.values())) else busy

    def _place(self, found: Namespace, *, is_served: bool = False) -> None:
        """Put a namespace into the right line; at the end if it comes from another line or was served."""
        line: OrderedDict[str, int] | None = None
        if found.idle:
            line = self._mixed if found.running else self._fresh
        elif found.busy:
            line = self._busy
        if line is found.line and not is_served:
            if line is None and not found.running:
                self._namespaces.pop(found.name, None)
            return
        if found.line is not None:
            del found.line[found.name]
        if line is not None:
            self._number += 1
            line[found.name] = self._number
        elif not found.running:
            self._namespaces.pop(found.name, None)
        found.line = line
