"""Topological order of named nodes, each after its requirements, and the cycles that prevent it.

Sorting takes time linear in nodes and edges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from hearth.model import chunked_work
from hearth.model.chunked_work import ChunkedWork

NAMES_IN_A_PIECE = 50
"""Names between two pauses. A name has at most a hundred edges, and usually far fewer."""
Edges: TypeAlias = Mapping[str, Sequence[str]]
"""Required names by name. Names that are not keys of the mapping are ignored."""


def sort(edges: Edges) -> list[str]:
    """Sort the names, each after all its requirements, otherwise in the order of the mapping.

    Names on a cycle, and all names that require them, are omitted. `find_cycles` returns these cycles.
    """
    return chunked_work.finish(sort_in_pieces(edges))


def sort_in_pieces(edges: Edges) -> ChunkedWork[list[str]]:
    """Sort like `sort`, with regular pauses."""
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


def invert_in_pieces(edges: Edges) -> ChunkedWork[dict[str, list[str]]]:
    """Return the dependents of each name without duplicates, in the order of the mapping, with regular pauses."""
    dependents: dict[str, list[str]] = {name: [] for name in edges}
    for number, (name, requires) in enumerate(edges.items()):
        if number % NAMES_IN_A_PIECE == 0:
            yield
        for required in dict.fromkeys(requires):
            if required in dependents:
                dependents[required].append(name)
    return dependents


def find_cycles(edges: Edges) -> list[tuple[str, ...]]:
    """Find cycles so that each name on any cycle is in at least one. Each is a shortest cycle through its first name.

    A cycle `a → b → a` is `("a", "b")`. A name that requires itself is `("a",)`.
    """
    return chunked_work.finish(find_cycles_in_pieces(edges))


def find_cycles_in_pieces(edges: Edges, *, most: int | None = None) -> ChunkedWork[list[tuple[str, ...]]]:
    """Find at most `most` cycles like `find_cycles`, with regular pauses."""
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
    """Format the cycle: `a → b → a`."""
    return " → ".join((*cycle, cycle[0]))


def find_cycle_through(start: str, edges: Edges, knot: Mapping[str, None]) -> tuple[str, ...]:
    """Find a shortest cycle through `start` within its strongly connected component."""
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
    raise ValueError(f"{start!r} is not on a cycle of its component")


def trace(last: str, start: str, came_from: Mapping[str, str]) -> tuple[str, ...]:
    """Return the path from `start` to `last`."""
    way = [last]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))


def find_knots(edges: Edges) -> ChunkedWork[list[dict[str, None]]]:
    """Find the strongly connected components that contain a cycle, by Tarjan's algorithm without recursion.

    Names are in the order of the mapping.
    """
    search = _Search(edges)
    for name in edges:
        if name not in search.number:
            yield from search.run(name)
    position = {name: at for at, name in enumerate(edges)}
    knots = [sorted(knot, key=position.__getitem__) for knot in search.knots]
    return [dict.fromkeys(knot) for knot in sorted(knots, key=lambda knot: position[knot[0]])]


class _Search:
    """Depth-first search of Tarjan's algorithm over all edges.

    A list replaces the call stack, since chains may be long.
    """

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self.number: dict[str, int] = {}
        self.low: dict[str, int] = {}
        self.path: list[str] = []
        self.on_path: set[str] = set()
        self.knots: list[list[str]] = []

    def run(self, start: str) -> ChunkedWork[None]:
        """Visit all nodes that `start` reaches."""
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
        """Number `name` and return the names to visit from it."""
        self.number[name] = self.low[name] = len(self.number)
        self.path.append(name)
        self.on_path.add(name)
        return iter(self.edges[name])

    def is_unseen(self, name: str, required: str) -> bool:
        """Return whether `required` must be visited.

        If it is on the path, update the lowest number that `name` reaches.
        """
        if required in self.on_path:
            self.low[name] = min(self.low[name], self.number[required])
        return required in self.edges and required not in self.number

    def leave(self, name: str) -> None:
        """Remove the component with root `name` from the path, and record it if it contains a cycle."""
        if self.low[name] != self.number[name]:
            return
        members: list[str] = []
        while not members or members[-1] != name:
            members.append(self.path.pop())
            self.on_path.discard(members[-1])
        if len(members) > 1 or name in self.edges[name]:
            self.knots.append(members)
