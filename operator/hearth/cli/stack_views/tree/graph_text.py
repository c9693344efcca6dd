"""A Stack as a graph in the languages of Graphviz and Mermaid. Pure; every text of an object is quoted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hearth.cli.stack_views.tree import requirements, stack_view
from hearth.cli.stack_views.tree.resource_state import RowState
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow
from hearth.model.groups import members

COLORS: Final = {
    RowState.READY: "#2e7d32",
    RowState.PROGRESSING: "#f9a825",
    RowState.WAITING: "#9e9e9e",
    RowState.STOPPED: "#ef6c00",
    RowState.FAILED: "#c62828",
    RowState.EXCLUDED: "#bdbdbd",
    RowState.OBSOLETE: "#8e24aa",
    RowState.GONE: "#bdbdbd",
    RowState.FINISHED: "#558b2f",
}
ESCAPES: Final = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "#": "#35;", "\\": "#92;"})
"""Mermaid reads HTML and its own codes in labels."""


def list_edges(snapshot: StackObjects, rows: tuple[ResourceRow, ...]) -> Iterator[tuple[int, int]]:
    """Yield for each requirement the positions of the required and of the requiring row."""
    positions = {row.resource: index for index, row in enumerate(rows) if row.state is not RowState.OBSOLETE}
    required = requirements.find_requirements(snapshot.resources, snapshot.choose_children())
    for name, index in positions.items():
        for each in required.get(members.root_of(name), ()):
            if each in positions:
                yield positions[each], index


def to_dot(snapshot: StackObjects) -> Iterator[str]:
    """Yield the lines of a graph for Graphviz."""
    rows = stack_view.describe_rows(snapshot)
    yield f"digraph {quote_dot(snapshot.stack.name)} {{"
    yield "  rankdir=LR; node [shape=box, style=rounded];"
    for index, row in enumerate(rows):
        label = quote_dot(f"{row.resource}\n{row.object}\n{row.state}")
        yield f'  n{index} [label={label}, color="{COLORS[row.state]}"];'
    yield from (f"  n{before} -> n{after};" for before, after in list_edges(snapshot, rows))
    yield "}"


def quote_dot(text: str) -> str:
    """Return a quoted string of Graphviz."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def to_mermaid(snapshot: StackObjects) -> Iterator[str]:
    """Yield the lines of a flowchart for Mermaid."""
    rows = stack_view.describe_rows(snapshot)
    yield "flowchart LR"
    for index, row in enumerate(rows):
        label = "<br/>".join(str(part).translate(ESCAPES) for part in (row.resource, row.object, row.state) if part)
        yield f'  n{index}["{label}"]:::{row.state}'
    yield from (f"  n{before} --> n{after}" for before, after in list_edges(snapshot, rows))
    for state in dict.fromkeys(row.state for row in rows):
        yield f"  classDef {state} stroke:{COLORS[state]},stroke-width:2px"
