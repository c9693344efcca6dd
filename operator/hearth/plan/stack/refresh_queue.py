"""Queue of the resources and collections that one refresh plans, in the order of their dependencies."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable

from hearth.model.groups import members
from hearth.template.blueprint import Blueprint


class RefreshQueue:
    """Names of one blueprint, each after everything that it requires."""

    def __init__(self, blueprint: Blueprint, names: Iterable[str] = ()) -> None:
        """Start with these names."""
        self._blueprint = blueprint
        self._heap: list[int] = []
        self._added: set[int] = set()
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Add resources and collections, unless they were added before."""
        for name in names:
            index = self._find_index(name)
            if index not in self._added:
                self._added.add(index)
                heapq.heappush(self._heap, index)

    def repeat(self, resources: Collection[str]) -> None:
        """Add resources even if they were planned before."""
        for name in resources:
            heapq.heappush(self._heap, self._blueprint.resources[name].index)

    def take(self) -> int | None:
        """Remove and return the index of the next name; None at the end."""
        return heapq.heappop(self._heap) if self._heap else None

    def _find_index(self, name: str) -> int:
        if members.is_all(name):
            return self._blueprint.collections[members.root_of(name)].index
        return self._blueprint.resources[name].index


def find_order(blueprint: Blueprint) -> tuple[str, ...]:
    """Return the names of resources, and of collections as a whole, by their index."""
    order = [""] * (len(blueprint.resources) + len(blueprint.collections))
    for name, resource in blueprint.resources.items():
        order[resource.index] = name
    for name, collection in blueprint.collections.items():
        order[collection.index] = members.name_all(name)
    return tuple(order)
