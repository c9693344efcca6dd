"""`snapshot` and `restore`: a StackSnapshot, and the way back to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.stack_argument import NAME
from hearth.cli.stack_commands.steering.verb_commands import verb

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@click.command(
    cls=ExampleCommand,
    examples=("kubectl stack snapshot shop", "kubectl stack snapshot shop --name before-migration --wait"),
)
@NAME
@click.option("--name", "snapshot_name", default="", help="The name of the StackSnapshot. Default: NAME and a suffix.")
@click.option("--retain", is_flag=True, help="Keep the VolumeSnapshots when the StackSnapshot is deleted.")
@verb
def snapshot(
    cluster: ClusterOptions, name: str, snapshot_name: str, *, retain: bool, wait: bool, timeout: float | None
) -> None:
    """Keep the complete revision of a Stack, and a VolumeSnapshot of each of its volumes, as a StackSnapshot."""

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.steering import snapshot_execution

        where = cluster.find_namespace(), name
        return await snapshot_execution.take(
            session, where, snapshot_name, is_retained=retain, wait=wait, timeout=timeout
        )

    cluster_options.run(cluster, work)


@click.command(cls=ExampleCommand, examples=("kubectl stack restore shop before-migration --wait",))
@NAME
@click.argument("snapshot_name", metavar="SNAPSHOT")
@verb
def restore(cluster: ClusterOptions, name: str, snapshot_name: str, *, wait: bool, timeout: float | None) -> None:
    """Go back to a StackSnapshot: to its revision, with the data of its volumes. Once more if it was restored before."""

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.steering import snapshot_execution

        where = cluster.find_namespace(), name
        return await snapshot_execution.restore(session, where, snapshot_name, wait=wait, timeout=timeout)

    cluster_options.run(cluster, work)
