"""Order of suspension: a resource is scaled down after all its direct and indirect dependents.

Uses the dependencies recorded on the objects, as a deletion does. Incremental: a change costs only its dependencies.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from hearth.graph import order
from hearth.model import chunked_work, members


@dataclass(slots=True)
class SuspendOrder:
    """Resources that still run, and those of them that may be suspended now."""

    running: dict[str, None] = field(default_factory=dict)
    """The resources that still run."""
    changed: set[str] = field(default_factory=set)
    """Resources that became suspendable, or no longer are, since the planner last emptied this set."""
    _requires: dict[str, AbstractSet[str]] = field(default_factory=dict)
    """The resources that the objects of each resource were made from. All members of a collection as a whole, which is
    one name here, are among those that it requires."""
    _above: dict[str, int] = field(default_factory=dict)
    """The number of direct dependents, by resource, that still run or have a direct or indirect dependent that runs."""
    _free: set[str] = field(default_factory=set)
    """The resources in `running` that no dependent blocks."""
    _heads: set[str] | None = None
    """See `_find_heads`; None if unknown."""

    def update(self, name: str, requires: frozenset[str], *, is_running: bool) -> None:
        """Update dependencies and running state of a resource."""
        requires = requires - {name}
        if members.is_member(name):
            self._join(name, members.name_all(members.root_of(name)))
        known = self._requires.get(name, frozenset())
        if known == requires and is_running == (name in self.running):
            return
        self._forget_heads()
        # Remove its weight on others first: in a dependency cycle, that weight returns to itself.
        was_down = self._is_down(name)
        self._requires[name] = frozenset()
        if not was_down:
            self._weigh(known, -1)
        if is_running:
            self.running[name] = None
        else:
            self.running.pop(name, None)
        self._settle(name)
        self._requires[name] = requires
        if not self._is_down(name):
            self._weigh(requires, 1)

    def _join(self, name: str, collection: str) -> None:
        """Add a member to its collection as a whole, whose dependents are then its own."""
        joined = self._requires.setdefault(collection, set())
        if isinstance(joined, set) and name not in joined:
            self._forget_heads()
            joined.add(name)
            if not self._is_down(collection):
                self._weigh((name,), 1)

    def may_suspend(self, name: str) -> bool:
        """Return whether the resource may be suspended now.

        Objects in a dependency cycle (records of revisions that reversed a dependency) would block each other forever.
        If only such objects and what they require are left, each cycle that nothing else requires may be suspended.
        """
        return name in (self._free or self._find_heads())

    def _find_heads(self) -> set[str]:
        """Return the running resources that no running one requires, directly or indirectly, outside of a cycle of both."""
        if self._heads is None:
            requires = {name: tuple(required) for name, required in self._requires.items()}
            knots = {name: knot for knot in chunked_work.finish(order.find_knots(requires)) for name in knot}
            blocked: set[str] = set()
            for name in self.running:
                knot = knots.get(name, {name: None})
                below = {required for each in knot for required in requires.get(each, ()) if required not in knot}
                while below:
                    blocked |= below
                    below = {required for each in below for required in requires.get(each, ())} - blocked
            self._heads = {name for name in self.running if name not in blocked}
        return self._heads

    def _forget_heads(self) -> None:
        """Find the resources in cycles again, since others may go now."""
        if self._heads is not None:
            self.changed.update(self.running)
            self._heads = None

    def take_changed(self) -> set[str]:
        """Return the resources to refresh, and clear the set."""
        changed, self.changed = self.changed, set()
        return changed

    def _is_down(self, name: str) -> bool:
        return name not in self.running and not self._above.get(name)

    def _weigh(self, names: Iterable[str], weight: int) -> None:
        """Count a dependent of `names` that went down (-1) or came up (1), and propagate that to all below them."""
        queue = [(name, weight) for name in names]
        while queue:
            name, by = queue.pop()
            was_down = self._is_down(name)
            self._above[name] = self._above.get(name, 0) + by
            self._settle(name)
            if was_down != self._is_down(name):
                queue += [(below, 1 if was_down else -1) for below in self._requires.get(name, ())]

    def _settle(self, name: str) -> None:
        """Add a resource to `_free`, or remove it."""
        is_free = name in self.running and not self._above.get(name)
        if is_free == (name in self._free):
            return
        self.changed.add(name)
        if is_free:
            self._free.add(name)
            if len(self._free) == 1:
                self.changed.update(self.running)
        else:
            self._free.discard(name)
            if not self._free:
                self.changed.update(self.running)
