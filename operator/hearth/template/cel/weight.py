"""The size of JSON values: its measurement, the reduction of large ones to what is read, and a cache bounded by it.

Must not know expressions or limits.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from hearth.model import value_class
from hearth.model.child import Path

NODE_BYTES = 64
"""The memory of a value besides its text, in CEL as in Python."""
Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


@value_class.dataclass(frozen=True, slots=True)
class Weight:
    """An upper bound of the content of one value."""

    nodes: float
    """Values in it, including itself."""
    text: float
    """Bytes of its strings and keys."""

    @property
    def total(self) -> float:
        """Return the bytes of memory."""
        return self.nodes * NODE_BYTES + self.text


UNKNOWN = Weight(math.inf, math.inf)
SCALARS = frozenset((int, float, bool, type(None)))
"""Classes whose values count as one node. To ask for a class costs a tenth of `isinstance`, and lists have thousands."""


def weigh(value: Any, *, most_nodes: int) -> Weight:
    """Return the weight of a JSON value; UNKNOWN if it has more than `most_nodes`, to keep the measurement cheap."""
    nodes, text = 1, 0
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if found.__class__ in SCALARS:
            continue
        if isinstance(found, str):
            text += len(found) if found.isascii() else len(found.encode(errors="replace"))
            continue
        if isinstance(found, Mapping):
            nodes += 2 * len(found)
            text += sum(map(len, found))
            waiting += found.values()
        elif isinstance(found, list | tuple):
            nodes += len(found)
            waiting += found
        if nodes > most_nodes:
            return UNKNOWN
    return Weight(nodes, text)


def weigh_largest(values: Iterable[Any], *, most_nodes: int) -> Weight:
    """Return a weight that is at least that of each of these values, which may be thousands."""
    nodes, text = 1.0, 0.0
    for each in values:
        if each.__class__ in SCALARS or (each.__class__ is str and 4 * len(each) <= text):
            continue
        found = weigh(each, most_nodes=most_nodes)
        nodes, text = max(nodes, found.nodes), max(text, found.text)
    return Weight(nodes, text)


class Large(dict[str, Any]):
    """The fields of an object that is too large to be passed to CEL as a whole for every expression."""

    __slots__ = ()


def narrow(value: Mapping[str, Any], paths: Collection[Path]) -> Mapping[str, Any]:
    """Return only what lies under `paths`; of a missing path, the existing fields on the way. `()` is all of it."""
    if () in paths:
        return value
    result: dict[str, Any] = {}
    for path in paths:
        take(value, path, into=result)
    return result


def take(value: Mapping[str, Any], path: Path, *, into: dict[str, Any]) -> None:
    """Copy the value at the path, or as many of its parents as exist."""
    source: Any = value
    for key in path[:-1]:
        if key not in source:
            return
        inner = source[key]
        if not isinstance(inner, Mapping):
            into[key] = inner
            return
        source, into = inner, into.setdefault(key, {})
    if path[-1] in source:
        into[path[-1]] = source[path[-1]]


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
        """Store an entry, evict others if needed, and return the entry. One that is too heavy alone is not stored."""
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
