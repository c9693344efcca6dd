"""`kubectl stack why`: the chain from what is not ready to its root cause, and the command that helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options, stack_argument
from hearth.cli.stack_commands.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@click.command(
    cls=ExampleCommand,
    examples=(
        "kubectl stack why shop",
        "kubectl stack why shop/web",
        "kubectl stack why shop/cache/db",
        "kubectl stack why rg/queue/3",
    ),
)
@click.argument("where", type=stack_argument.StackName(), metavar="NAME[/RESOURCE]")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"], case_sensitive=False), help="The format.")
@cluster_options.cluster_options
def why(cluster: ClusterOptions, where: str, output: str | None) -> None:
    """Explain why a Stack, or one resource, is not ready: who waits for whom, down to the pod, in its own words.

    Each cause has the command that helps or shows more. Exit code 0 if nothing is wrong, 1 otherwise.
    """

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.showing import why_execution

        within = cluster_options.strip_group_kind(where)
        name, _, path = within.partition("/")
        name = name if within == where else f"rg/{name}"
        parts: list[Any] = path.split("/") if path else []
        return await why_execution.execute(session, cluster.find_namespace(), name, parts, output=output)

    cluster_options.run(cluster, work)
