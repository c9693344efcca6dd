"""`kubectl stack events`: one timeline of a Stack and all that belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.stack_argument import NAME, Duration

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


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
        from hearth.cli.stack_commands.showing import events_execution

        namespace = cluster.find_namespace()
        return await events_execution.execute(
            session, namespace, name, since=since, only_warnings=types == "Warning", output=output
        )

    cluster_options.run(cluster, work)
