"""A least-recently-used cache, limited by the number and the total weight of its entries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


class WeightedCache(Generic[Key, Entry]):
    """Entries by key."""

    def __init__(self, *, most: int, most_weight: int) -> None:
        """Create the cache; most: entries; most_weight: of all entries, in the unit of their weights."""
        self._most = most
        self._most_weight = most_weight
        self._entries: OrderedDict[Key, tuple[Entry, int]] = OrderedDict()
        self.weight = 0
        """The weight of all entries."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def find(self, key: Key) -> Entry | None:
        """Find the entry, and count it as used now."""
        try:
            self._entries.move_to_end(key)
        except KeyError:
            return None
        return self._entries[key][0]

    def keep(self, key: Key, entry: Entry, *, weight: int) -> Entry:
        """Store an entry, evict others if needed, and return the entry. An entry above the whole limit evicts nothing and is
        not stored.
        """
        if weight > self._most_weight:
            return entry
        _, replaced = self._entries.pop(key, (entry, 0))
        self._entries[key] = entry, weight
        self.weight += weight - replaced
        while len(self._entries) > self._most or self.weight > self._most_weight:
            _, (_, dropped) = self._entries.popitem(last=False)
            self.weight -= dropped
        return entry

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
        self.weight = 0
