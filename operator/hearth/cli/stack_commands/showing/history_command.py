"""`kubectl stack history`: the revisions of a Stack, one of them, or the difference of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.stack_argument import NAME

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@click.command(
    cls=ExampleCommand,
    examples=("kubectl stack history shop", "kubectl stack history shop 3", "kubectl stack history shop 3 4"),
)
@NAME
@click.argument("numbers", nargs=-1, type=click.IntRange(min=1), metavar="[REVISION [REVISION]]")
@click.option(
    "-o", "--output", type=click.Choice(["json", "yaml"], case_sensitive=False), help="The format of the list."
)
@cluster_options.cluster_options
def history(cluster: ClusterOptions, name: str, numbers: tuple[int, ...], output: str | None) -> None:
    """Show the revisions with author, commit and outcome; one definition; or what changed between two.

    Sensitive values are never shown: the difference says that they changed.
    """
    if len(numbers) > 2:
        raise click.UsageError("name one revision to show it, or two to compare them")

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.showing import history_execution

        return await history_execution.execute(session, cluster.find_namespace(), name, numbers, output=output)

    cluster_options.run(cluster, work)
