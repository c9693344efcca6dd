"""`kubectl stack events`: one timeline of a Stack and all that belongs to it."""

from __future__ import annotations

import time

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_access import evidence, stack_locations
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.exit_codes import DONE, FAILED
from hearth.cli.stack_commands.stack_argument import NAME, Duration
from hearth.cli.stack_views.lists import event_timeline


@click.command(
    cls=ExampleCommand,
    examples=("kubectl stack events shop", "kubectl stack events shop --since 1h --types Warning"),
)
@NAME
@click.option("--since", type=Duration(), help="Only what happened since then, e.g. 30m or 2h.")
@click.option(
    "--types",
    "types",
    type=click.Choice(["Normal", "Warning"], case_sensitive=False),
    help="Warning: without what is normal.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["wide", "json", "yaml"], case_sensitive=False),
    help="The format; wide: uncut messages.",
)
@cluster_options.cluster_options
def events(cluster: ClusterOptions, name: str, since: float | None, types: str | None, output: str | None) -> None:
    """Show Events about a Stack, its children, their pods and nested Stacks, and its revisions, the latest last."""

    async def work(session: Session) -> int:
        namespace = cluster.find_namespace()
        return await execute(session, namespace, name, since=since, only_warnings=types == "Warning", output=output)

    cluster_options.run(cluster, work)


async def execute(
    session: Session, namespace: str, name: str, *, since: float | None, only_warnings: bool, output: str | None
) -> int:
    """Return the exit code. since: seconds before now."""
    location = await stack_locations.locate(session, namespace, name)
    async with StackReader(session, with_groups=True) as reader:
        snapshot = await reader.read(location)
        if snapshot is None:
            cluster_options.complain(cluster_options.describe_absence(location))
            return FAILED
        there = await reader.find_session(snapshot)
        collected = await evidence.collect_timeline(session, snapshot, object_session=there)
    now = time.time()
    entries = event_timeline.sort(
        collected,
        since=None if since is None else now - since,
        only_warnings=only_warnings,
    )
    if output in ("json", "yaml"):
        text_output.write_object([event_timeline.to_output(entry) for entry in entries], output=output)
    else:
        rows = [event_timeline.make_row(entry, now=now) for entry in entries]
        text_output.write_table(
            event_timeline.HEADER, rows, is_wide=output == "wide", optional=("LAST SEEN", "TYPE", "REASON")
        )
    return DONE
