"""`kubectl stack tree`: a Stack as a tree of resources, objects and nested Stacks."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Final

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.exit_codes import DONE, FAILED
from hearth.cli.stack_commands.stack_argument import NAME
from hearth.cli.stack_views.tree import stack_view, tree_view
from hearth.cli.stack_views.tree.stack_view import StackView


@click.command(
    cls=ExampleCommand,
    examples=(
        "kubectl stack tree shop",
        "kubectl stack tree shop -w",
        "kubectl stack tree rg/queue",
        "kubectl stack tree shop -o json",
    ),
)
@NAME
@click.option("-w", "--watch", is_flag=True, help="Draw it again as it changes, until Ctrl-C.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"], case_sensitive=False), help="The format.")
@cluster_options.cluster_options
def tree(cluster: ClusterOptions, name: str, output: str | None, *, watch: bool) -> None:
    """Show a Stack as a tree: each resource with its object, state, age and reason, nested Stacks and groups below.

    `rg/NAME` is a ResourceGroup, `webapp/NAME` an object of a kind that a StackDefinition makes.
    """
    if watch and output:
        raise click.UsageError("-w draws a tree; leave -o out")

    async def work(session: Session) -> int:
        return await execute(session, cluster.find_namespace(), name, watch=watch, output=output)

    cluster_options.run(cluster, work)


PAUSE: Final = 0.5
"""Seconds between two snapshots, at least."""
PAUSE_FACTOR: Final = 3
"""A snapshot of a large Stack costs the API server more: the pause is so many times as long as it took."""


async def execute(session: Session, namespace: str, name: str, *, watch: bool, output: str | None) -> int:
    """Return the exit code."""
    location = await stack_locations.locate(session, namespace, name)
    async with StackReader(session, with_groups=True) as reader:
        return await draw(reader, location, watch=watch, output=output)


async def draw(reader: StackReader, location: StackLocation, *, watch: bool, output: str | None) -> int:
    """Read and show; return the exit code."""
    view = await observe(reader, location)
    if not view.exists:
        cluster_options.complain(cluster_options.describe_absence(location))
        return FAILED
    if watch:
        await follow(reader, location, view)
    elif output:
        text_output.write_object(dataclasses.asdict(view), output=output)
    else:
        for line in tree_view.draw(view, now=time.time(), width=text_output.find_width()):
            text_output.write_segments(line)
    return DONE


async def observe(reader: StackReader, location: StackLocation) -> StackView:
    """Return the Stack as it is now."""
    snapshot = await reader.read(location)
    if snapshot is None:
        kind = location.kind.name
        return StackView(
            name=location.name, namespace=location.namespace, is_group=location.is_group, kind=kind, exists=False
        )
    return stack_view.describe(snapshot)


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
            view = await observe(reader, location)
            await asyncio.sleep(max(PAUSE, PAUSE_FACTOR * (time.monotonic() - started)))
