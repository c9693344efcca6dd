"""`kubectl stack tree`: a Stack as a tree of resources, objects and nested Stacks."""

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
    examples=("kubectl stack tree shop", "kubectl stack tree shop -w", "kubectl stack tree rg/queue"),
)
@NAME
@click.option("-w", "--watch", is_flag=True, help="Draw it again as it changes, until Ctrl-C.")
@cluster_options.cluster_options
def tree(cluster: ClusterOptions, name: str, *, watch: bool) -> None:
    """Show a Stack as a tree: each resource with its object, state, age and reason, nested Stacks and groups below.

    `rg/NAME` is a ResourceGroup.
    """

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.showing import tree_execution

        return await tree_execution.execute(session, cluster.find_namespace(), name, watch=watch)

    cluster_options.run(cluster, work)
