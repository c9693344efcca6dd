"""The vertical positions of places in ordered columns: as close as possible to those of their neighbors. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hearth.cli.stack_views.graph.column_order import Neighbors


def place(
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
