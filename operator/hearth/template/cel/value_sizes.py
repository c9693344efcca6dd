"""Measures the sizes of JSON values, computes bounds of derived values and adds up costs.

`Bound` measures an input only if its size matters. `Meter` adds up the costs of an expression's parts. `narrow` reduces
a large object to the paths that an expression reads.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hearth.model import limits, value_class
from hearth.model.child import Path
from hearth.model.chunked_work import ChunkedWork

NODES_IN_A_PIECE = 4_096
"""Number of values that are measured without a pause. This takes a millisecond."""
NODE_BYTES = 64
"""Memory of a value without its text, in CEL as in Python."""
STEP = 0.2
"""Microseconds for one node of the tree."""
TEXT_COPY = 0.0008
"""Microseconds for a byte of text that is copied or compared."""
LOOK = 0.05
"""Microseconds for each candidate value when this module resolves a step."""
NODE_COPY = 0.1
"""Microseconds for a value that is converted or compared."""


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
LONGEST_CHARACTER = 4
"""Bytes of a character in UTF-8."""
LEAF_CLASSES = frozenset((int, float, bool, type(None)))
"""Classes whose values count as one node. Comparing the class takes a tenth of the time of `isinstance`, and lists have
thousands of values."""


def weigh(value: Any, *, most_nodes: int) -> Weight:
    """Return the weight of a JSON value; UNKNOWN if it has more than `most_nodes`, to keep the measurement cheap.

    Also UNKNOWN if a text contains a NUL: CEL sees only the part before it, so that one key can be found as another.
    """
    nodes, text = 1, 0
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if found.__class__ in LEAF_CLASSES:
            continue
        if isinstance(found, str):
            if "\0" in found:
                return UNKNOWN
            text += len(found) if found.isascii() else LONGEST_CHARACTER * len(found)
            continue
        if isinstance(found, Mapping):
            nodes += 2 * len(found)
            keys = "".join(found)
            if "\0" in keys:
                return UNKNOWN
            text += len(keys)
            waiting += found.values()
        elif isinstance(found, list | tuple):
            nodes += len(found)
            waiting += found
        if nodes > most_nodes:
            return UNKNOWN
    return Weight(nodes, text)


def weigh_largest(values: Iterable[Any], *, most_nodes: int) -> Weight:
    """Return a weight that is at least the weight of each of these values, which may be thousands."""
    nodes, text = 1.0, 0.0
    for each in values:
        if each.__class__ in LEAF_CLASSES or (each.__class__ is str and 4 * len(each) <= text):
            continue
        found = weigh(each, most_nodes=most_nodes)
        nodes, text = max(nodes, found.nodes), max(text, found.text)
    return Weight(nodes, text)


def measure_in_pieces(values: Iterable[Any]) -> ChunkedWork[int]:
    """Return the bytes that these values take in memory."""
    size, nodes, waiting = 0, 0, list(values)
    while waiting:
        found = waiting.pop()
        size += NODE_BYTES
        nodes += 1
        if isinstance(found, str):
            size += len(found)
        elif isinstance(found, Mapping):
            size += sum(map(len, found)) + NODE_BYTES * len(found)
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found
        if nodes % NODES_IN_A_PIECE == 0:
            yield
    return size


class Large(dict[str, Any]):
    """The fields of an object that is too large to be passed to CEL as a whole for every expression."""

    __slots__ = ()


def narrow(value: Mapping[str, Any], paths: Collection[Path]) -> Mapping[str, Any]:
    """Return the parts of a value under `paths`. For a missing path, return its existing parents. `()` is the whole
    value.
    """
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


class Bound:
    """The largest value that an expression can have. Inputs are measured only when their size matters."""

    __slots__ = ("_count", "_element", "_weight", "values")

    def __init__(
        self,
        nodes: float,
        text: float,
        count: float,
        element: Bound | None = None,
        values: Sequence[Any] | None = None,
    ) -> None:
        """Store the size.

        nodes: values in it; text: bytes; count: elements of a list or map; element: the largest element, None if only
        the whole bounds it; values: the possible values, if known.
        """
        self._weight: Weight | None = Weight(nodes, text)
        self._count: float | None = count
        self._element = element
        self.values = values

    @classmethod
    def of(cls, values: Sequence[Any]) -> Bound:
        """Return the bound of an input that is any of these values."""
        made = cls(1, 0, 0, None, values)
        made._weight = made._count = None
        return made

    @property
    def weight(self) -> Weight:
        """Return its size."""
        if self._weight is None:
            self._weight = weigh_largest(self.values or (), most_nodes=limits.WEIGHED_NODES)
        return self._weight

    @property
    def count(self) -> float:
        """Return the number of elements of a list or map."""
        if self._count is None:
            self._count = max((len(each) for each in self.values or () if isinstance(each, list | dict)), default=0)
        return self._count

    @property
    def nodes(self) -> float:
        """Return the number of values in it."""
        return self.weight.nodes

    @property
    def text(self) -> float:
        """Return the bytes of text in it."""
        return self.weight.text

    @property
    def total(self) -> float:
        """Return its bytes."""
        return self.weight.total

    @property
    def copy_time(self) -> float:
        """Return the microseconds to copy or compare all of it."""
        return self.nodes * NODE_COPY + self.text * TEXT_COPY

    @property
    def constant(self) -> Any:
        """Return the value, if there is only one."""
        return self.values[0] if self.values is not None and len(self.values) == 1 else None

    def pick(self, key: Any = None) -> Bound:
        """Return its field or element with that name or number; any, if `key` is None."""
        if self.values is None:
            found = self._element
            return found if found is not None else Bound(self.nodes, self.text, self.nodes)
        return Bound.of(list(pick_from(self.values, key)))

    def iterate(self) -> Bound:
        """Return the items of a loop: elements of lists, keys of maps."""
        if self.values is None:
            return self.pick()
        found: list[Any] = []
        for each in self.values:
            if isinstance(each, list | dict):
                found += each
        return Bound.of(found)


def pick_from(values: Iterable[Any], key: Any) -> Iterator[Any]:
    """Yield the entries of the values under that key; all entries if `key` is None.

    CEL also accepts a fraction as a number, for example 1.0, so any entry may be meant.
    """
    if isinstance(key, float):
        key = None
    for value in values:
        if isinstance(value, dict):
            if key is None:
                yield from value.values()
            elif key in value:
                yield value[key]
        elif isinstance(value, list):
            if key is None:
                yield from value
            elif isinstance(key, int) and 0 <= key < len(value):
                yield value[key]


SCALAR = Bound(1, 0, 0)


def make_usual(nodes: float, text: float, count: float) -> Bound:
    """Make an object whose parts may all be as large as the whole, with so many elements in each of its lists."""
    made = Bound(nodes, text, count)
    made._element = made  # noqa: SLF001 -- as the name says
    return made


class TooMuch(Exception):
    """The bound exceeds the limit, so that its exact value does not matter."""


@dataclass(slots=True)
class Meter:
    """The sum of the costs of an expression's parts."""

    most: float
    """Microseconds above which the estimate stops, because it would take as long as the evaluation."""
    time: float = 0.0
    """Microseconds."""
    memory: float = 0.0
    """Bytes, as if no memory was freed before the end."""

    def add(self, time: float, memory: float = 0.0) -> None:
        """Add a cost. Raises TooMuch."""
        self.time += time
        self.memory += memory
        if self.time > self.most:
            raise TooMuch

    def pick(self, over: Bound, key: Any = None) -> Bound:
        """Add a step and the candidate values that are searched to resolve it; return `over.pick(key)`."""
        self.look(over)
        found = over.pick(key)
        if key is None:
            self.look(found)
        return found

    def look(self, over: Bound) -> None:
        """Add a step, and a search of the candidate values."""
        self.add(STEP + LOOK * len(over.values or ()))

    def make(self, made: Bound, *, time: float = 0.0) -> Bound:
        """Add the creation of a new value."""
        self.add(made.copy_time + time, made.total)
        return made


def widest(bounds: Any) -> Bound:
    """Return a bound that is at least as large as each of them."""
    nodes, text, count = 1.0, 0.0, 0.0
    for each in bounds:
        nodes, text, count = max(nodes, each.nodes), max(text, each.text), max(count, each.count)
    return Bound(nodes, text, count)


def join(*bounds: Bound) -> Bound:
    """Return the bound of their concatenation."""
    return Bound(
        sum(each.nodes for each in bounds), sum(each.text for each in bounds), sum(each.count for each in bounds)
    )
