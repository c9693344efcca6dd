"""`kubectl stack ui`: Stacks in a browser, live, with the user's own credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.exit_codes import DONE

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@click.command(cls=ExampleCommand, examples=("kubectl stack ui -n prod", "kubectl stack ui -A --port 8001"))
@click.option("-A", "--all-namespaces", is_flag=True, help="List the Stacks of all namespaces.")
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65_535),
    default=0,
    help="The port on 127.0.0.1. Default: a free one.",
)
@cluster_options.cluster_options
def ui(cluster: ClusterOptions, port: int, *, all_namespaces: bool) -> None:
    """Serve a page on loopback until Ctrl-C: Stacks as live graphs, with buttons for the verbs.

    Requests to the cluster are sent with your own credentials. The address contains a token: who has it may do what you
    may do. It works from this machine only.
    """

    async def work(session: Session) -> int:
        from hearth.cli.page import server

        namespace = "" if all_namespaces else cluster.find_namespace()
        await server.serve_forever(session, namespace=namespace, port=port, show=show)
        return DONE

    cluster_options.run(cluster, work)


def show(address: str) -> None:
    """Show the address."""
    click.echo(f"Open {address}\nCtrl-C ends it.")
