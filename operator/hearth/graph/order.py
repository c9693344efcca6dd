"""The order in which named things can be taken, each after all that it requires, and the cycles that forbid one.

Knows names and edges only. Every function costs in the order of nodes and edges (cycles: of those within knots).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from hearth.model import work
from hearth.model.work import ChunkedWork

NAMES_IN_A_PIECE = 50
"""Each has a hundred edges at worst, but few do."""
Edges: TypeAlias = Mapping[str, Sequence[str]]
"""By name what it requires; names that are no key of the mapping are ignored."""


def sort(edges: Edges) -> list[str]:
    """The names, each after all that it requires, otherwise in the order of the mapping.

    Names on a cycle, and all that require them, are left out: ask `find_cycles` for the reason.
    """
    return work.finish(sort_in_pieces(edges))


def sort_in_pieces(edges: Edges) -> ChunkedWork[list[str]]:
    """The same, with a pause now and then."""
    waiting: dict[str, int] = {}
    for name, requires in edges.items():
        waiting[name] = sum(1 for required in set(requires) if required in edges)
        if len(waiting) % NAMES_IN_A_PIECE == 0:
            yield
    dependents = yield from invert_in_pieces(edges)
    ready = deque(name for name, count in waiting.items() if count == 0)
    order: list[str] = []
    while ready:
        name = ready.popleft()
        order.append(name)
        for dependent in dependents[name]:
            waiting[dependent] -= 1
            if waiting[dependent] == 0:
                ready.append(dependent)
        if len(order) % NAMES_IN_A_PIECE == 0:
            yield
    return order


def invert(edges: Edges) -> dict[str, list[str]]:
    """By name what requires it, each once, in the order of the mapping."""
    return work.finish(invert_in_pieces(edges))


def invert_in_pieces(edges: Edges) -> ChunkedWork[dict[str, list[str]]]:
    """The same, with a pause now and then."""
    dependents: dict[str, list[str]] = {name: [] for name in edges}
    for number, (name, requires) in enumerate(edges.items()):
        if number % NAMES_IN_A_PIECE == 0:
            yield
        for required in dict.fromkeys(requires):
            if required in dependents:
                dependents[required].append(name)
    return dependents


def find_cycles(edges: Edges) -> list[tuple[str, ...]]:
    """Cycles such that every name that lies on any cycle is in at least one; each a shortest one through its first name.

    A cycle `a → b → a` is `("a", "b")`, and a name that requires itself `("a",)`.
    """
    return work.finish(find_cycles_in_pieces(edges))


def find_cycles_in_pieces(edges: Edges, *, most: int | None = None) -> ChunkedWork[list[tuple[str, ...]]]:
    """The same, with a pause now and then; no more than `most`."""
    cycles: list[tuple[str, ...]] = []
    for knot in (yield from find_knots(edges)):
        covered: set[str] = set()
        for name in knot:
            if most is not None and len(cycles) >= most:
                return cycles
            if name not in covered:
                yield
                cycle = find_cycle_through(name, edges, knot)
                covered.update(cycle)
                cycles.append(cycle)
    return cycles


def describe(cycle: Sequence[str]) -> str:
    """`a → b → a`."""
    return " → ".join((*cycle, cycle[0]))


def find_cycle_through(start: str, edges: Edges, knot: Mapping[str, None]) -> tuple[str, ...]:
    """A shortest cycle through `start` within its knot."""
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue:
        name = queue.popleft()
        for required in edges[name]:
            if required == start:
                return trace(name, start, came_from)
            if required in knot and required not in came_from:
                came_from[required] = name
                queue.append(required)
    raise ValueError(f"{start!r} is on no cycle of its knot")


def trace(last: str, start: str, came_from: Mapping[str, str]) -> tuple[str, ...]:
    """The way from `start` to `last`."""
    way = [last]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))


def find_knots(edges: Edges) -> ChunkedWork[list[dict[str, None]]]:
    """The strongly connected sets that hold a cycle, names in the order of the mapping (Tarjan, without recursion)."""
    search = _Search(edges)
    for name in edges:
        if name not in search.number:
            yield from search.run(name)
    position = {name: at for at, name in enumerate(edges)}
    knots = [sorted(knot, key=position.__getitem__) for knot in search.knots]
    return [dict.fromkeys(knot) for knot in sorted(knots, key=lambda knot: position[knot[0]])]


class _Search:
    """One depth-first search of Tarjan's over all edges; a list stands for the call stack, since chains may be long."""

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self.number: dict[str, int] = {}
        self.low: dict[str, int] = {}
        self.path: list[str] = []
        self.on_path: set[str] = set()
        self.knots: list[list[str]] = []

    def run(self, start: str) -> ChunkedWork[None]:
        """Visit everything that `start` reaches."""
        calls: list[tuple[str, Iterator[str]]] = [(start, self.enter(start))]
        while calls:
            if len(self.number) % NAMES_IN_A_PIECE == 0:
                yield
            name, rest = calls[-1]
            unseen = next((required for required in rest if self.is_unseen(name, required)), None)
            if unseen is not None:
                calls.append((unseen, self.enter(unseen)))
                continue
            calls.pop()
            if calls:
                parent = calls[-1][0]
                self.low[parent] = min(self.low[parent], self.low[name])
            self.leave(name)

    def enter(self, name: str) -> Iterator[str]:
        """Number `name`; what is to be looked at from there."""
        self.number[name] = self.low[name] = len(self.number)
        self.path.append(name)
        self.on_path.add(name)
        return iter(self.edges[name])

    def is_unseen(self, name: str, required: str) -> bool:
        """Whether `required` must be entered; where it lies on the path, `name` learns how far back it reaches."""
        if required in self.on_path:
            self.low[name] = min(self.low[name], self.number[required])
        return required in self.edges and required not in self.number

    def leave(self, name: str) -> None:
        """Take the set that `name` is the root of off the path, and keep it where it holds a cycle."""
        if self.low[name] != self.number[name]:
            return
        members: list[str] = []
        while not members or members[-1] != name:
            members.append(self.path.pop())
            self.on_path.discard(members[-1])
        if len(members) > 1 or name in self.edges[name]:
            self.knots.append(members)
