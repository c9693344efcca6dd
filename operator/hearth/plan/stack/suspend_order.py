"""In which order resources are suspended: one goes down once all that require it are down, whatever lies between them.

Follows what the objects themselves record of what they require, as a deletion does. Incremental: a change costs what hangs
on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class SuspendOrder:
    """Which resources run something yet, and which of them may be suspended now."""

    running: dict[str, None] = field(default_factory=dict)
    """The resources of which something runs."""
    changed: set[str] = field(default_factory=set)
    """Those that may go now, or must not any more, since somebody last emptied this set."""
    _requires: dict[str, frozenset[str]] = field(default_factory=dict)
    """By resource the others that its objects were made of."""
    _above: dict[str, int] = field(default_factory=dict)
    """By resource the number of those that require it and are not down, with all above them."""
    _free: set[str] = field(default_factory=set)
    """Those of `running` that nothing above holds."""

    def update(self, name: str, requires: frozenset[str], *, is_running: bool) -> None:
        """Take in how it stands with the objects of a resource."""
        requires = requires - {name}
        known = self._requires.get(name, frozenset())
        if known == requires and is_running == (name in self.running):
            return
        # What it weighed on others is taken back first: in a circle that comes round to itself.
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

    def may_suspend(self, name: str) -> bool:
        """Whether the resource may be suspended now.

        Objects that require each other in a circle (records of revisions that turned a dependency round) would wait for
        each other for ever; where nothing else is left they all go.
        """
        return name in self._free if self._free else name in self.running

    def take_changed(self) -> set[str]:
        """What is to be looked at again, which then counts as seen."""
        changed, self.changed = self.changed, set()
        return changed

    def _is_down(self, name: str) -> bool:
        return name not in self.running and not self._above.get(name)

    def _weigh(self, names: frozenset[str], weight: int) -> None:
        """Something above these went down (-1) or came up (1); what that means for all below them."""
        queue = [(name, weight) for name in names]
        while queue:
            name, by = queue.pop()
            was_down = self._is_down(name)
            self._above[name] = self._above.get(name, 0) + by
            self._settle(name)
            if was_down != self._is_down(name):
                queue += [(below, 1 if was_down else -1) for below in self._requires.get(name, ())]

    def _settle(self, name: str) -> None:
        """Put a resource among those that may go, or take it out."""
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
