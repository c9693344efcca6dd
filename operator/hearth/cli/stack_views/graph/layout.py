"""Where each node of a graph lies, and the way of each edge: columns from left to right, few crossings, short edges. Pure.

The layered layout of Sugiyama, Tagawa and Toda (1981): an edge over several columns gets a place in each of them, the
order within columns follows the mean position of neighbors, and the heights are the closest to those of the neighbors
that keep the order. Must not know how anything is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hearth.cli.stack_views.graph import column_order
from hearth.cli.stack_views.graph.column_order import Neighbors
from hearth.cli.stack_views.graph.folding import Node
from hearth.cli.stack_views.graph.stack_graph import StackGraph
from hearth.model import value_class

NODE_WIDTH: Final = 280.0
NODE_HEIGHT: Final = 66.0
GAP_WITHIN: Final = 34.0
"""Between an obsolete object and its replacement."""
GAP_BETWEEN: Final = 64.0
"""Between two columns."""
GAP_BELOW: Final = 18.0
LANE_HEIGHT: Final = 12.0
"""The room of an edge that passes a column."""
MARGIN: Final = 12.0
ROUNDS: Final = 4
"""Sweeps over the columns in both directions. Further ones change little."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The place of a node: its left upper corner. All are of the same size."""

    node: Node
    x: float
    y: float
    is_replaced: bool = False
    """Whether it is an obsolete object, with its replacement at the right."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The way of an edge."""

    before: str
    after: str
    points: tuple[tuple[float, float], ...]
    """Start, the two ends of each lane, end: between columns a bow, within a column a straight line."""


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
    lanes = column_order.add_lanes([[node.id for node in column] for column in graph.columns], graph.edges)
    sides = column_order.find_neighbors(lanes.routes)
    ordered = column_order.sort(lanes.columns, *sides, rounds=ROUNDS)
    heights = {
        place: LANE_HEIGHT if column_order.is_lane(place) else NODE_HEIGHT for column in ordered for place in column
    }
    centers = place_vertically(ordered, sides, heights, gap=GAP_BELOW, rounds=ROUNDS)
    widths = [max(map(measure_width, column), default=NODE_WIDTH) for column in graph.columns]
    lefts = [MARGIN + sum(widths[:index]) + index * GAP_BETWEEN for index in range(len(widths))]
    positions = Positions(lefts=lefts, widths=widths, centers={each: at + MARGIN for each, at in centers.items()})
    bottoms = (center + heights[place] / 2 for place, center in positions.centers.items())
    return Layout(
        width=(lefts[-1] + widths[-1] if widths else MARGIN) + MARGIN,
        height=max(bottoms, default=MARGIN) + MARGIN,
        boxes=tuple(make_boxes(graph, positions)),
        curves=tuple(make_curves(graph, lanes.routes, positions)),
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


# The vertical positions of places in ordered columns: as close as possible to those of their neighbors. Pure.


def place_vertically(
    columns: Sequence[Sequence[str]],
    sides: tuple[Neighbors, Neighbors],
    heights: Mapping[str, float],
    *,
    gap: float,
    rounds: int,
) -> dict[str, float]:
    """Return the vertical centers by id; the uppermost place begins at 0.

    sides: the neighbors at the left and at the right; gap: between two places of a column, at least.
    """
    centers: dict[str, float] = {}
    for column in columns:
        centers |= stack(column, dict.fromkeys(column, 0.0), heights, gap=gap)
    for number in range(2 * rounds):
        neighbors = sides[number % 2]
        for column in columns if number % 2 == 0 else reversed(columns):
            wanted = {each: find_mean(each, neighbors, centers) for each in column}
            centers |= stack(column, wanted, heights, gap=gap)
    top = min((center - heights[each] / 2 for each, center in centers.items()), default=0.0)
    return {each: center - top for each, center in centers.items()}


def find_mean(place: str, neighbors: Neighbors, centers: Mapping[str, float]) -> float:
    """Return the mean center of the neighbors; its own if there are none."""
    found = [centers[each] for each in neighbors.get(place, ())]
    return sum(found) / len(found) if found else centers[place]


def stack(
    column: Sequence[str], wanted: Mapping[str, float], heights: Mapping[str, float], *, gap: float
) -> dict[str, float]:
    """Return the centers closest to those wanted (least squares) that keep the order and the gaps.

    Without the heights and gaps above it, each place must not be above its predecessor: an isotonic regression, by
    pooling of adjacent violators.
    """
    offsets, offset = [], 0.0
    pools: list[list[float]] = []  # sum of the wanted positions, and their number
    for index, place_vertically in enumerate(column):
        if index:
            offset += (heights[column[index - 1]] + heights[place_vertically]) / 2 + gap
        offsets.append(offset)
        pools.append([wanted[place_vertically] - offset, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += count
    flat = [total / count for total, count in pools for _ in range(int(count))]
    return {place_vertically: at + offset for place_vertically, at, offset in zip(column, flat, offsets, strict=True)}
