"""`kubectl stack graph`: a Stack as a picture, as SVG or in the language of Graphviz or Mermaid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.exit_codes import DONE, FAILED
from hearth.cli.stack_commands.stack_argument import NAME
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState
from hearth.model import members

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@click.command(
    cls=ExampleCommand,
    examples=("kubectl stack graph shop -o svg > shop.svg", "kubectl stack graph shop -o mermaid"),
)
@NAME
@click.option(
    "-o",
    "--output",
    type=click.Choice(["dot", "mermaid", "svg"], case_sensitive=False),
    default="dot",
    show_default=True,
    help="The language.",
)
@cluster_options.cluster_options
def graph(cluster: ClusterOptions, name: str, output: str) -> None:
    """Draw the resources of a Stack with their states; an arrow leads from each to those that require it."""

    async def work(session: Session) -> int:
        from hearth.cli.stack_access import stack_locations
        from hearth.cli.stack_access.stack_reader import StackReader
        from hearth.cli.stack_views.graph import layout, stack_graph, svg_drawing

        location = await stack_locations.locate(session, cluster.find_namespace(), name)
        async with StackReader(session) as reader:
            snapshot = await reader.read(location)
        if snapshot is None:
            cluster_options.complain(cluster_options.describe_absence(location))
            return FAILED
        if output == "svg":
            picture = layout.arrange(stack_graph.describe(snapshot))
            click.echo(svg_drawing.draw(picture, title=f"Resources of {snapshot.stack.title}"))
            return DONE
        draw = to_dot if output == "dot" else to_mermaid
        click.echo("\n".join(draw(snapshot)))
        return DONE

    cluster_options.run(cluster, work)


# A Stack as a graph in the languages of Graphviz and Mermaid. Pure; every text of an object is quoted.

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
    RowState.EXTERNAL: "#00838f",
}
ESCAPES: Final = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "#": "#35;", "\\": "#92;"})
"""Mermaid reads HTML and its own codes in labels."""


def list_edges(objects: StackObjects, rows: tuple[ResourceRow, ...]) -> Iterator[tuple[int, int]]:
    """Yield for each requirement the positions of the required and of the requiring row."""
    positions = {row.resource: index for index, row in enumerate(rows) if row.state is not RowState.OBSOLETE}
    required = objects.find_requirements()
    for name, index in positions.items():
        for each in required.get(members.root_of(name), ()):
            if each in positions:
                yield positions[each], index


def to_dot(objects: StackObjects) -> Iterator[str]:
    """Yield the lines of a graph for Graphviz."""
    rows = stack_view.describe_rows(objects)
    yield f"digraph {quote_dot(objects.stack.name)} {{"
    yield "  rankdir=LR; node [shape=box, style=rounded];"
    for index, row in enumerate(rows):
        label = quote_dot(f"{row.resource}\n{row.object}\n{row.state}")
        yield f'  n{index} [label={label}, color="{COLORS[row.state]}"];'
    yield from (f"  n{before} -> n{after};" for before, after in list_edges(objects, rows))
    yield "}"


def quote_dot(text: str) -> str:
    """Return a quoted string of Graphviz."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def to_mermaid(objects: StackObjects) -> Iterator[str]:
    """Yield the lines of a flowchart for Mermaid."""
    rows = stack_view.describe_rows(objects)
    yield "flowchart LR"
    for index, row in enumerate(rows):
        label = "<br/>".join(str(part).translate(ESCAPES) for part in (row.resource, row.object, row.state) if part)
        yield f'  n{index}["{label}"]:::{row.state}'
    yield from (f"  n{before} --> n{after}" for before, after in list_edges(objects, rows))
    for state in dict.fromkeys(row.state for row in rows):
        yield f"  classDef {state} stroke:{COLORS[state]},stroke-width:2px"
