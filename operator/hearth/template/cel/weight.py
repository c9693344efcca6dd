"""The size of JSON values, and the reduction of a large one to what an expression reads.

Must not know expressions or limits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from hearth.model import value_class
from hearth.model.child import Path

NODE_BYTES = 64
"""The memory of a value besides its text, in CEL as in Python."""


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
