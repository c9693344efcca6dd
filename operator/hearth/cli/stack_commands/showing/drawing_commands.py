"""`kubectl stack tree`, `graph` and `ui`: a Stack as a tree in the terminal, as a graph in a file, as a page in a browser."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterator
from typing import Final

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, ClusterOptions
from hearth.cli.stack_commands.parameters import NAME, output_option
from hearth.cli.stack_views.graph import layout, stack_graph, svg_drawing
from hearth.cli.stack_views.tree import stack_view, tree_view
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState, StackView
from hearth.model import members

PAUSE: Final = 0.5
"""Seconds between two snapshots, at least."""
PAUSE_FACTOR: Final = 3
"""A snapshot of a large Stack costs the API server more: the pause is so many times as long as it took."""


@example_command(
    "kubectl stack tree shop",
    "kubectl stack tree shop -w",
    "kubectl stack tree rg/queue",
    "kubectl stack tree shop -o json",
)
@NAME
@click.option("-w", "--watch", is_flag=True, help="Draw it again as it changes, until Ctrl-C.")
@output_option("json", "yaml")
@cluster_options.cluster_options
def tree(cluster: ClusterOptions, name: str, output: str | None, *, watch: bool) -> None:
    """Show a Stack as a tree: each resource with its object, state, age and reason, nested Stacks and groups below.

    `rg/NAME` is a ResourceGroup, `webapp/NAME` an object of a kind that a StackDefinition makes.
    """
    if watch and output:
        raise click.UsageError("-w draws a tree; leave -o out")

    async def work(session: Session) -> int:
        return await draw_tree(session, cluster.find_namespace(), name, watch=watch, output=output)

    cluster_options.run(cluster, work)


async def draw_tree(session: Session, namespace: str, name: str, *, watch: bool, output: str | None) -> int:
    """Read and show; return the exit code."""
    location = await stack_locations.locate(session, namespace, name)
    async with StackReader(session, with_groups=True) as reader:
        view = stack_view.describe(await reader.get(location))
        if watch:
            await follow(reader, location, view)
        elif output:
            text_output.write_object(dataclasses.asdict(view), output=output)
        else:
            text_output.write_lines(tree_view.draw(view, now=time.time(), width=text_output.find_width()))
    return DONE


async def follow(reader: StackReader, location: StackLocation, view: StackView) -> None:
    """Show the Stack as it changes, until it is deleted or the user ends it."""
    import rich.console

    from hearth.cli.stack_commands import terminal_output

    began = time.monotonic()
    console = rich.console.Console(highlight=False)
    with terminal_output.opened(console) as output:
        while True:
            output.show(view, seconds=time.monotonic() - began, now=time.time())
            if not view.exists:
                return
            started = time.monotonic()
            snapshot = await reader.read(location)
            gone = StackView(
                name=view.name, namespace=view.namespace, is_group=view.is_group, kind=view.kind, exists=False
            )
            view = stack_view.describe(snapshot) if snapshot is not None else gone
            await asyncio.sleep(max(PAUSE, PAUSE_FACTOR * (time.monotonic() - started)))


@example_command("kubectl stack graph shop -o svg > shop.svg", "kubectl stack graph shop -o mermaid")
@NAME
@output_option("dot", "mermaid", "svg", default="dot", text="The language.")
@cluster_options.on_cluster
async def graph(session: Session, namespace: str, name: str, output: str) -> int:
    """Draw the resources of a Stack with their states; an arrow leads from each to those that require it."""
    location = await stack_locations.locate(session, namespace, name)
    async with StackReader(session) as reader:
        snapshot = await reader.get(location)
    if output == "svg":
        picture = layout.arrange(stack_graph.describe(snapshot))
        click.echo(svg_drawing.draw(picture, title=f"Resources of {snapshot.stack.title}"))
    else:
        draw = to_dot if output == "dot" else to_mermaid
        click.echo("\n".join(draw(snapshot)))
    return DONE


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


@example_command("kubectl stack ui -n prod", "kubectl stack ui -A --port 8001")
@click.option("-A", "--all-namespaces", is_flag=True, help="List the Stacks of all namespaces.")
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65_535),
    default=0,
    help="The port on 127.0.0.1. Default: a free one.",
)
@cluster_options.on_cluster
async def ui(session: Session, namespace: str, port: int, *, all_namespaces: bool) -> int:
    """Serve a page on loopback until Ctrl-C: Stacks as live graphs, with buttons for the verbs.

    Requests to the cluster are sent with your own credentials. The address contains a token: who has it may do what you
    may do. It works from this machine only.
    """
    from hearth.cli.page import server

    await server.serve_forever(session, namespace="" if all_namespaces else namespace, port=port, show=show_address)
    return DONE


def show_address(address: str) -> None:
    """Show the address."""
    click.echo(f"Open {address}\nCtrl-C ends it.")
