"""A cache that is bounded by what its entries weigh; what was not used for longest goes first. Knows no contents."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


class WeightedCache(Generic[Key, Entry]):
    """Entries by key."""

    def __init__(self, *, most: int, most_weight: int) -> None:
        """most: entries; most_weight: of all of them, in whatever unit their weights have."""
        self._most = most
        self._most_weight = most_weight
        self._entries: OrderedDict[Key, tuple[Entry, int]] = OrderedDict()
        self.weight = 0
        """Of all entries."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._entries)

    def find(self, key: Key) -> Entry | None:
        """The entry, which counts as used now."""
        try:
            self._entries.move_to_end(key)
        except KeyError:
            return None
        return self._entries[key][0]

    def keep(self, key: Key, entry: Entry, *, weight: int) -> Entry:
        """Keep an entry at the expense of others, unless it alone is too heavy; the entry."""
        self._entries[key] = entry, weight
        self.weight += weight
        while self._entries and (len(self._entries) > self._most or self.weight > self._most_weight):
            _, (_, dropped) = self._entries.popitem(last=False)
            self.weight -= dropped
        return entry

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
        self.weight = 0
