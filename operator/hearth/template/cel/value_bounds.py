"""Upper bounds of values: of inputs that are measured only when their size matters, and of what is made of them.

A `Meter` adds up what the making costs. Knows the sizes of JSON values in CEL. Must not know the syntax tree, nor what
single functions do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hearth.model import limits
from hearth.template.cel import weight
from hearth.template.cel.weight import Weight

STEP = 0.2
"""Microseconds for one node of the tree."""
TEXT_COPY = 0.0008
"""Microseconds for a byte of text that is copied or compared."""
LOOK = 0.05
"""Microseconds for each candidate value when this module resolves a step."""
NODE_COPY = 0.1
"""Microseconds for a value that is converted or compared."""


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
        """Store the size: nodes: values in it; text: bytes; count: elements of a list or map.

        element: the largest element, None if it is bounded only by the whole; values: the possible values, if known.
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
            self._weight = weight.weigh_largest(self.values or (), most_nodes=limits.WEIGHED_NODES)
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
        """Return its field or element of that name or number; any, if `key` is None."""
        if self.values is None:
            found = self._element
            return found if found is not None else Bound(self.nodes, self.text, self.nodes)
        return Bound.of(list(take(self.values, key)))

    def iterate(self) -> Bound:
        """Return what a loop iterates over: elements of lists, keys of maps."""
        if self.values is None:
            return self.pick()
        found: list[Any] = []
        for each in self.values:
            if isinstance(each, list | dict):
                found += each
        return Bound.of(found)


def take(values: Iterable[Any], key: Any) -> Iterator[Any]:
    """Yield what the values have under that key; everything if `key` is None."""
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
    """Microseconds above which the estimate stops, since it would take as long as the evaluation."""
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

    def resolve(self, found: Bound) -> Bound:
        """Add a step, and the candidate values that were searched to resolve it."""
        self.add(STEP + LOOK * len(found.values or ()))
        return found

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
