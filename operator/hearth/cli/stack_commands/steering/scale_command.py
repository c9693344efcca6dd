"""`kubectl stack scale`: the size of a ResourceGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.stack_argument import GroupName
from hearth.cli.stack_commands.steering.verb_commands import verb
from hearth.model import limits

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@click.command(cls=ExampleCommand, examples=("kubectl stack scale workers --replicas 5 --wait",))
@click.argument("name", type=GroupName(), metavar="GROUP")
@click.option("--replicas", required=True, type=click.IntRange(0, limits.GROUP_MEMBERS), help="The number of members.")
@verb
def scale(cluster: ClusterOptions, name: str, replicas: int, *, wait: bool, timeout: float | None) -> None:
    """Set the number of members of a ResourceGroup. The highest indices go first."""

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.steering import scale_execution

        where = cluster.find_namespace(), name
        return await scale_execution.execute(session, where, replicas=replicas, wait=wait, timeout=timeout)

    cluster_options.run(cluster, work)
