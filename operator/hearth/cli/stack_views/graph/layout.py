"""Positions the nodes and edges of a graph: columns from left to right, few crossings and short edges.

It is the layered layout of Sugiyama, Tagawa and Toda (1981). An edge across several columns gets a lane in each of
them. Nodes in a column are ordered by the mean position of their neighbors. Their heights are as close to those of
their neighbors as the order permits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from hearth.cli.stack_views.graph.stack_graph import Node, StackGraph
from hearth.model import value_class

NODE_WIDTH: Final = 280.0
NODE_HEIGHT: Final = 66.0
GAP_WITHIN: Final = 34.0
"""Between an obsolete object and its replacement."""
GAP_BETWEEN: Final = 64.0
"""Between two columns."""
GAP_BELOW: Final = 18.0
"""Minimum distance between two places of a column."""
LANE_HEIGHT: Final = 12.0
"""Space for an edge that passes a column."""
MARGIN: Final = 12.0
ROUNDS: Final = 4
"""Sweeps over the columns in both directions. Further ones change little."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The top left corner of a node. All nodes have the same size."""

    node: Node
    x: float
    y: float
    is_replaced: bool = False
    """Whether it is an obsolete object, with its replacement at the right."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The path of an edge."""

    before: str
    after: str
    points: tuple[tuple[float, float], ...]
    """Start, the two ends of each lane, end. The path is curved between columns and straight within a column."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A picture's size, nodes and edges."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """The left edge and width of each column, and the vertical center of each node and lane."""

    lefts: Sequence[float]
    widths: Sequence[float]
    centers: Mapping[str, float]


def arrange(graph: StackGraph) -> Layout:
    """Return the layout of a graph. The same graph always has the same layout."""
    columns, routes = add_lanes([[node.id for node in column] for column in graph.columns], graph.edges)
    sides = find_neighbors(routes)
    ordered = sort_columns(columns, *sides)
    heights = {place: LANE_HEIGHT if place.startswith(LANE) else NODE_HEIGHT for column in ordered for place in column}
    centers = place_vertically(ordered, sides, heights)
    widths = [max(map(measure_width, column), default=NODE_WIDTH) for column in graph.columns]
    lefts = [MARGIN + sum(widths[:index]) + index * GAP_BETWEEN for index in range(len(widths))]
    positions = Positions(lefts=lefts, widths=widths, centers={each: at + MARGIN for each, at in centers.items()})
    bottoms = (center + heights[place] / 2 for place, center in positions.centers.items())
    return Layout(
        width=(lefts[-1] + widths[-1] if widths else MARGIN) + MARGIN,
        height=max(bottoms, default=MARGIN) + MARGIN,
        boxes=tuple(make_boxes(graph, positions)),
        curves=tuple(make_curves(graph, routes, positions)),
    )


def measure_width(node: Node) -> float:
    """Return the width of a node with the objects that it replaces."""
    return NODE_WIDTH + len(node.replaced) * (NODE_WIDTH + GAP_WITHIN)


def make_boxes(graph: StackGraph, positions: Positions) -> Iterator[Box]:
    """Yield the boxes, column by column from top to bottom. Replaced objects are at the left of their node."""
    for left, column in zip(positions.lefts, graph.columns, strict=True):
        for node in sorted(column, key=lambda each: positions.centers[each.id]):
            top = positions.centers[node.id] - NODE_HEIGHT / 2
            for index, replaced in enumerate(node.replaced):
                yield Box(node=replaced, x=left + index * (NODE_WIDTH + GAP_WITHIN), y=top, is_replaced=True)
            yield Box(node=node, x=left + measure_width(node) - NODE_WIDTH, y=top)


def make_curves(graph: StackGraph, routes: Sequence[Sequence[str]], positions: Positions) -> Iterator[Curve]:
    """Yield the curve of each route: from the right edge of a node, straight through lanes, to the left edge of another."""
    nodes = {node.id: (number, node) for number, column in enumerate(graph.columns) for node in column}
    for route in routes:
        first, start = nodes[route[0]]
        points = [(positions.lefts[first] + measure_width(start), positions.centers[start.id])]
        for number, lane in enumerate(route[1:-1], start=first + 1):
            left, center = positions.lefts[number], positions.centers[lane]
            points += [(left, center), (left + positions.widths[number], center)]
        last, _ = nodes[route[-1]]
        points.append((positions.lefts[last], positions.centers[route[-1]]))
        yield Curve(before=route[0], after=route[-1], points=tuple(points))


# The order of places within columns. An edge over several columns has a lane in each column between; edges from the same
# node share their lanes. Knows ids only.

LANE: Final = "lane:"
"""Prefix of lane ids; ids of nodes have no colon."""
Neighbors: TypeAlias = Mapping[str, Sequence[str]]
"""By id of a place, its connected places in the adjacent column on one side."""


def add_lanes(
    columns: Sequence[Sequence[str]], edges: Iterable[tuple[str, str]]
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the columns with lanes for all edges that pass a column, and the route of each edge.

    A route leads from the required node through lanes to the requiring node.
    """
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
    return extended, routes


