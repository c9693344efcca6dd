"""The nodes of a Stack's graph in layers: each resource one layer after what it requires, large layers folded. Pure.

Must not know coordinates or how a node is drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hearth.cli import object_fields
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.graph import folding
from hearth.cli.stack_views.graph.folding import Edge, Node
from hearth.cli.stack_views.tree import requirements, stack_view
from hearth.cli.stack_views.tree.resource_state import RowState
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow
from hearth.model import members, value_class
from hearth.plan.environment import environment_rules
from hearth.plan.environment.environment_rules import EnvironmentRule

ID_BYTES: Final = 10
REPLACED_AT_MOST: Final = 2
"""Obsolete objects beside the present object of a resource; a picture of more would be wider than a page."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackGraph:
    """Columns of nodes from left to right, and the edges between them."""

    columns: tuple[tuple[Node, ...], ...]
    edges: tuple[Edge, ...]
    """From each required node to those that require it, without the edges that others imply."""


def describe(
    objects: StackObjects, rows: Sequence[ResourceRow] | None = None, *, expanded: Collection[int] = ()
) -> StackGraph:
    """Return the graph of a Stack. rows: its rows if they are known; expanded: layers that are not folded."""
    rows = stack_view.describe_rows(objects) if rows is None else rows
    parts = divide(objects, rows)
    required = requirements.find_requirements(objects.resources, objects.choose_children())
    edges = list_edges(parts.nodes, required)
    layers = assign_layers(list(parts.nodes.values()), edges)
    if parts.obsolete:
        layers.append(list(parts.obsolete))
    folded = folding.fold(layers, edges, expanded=expanded)
    return StackGraph(columns=folded.columns, edges=reduce_edges(folded.columns, folded.edges))


@dataclass(slots=True)
class Parts:
    """The nodes of a Stack: those of its resources, and those of objects without a resource."""

    nodes: dict[str, Node] = field(default_factory=dict)
    """By resource, in the order of creation."""
    obsolete: list[Node] = field(default_factory=list)


def divide(objects: StackObjects, rows: Sequence[ResourceRow]) -> Parts:
    """Return the nodes of the rows; each replaced object is beside the present one of its resource."""
    rules = find_breakpoints(objects)
    known = set(map(safe_text.one_line, objects.resources))
    parts, seen = Parts(), set[str]()
    for row in rows:
        node = make_node(row, rules)
        if node.id in seen:
            continue  # the same object, in two namespaces: the picture cannot tell them apart
        seen.add(node.id)
        present = parts.nodes.get(row.resource)
        if present is not None and len(present.replaced) < REPLACED_AT_MOST:
            parts.nodes[row.resource] = replace(present, replaced=(*present.replaced, node))
        elif present is not None or (row.state is RowState.OBSOLETE and members.root_of(row.resource) not in known):
            parts.obsolete.append(node)
        else:
            parts.nodes[row.resource] = node
    return parts


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
    """Return an id that stays the same while other resources come and go."""
    text = f"{row.resource}\n{row.object if row.state is RowState.OBSOLETE else ''}"
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=ID_BYTES).hexdigest()


def find_breakpoints(objects: StackObjects) -> Sequence[EnvironmentRule]:
    """Return the breakpoints that the spec states."""
    stated = [
        {"resource": object_fields.text(entry, "resource"), "at": object_fields.texts(entry, "at")}
        for entry in object_fields.entries(objects.stack.spec, "environment", "breakpoints")
    ]
    return environment_rules.parse({"breakpoints": stated}).breakpoints


def list_edges(nodes: Mapping[str, Node], required: Mapping[str, Sequence[str]]) -> list[Edge]:
    """Return the edges, in the order of their ends. Those against the order of creation, on cycles, are omitted.

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
    """Return the nodes in layers: each in the one after the last that it requires."""
    layer = dict.fromkeys((node.id for node in nodes), 0)
    for before, after in edges:
        layer[after] = max(layer[after], layer[before] + 1)
    layers: list[list[Node]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for node in nodes:
        layers[layer[node.id]].append(node)
    return layers


def reduce_edges(columns: Sequence[Sequence[Node]], edges: Collection[Edge]) -> tuple[Edge, ...]:
    """Return the edges without those that a longer path implies."""
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
