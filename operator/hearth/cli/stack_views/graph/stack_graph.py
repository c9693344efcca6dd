"""A Stack as nodes in layers: each resource is one layer after its requirements, and large layers are folded."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState
from hearth.model import limits, members, object_fields, value_class
from hearth.model.text import enumeration
from hearth.plan.environment import environment_rules
from hearth.plan.environment.environment_rules import EnvironmentRule

Edge: TypeAlias = tuple[str, str]
"""The ids of a required node and of a node that requires it."""
ID_BYTES: Final = 10
REPLACED_AT_MOST: Final = 2
"""Obsolete objects shown next to the current object of a resource; a picture of more would be wider than a page."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One box of the picture: a resource, or several that are folded. All texts are safe to show."""

    id: str
    """Consists of letters, digits and dashes."""
    title: str
    detail: str = ""
    state: RowState
    note: str = ""
    resource: str = ""
    """"" if several are folded."""
    breakpoints: tuple[str, ...] = ()
    """The hooks that stop the resource."""
    replaced: tuple[Node, ...] = ()
    """Its obsolete objects, shown next to the current one."""
    count: int = 1
    """Number of folded resources."""
    layers: tuple[int, int] | None = None
    """The first and last layer of the folded resources, from 0."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackGraph:
    """Columns of nodes from left to right, and the edges between them."""

    columns: tuple[tuple[Node, ...], ...]
    edges: tuple[Edge, ...]
    """From each required node to those that require it."""


def describe(
    objects: StackObjects, rows: Sequence[ResourceRow] | None = None, *, expanded: Collection[int] = ()
) -> StackGraph:
    """Return the graph of a Stack, without edges that other edges imply.

    rows: its rows if they are known; expanded: layers that are not folded.
    """
    nodes, obsolete = make_nodes(objects, stack_view.describe_rows(objects) if rows is None else rows)
    edges = list_edges(nodes, objects.find_requirements())
    layers = assign_layers(list(nodes.values()), edges)
    if obsolete:
        layers.append(obsolete)
    folded = fold(layers, edges, expanded=expanded)
    return replace(folded, edges=reduce_edges(folded.columns, folded.edges))


def make_nodes(objects: StackObjects, rows: Sequence[ResourceRow]) -> tuple[dict[str, Node], list[Node]]:
    """Return the nodes by resource, in the order of creation, and the nodes of objects without a resource.

    Each replaced object is next to the current one of its resource.
    """
    rules = find_breakpoints(objects)
    known = set(map(safe_text.one_line, objects.resources))
    nodes: dict[str, Node] = {}
    obsolete, seen = list[Node](), set[str]()
    for row in rows:
        node = make_node(row, rules)
        if node.id in seen:
            continue  # the same object, in two namespaces: the picture cannot tell them apart
        seen.add(node.id)
        present = nodes.get(row.resource)
        if present is not None and len(present.replaced) < REPLACED_AT_MOST:
            nodes[row.resource] = replace(present, replaced=(*present.replaced, node))
        elif present is not None or (row.state is RowState.OBSOLETE and members.root_of(row.resource) not in known):
            obsolete.append(node)
        else:
            nodes[row.resource] = node
    return nodes, obsolete


def make_node(row: ResourceRow, rules: Sequence[EnvironmentRule]) -> Node:
    """Return the node of one row."""
    hooks = {hook for rule in rules if rule.fits(row.resource) for hook in rule.words}
    return Node(
        id=make_id(row),
        title=row.resource,
        detail=row.object,
        state=row.state,
        note=row.note,
        resource=row.resource,
        breakpoints=tuple(sorted(hooks)),
    )


def make_id(row: ResourceRow) -> str:
    """Return an ID that does not change when other resources are added or removed."""
    text = f"{row.resource}\n{row.object if row.state is RowState.OBSOLETE else ''}"
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=ID_BYTES).hexdigest()


def find_breakpoints(objects: StackObjects) -> Sequence[EnvironmentRule]:
    """Return the breakpoints in the spec."""
    stated = [
        {"resource": object_fields.text(entry, "resource"), "at": object_fields.texts(entry, "at")}
        for entry in object_fields.entries(objects.stack.spec, "environment", "breakpoints")
    ]
    return environment_rules.parse({"breakpoints": stated}).breakpoints


def list_edges(nodes: Mapping[str, Node], required: Mapping[str, Sequence[str]]) -> list[Edge]:
    """Return the edges, in the order of their ends. Edges of cycles that contradict the order of creation are omitted.

    nodes: by resource.
    """
    seen: dict[str, str] = {}
    found = []
    for name, node in nodes.items():
        names = dict.fromkeys(required.get(members.root_of(name), ()))
        found += [(seen[each], node.id) for each in names if each in seen]
        seen[name] = node.id
    return found


def assign_layers(nodes: Sequence[Node], edges: Sequence[Edge]) -> list[list[Node]]:
    """Return the nodes in layers. Each node is in the layer after the last node that it requires."""
    layer = dict.fromkeys((node.id for node in nodes), 0)
    for before, after in edges:
        layer[after] = max(layer[after], layer[before] + 1)
    layers: list[list[Node]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for node in nodes:
        layers[layer[node.id]].append(node)
    return layers


def reduce_edges(columns: Sequence[Sequence[Node]], edges: Collection[Edge]) -> tuple[Edge, ...]:
    """Return the edges that no longer path implies."""
    required: dict[str, list[str]] = {}
    for before, after in edges:
        required.setdefault(after, []).append(before)
    bits = {node.id: 1 << index for index, node in enumerate(each for column in columns for each in column)}
    above: dict[str, int] = {}
    kept: list[Edge] = []
    for node in (each for column in columns for each in column):
        direct = required.get(node.id, [])
        implied = 0
        for each in direct:
            implied |= above[each]
        kept += [(each, node.id) for each in direct if not bits[each] & implied]
        above[node.id] = implied
        for each in direct:
            above[node.id] |= bits[each]
    return tuple(kept)


# Folding: a picture of 2,000 resources shows the ones that need attention, and counts the rest.

SETTLED: Final = stack_view.MET | {RowState.GONE}


def fold(layers: Sequence[Sequence[Node]], edges: Iterable[Edge], *, expanded: Collection[int] = ()) -> StackGraph:
    """Return columns of some ten nodes each, and all edges between them. expanded: the layers whose nodes are all shown."""
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
    return StackGraph(columns=tuple(columns), edges=tuple(kept))


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
    """Return the nodes to show, and for each node id the id of the node that shows it."""
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
    """Return the node that represents several nodes with the same state."""
    return Node(
        id=f"f{span[0]}-{state}",
        title=f"{len(nodes)} resources",
        detail=f"in layers {span[0] + 1} to {span[1] + 1}" if span[0] < span[1] else f"in layer {span[0] + 1}",
        state=state,
        note=enumeration.enumerate_names([node.title for node in nodes], most=stack_view.NAMED_AT_MOST),
        count=len(nodes),
        layers=span,
    )


def measure_need(node: Node) -> int:
    """Return how urgently a node needs attention; 0 if it needs none."""
    if node.state in SETTLED or node.state in (RowState.WAITING, RowState.OBSOLETE):
        return 1 if node.replaced else 0
    return 1 + stack_view.SEVERITY.index(node.state)
