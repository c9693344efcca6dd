"""`kubectl stack tree` and `graph`: show a Stack as a tree in the terminal, or write it as a graph."""

from __future__ import annotations

import asyncio
import dataclasses
import time
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
from hearth.cli.stack_views.graph import graph_drawing, layout, stack_graph
from hearth.cli.stack_views.tree import stack_view, tree_view
from hearth.cli.stack_views.tree.stack_view import StackView

PAUSE: Final = 0.5
"""Minimum seconds between two snapshots."""
PAUSE_FACTOR: Final = 3
"""The pause lasts this many times as long as the snapshot, because a large Stack costs the API server more."""


@example_command(
    "kubectl stack tree shop",
    "kubectl stack tree shop -w",
    "kubectl stack tree rg/queue",
    "kubectl stack tree shop -o json",
)
@NAME
@click.option("-w", "--watch", is_flag=True, help="Keep the tree up to date until Ctrl-C.")
@output_option("json", "yaml")
@cluster_options.cluster_options
def tree(cluster: ClusterOptions, name: str, output: str | None, *, watch: bool) -> None:
    """Show a Stack as a tree: each resource with its object, state, age and reason, and nested Stacks and groups below
    it.

    `rg/NAME` is a ResourceGroup, `webapp/NAME` an instance of a StackDefinition.
    """
    if watch and output:
        raise click.UsageError("-w always draws a tree; remove -o")

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
    with terminal_output.open_output(console) as output:
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
@output_option("dot", "mermaid", "svg", default="dot", text="Output format.")
@cluster_options.on_cluster
async def graph(session: Session, namespace: str, name: str, output: str) -> int:
    """Draw the resources of a Stack with their states. Arrows point from each resource to its dependents."""
    location = await stack_locations.locate(session, namespace, name)
    async with StackReader(session) as reader:
        snapshot = await reader.get(location)
    if output == "svg":
        picture = layout.arrange(stack_graph.describe(snapshot))
        click.echo(graph_drawing.to_svg(picture, title=f"Resources of {snapshot.stack.title}"))
    else:
        draw = graph_drawing.to_dot if output == "dot" else graph_drawing.to_mermaid
        click.echo("\n".join(draw(snapshot)))
    for omission in snapshot.omissions:
        text_output.write_note(omission)
    return DONE
