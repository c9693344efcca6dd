"""`kubectl stack export`: the objects of a Stack as plain manifests."""

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
    examples=("kubectl stack export shop > shop.yaml", "kubectl stack export shop --include-secrets > shop.yaml"),
)
@NAME
@click.option("--include-secrets", is_flag=True, help="Write Secrets and sensitive values too, readable by anyone.")
@cluster_options.cluster_options
def export(cluster: ClusterOptions, name: str, *, include_secrets: bool) -> None:
    """Write the objects of a Stack as plain manifests, without what the API server and Hearth filled in.

    Secrets, and fields with sensitive values in other objects, are left out unless --include-secrets is set. Objects
    keep their names, so `kubectl stack import --adopt` makes a Stack that takes them over, with a parameter for each
    such field.
    """

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.files import export_execution

        return await export_execution.execute(session, cluster.find_namespace(), name, with_sensitive=include_secrets)

    cluster_options.run(cluster, work)
