"""The order of places within columns, so that edges cross rarely. Knows ids only. Pure.

An edge over several columns has a lane in each column between. Edges from the same node share their lanes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from hearth.model import value_class

LANE: Final = "lane:"
"""The ids of lanes begin so; those of nodes have no colon."""
Neighbors: TypeAlias = Mapping[str, Sequence[str]]
"""By id of a place, those that it is connected to in the next column of one side."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Columns with lanes, and the places that each edge passes."""

    columns: list[list[str]]
    routes: list[list[str]]
    """From the required node over lanes to the one that requires it."""


def is_lane(place: str) -> bool:
    """Return whether a place is a lane."""
    return place.startswith(LANE)


def add_lanes(columns: Sequence[Sequence[str]], edges: Iterable[tuple[str, str]]) -> Lanes:
    """Return the columns with lanes for all edges that pass a column."""
    number = {place: index for index, column in enumerate(columns) for place in column}
    extended = [list(column) for column in columns]
    known: set[str] = set()
    routes = []
    for before, after in edges:
        passed = range(number[before] + 1, number[after])
        lanes = [f"{LANE}{before}:{index}" for index in passed]
        for index, lane in zip(passed, lanes, strict=True):
            if lane not in known:
                known.add(lane)
                extended[index].append(lane)
        routes.append([before, *lanes, after])
    return Lanes(columns=extended, routes=routes)


def find_neighbors(routes: Iterable[Sequence[str]]) -> tuple[Neighbors, Neighbors]:
    """Return the neighbors in the column at the left, and those in the column at the right."""
    left: dict[str, dict[str, None]] = {}
    right: dict[str, dict[str, None]] = {}
    for route in routes:
        for before, after in itertools.pairwise(route):
            left.setdefault(after, {})[before] = None
            right.setdefault(before, {})[after] = None
    return {place: list(each) for place, each in left.items()}, {place: list(each) for place, each in right.items()}


def sort(columns: Sequence[Sequence[str]], left: Neighbors, right: Neighbors, *, rounds: int) -> list[list[str]]:
    """Return each column in the order of the mean positions of its neighbors, after sweeps in both directions."""
    ordered = [list(column) for column in columns]
    for _ in range(rounds):
        for index in range(1, len(ordered)):
            ordered[index] = sort_column(ordered[index], ordered[index - 1], left)
        for index in range(len(ordered) - 2, -1, -1):
            ordered[index] = sort_column(ordered[index], ordered[index + 1], right)
    return ordered


def sort_column(column: Sequence[str], beside: Sequence[str], neighbors: Neighbors) -> list[str]:
    """Return one column by the mean relative position of its neighbors; a place without any keeps its own."""
    position = {place: (index + 0.5) / len(beside) for index, place in enumerate(beside)}
    wanted = {}
    for index, place in enumerate(column):
        found = [position[each] for each in neighbors.get(place, ())]
        wanted[place] = sum(found) / len(found) if found else (index + 0.5) / len(column)
    return sorted(column, key=lambda place: wanted[place])