def find_neighbors(routes: Iterable[Sequence[str]]) -> tuple[Neighbors, Neighbors]:
    """Return the neighbors in the column at the left, and those in the column at the right."""
    left: dict[str, dict[str, None]] = {}
    right: dict[str, dict[str, None]] = {}
    for route in routes:
        for before, after in itertools.pairwise(route):
            left.setdefault(after, {})[before] = None
            right.setdefault(before, {})[after] = None
    return {place: list(each) for place, each in left.items()}, {place: list(each) for place, each in right.items()}


def sort_columns(columns: Sequence[Sequence[str]], left: Neighbors, right: Neighbors) -> list[list[str]]:
    """Return each column in the order of the mean positions of its neighbors, after sweeps in both directions."""
    ordered = [list(column) for column in columns]
    for _ in range(ROUNDS):
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


# Vertical positions of places in ordered columns: as close as possible to their neighbors.


def place_vertically(
    columns: Sequence[Sequence[str]], sides: tuple[Neighbors, Neighbors], heights: Mapping[str, float]
) -> dict[str, float]:
    """Return the vertical centers by id; the uppermost place begins at 0. sides: neighbors at the left, at the right."""
    centers: dict[str, float] = {}
    for column in columns:
        centers |= stack(column, dict.fromkeys(column, 0.0), heights, gap=GAP_BELOW)
    for number in range(2 * ROUNDS):
        neighbors = sides[number % 2]
        for column in columns if number % 2 == 0 else reversed(columns):
            wanted = {each: find_mean(each, neighbors, centers) for each in column}
            centers |= stack(column, wanted, heights, gap=GAP_BELOW)
    top = min((center - heights[each] / 2 for each, center in centers.items()), default=0.0)
    return {each: center - top for each, center in centers.items()}


def find_mean(place: str, neighbors: Neighbors, centers: Mapping[str, float]) -> float:
    """Return the mean center of the neighbors, or the place's own center without neighbors."""
    found = [centers[each] for each in neighbors.get(place, ())]
    return sum(found) / len(found) if found else centers[place]


def stack(
    column: Sequence[str], wanted: Mapping[str, float], heights: Mapping[str, float], *, gap: float
) -> dict[str, float]:
    """Return the centers closest to the wanted ones (least squares) that keep the order and the gaps.

    After subtracting the heights and gaps above, no place may be above its predecessor. This is an isotonic regression,
    solved by pooling adjacent violators.
    """
    offsets, offset = [], 0.0
    pools: list[list[float]] = []  # sum of the wanted positions, and their number
    for index, place in enumerate(column):
        if index:
            offset += (heights[column[index - 1]] + heights[place]) / 2 + gap
        offsets.append(offset)
        pools.append([wanted[place] - offset, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += count
    flat = [total / count for total, count in pools for _ in range(int(count))]
    return {place: at + offset for place, at, offset in zip(column, flat, offsets, strict=True)}
