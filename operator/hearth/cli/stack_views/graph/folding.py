"""Folds a graph with many nodes, so that a picture of 2,000 resources shows what needs attention and counts the rest. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

from hearth.cli.stack_views.tree import resource_state, stack_view
from hearth.cli.stack_views.tree.resource_state import RowState
from hearth.model import limits, value_class
from hearth.model.text import enumeration

Edge: TypeAlias = tuple[str, str]
"""The ids of a required node and of one that requires it."""
SETTLED: Final = stack_view.MET | {RowState.GONE}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One box of the picture: a resource, or several that are folded. All texts are safe to show."""

    id: str
    """Of letters, digits and dashes."""
    title: str
    detail: str = ""
    state: RowState
    note: str = ""
    resource: str = ""
    """"" if several are folded."""
    breakpoints: tuple[str, ...] = ()
    """The hooks at which the resource stops."""
    replaced: tuple[Node, ...] = ()
    """Its obsolete objects, shown beside the present one."""
    count: int = 1
    """How many are folded."""
    layers: tuple[int, int] | None = None
    """The first and last layer of folded ones, from 0."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Columns from left to right, and the edges between nodes of different columns."""

    columns: tuple[tuple[Node, ...], ...]
    edges: tuple[Edge, ...]


def fold(layers: Sequence[Sequence[Node]], edges: Iterable[Edge], *, expanded: Collection[int] = ()) -> Folded:
    """Return columns of some ten nodes each. expanded: the layers whose nodes are all shown."""
    columns: list[tuple[Node, ...]] = []
    place: dict[str, tuple[int, str]] = {}
    for span in divide(layers, expanded):
        nodes = [node for layer in layers[span[0] : span[1] + 1] for node in layer]
        most = limits.GRAPH_EXPANDED_NODES if span[0] == span[1] and span[0] in expanded else limits.GRAPH_LAYER_NODES
        shown, shown_as = fold_column(nodes, span, most=most)
        place |= {id_: (len(columns), target) for id_, target in shown_as.items()}
        columns.append(shown)
    ends = ((place[before], place[after]) for before, after in edges)
    kept = dict.fromkeys((before, after) for (left, before), (right, after) in ends if left < right)
    return Folded(columns=tuple(columns), edges=tuple(kept))


def divide(layers: Sequence[Sequence[Node]], expanded: Collection[int]) -> list[tuple[int, int]]:
    """Return the first and last layer of each column: one layer each, or runs of layers if there are too many."""
    numbers = range(len(layers))
    if len(layers) <= limits.GRAPH_COLUMNS:
        return [(number, number) for number in numbers]
    needs = {number: max(map(measure_need, layers[number]), default=0) for number in numbers}
    wanted = [number for number in numbers if needs[number] or number in expanded]
    wanted.sort(key=lambda number: (number in expanded, needs[number]), reverse=True)
    single = set(wanted[: limits.GRAPH_COLUMNS // 2])
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and number not in single and spans[-1][0] not in single:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans


def fold_column(nodes: Sequence[Node], span: tuple[int, int], *, most: int) -> tuple[tuple[Node, ...], dict[str, str]]:
    """Return the nodes to show, and by id of each node that of the one which shows it."""
    if span[0] == span[1] and len(nodes) <= most:
        return tuple(nodes), {node.id: node.id for node in nodes}
    ranked = sorted(nodes, key=measure_need, reverse=True)
    needy = ranked if most == limits.GRAPH_EXPANDED_NODES else list(filter(measure_need, ranked))
    single = {node.id for node in needy[:most]}
    by_state: dict[RowState, list[Node]] = {}
    for node in nodes:
        if node.id not in single:
            by_state.setdefault(node.state, []).append(node)
    shown = [node for node in nodes if node.id in single]
    shown_as = {node.id: node.id for node in shown}
    for state, folded in by_state.items():
        node = folded[0] if len(folded) == 1 else make_fold(state, folded, span)
        shown.append(node)
        shown_as |= {each.id: node.id for each in folded}
    return tuple(shown), shown_as


def make_fold(state: RowState, nodes: Sequence[Node], span: tuple[int, int]) -> Node:
    """Return the node that stands for several of one state."""
    return Node(
        id=f"f{span[0]}-{state}",
        title=f"{len(nodes)} resources",
        detail=f"in layers {span[0] + 1} to {span[1] + 1}" if span[0] < span[1] else f"in layer {span[0] + 1}",
        state=state,
        note=enumeration.enumerate_names([node.title for node in nodes], most=resource_state.NAMED_AT_MOST),
        count=len(nodes),
        layers=span,
    )


def measure_need(node: Node) -> int:
    """Return how much a node needs the attention of a person; 0 if it does not."""
    if node.state in SETTLED or node.state in (RowState.WAITING, RowState.OBSOLETE):
        return 1 if node.replaced else 0
    return 1 + stack_view.SEVERITY.index(node.state)
