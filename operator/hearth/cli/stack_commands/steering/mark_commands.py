"""`mark` and `unmark`: a HealthMark on the present object of a resource."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options, stack_argument
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.stack_argument import NAME, Duration

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


def mark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both commands have."""

    @NAME
    @click.argument("resource", metavar="RESOURCE", type=stack_argument.ResourceName())
    @click.option("--wait", is_flag=True, help="Wait until the operator has accepted it, and the Stack is ready.")
    @click.option("--timeout", type=Duration(), help="With --wait: the time limit, e.g. 90s or 10m. Default: none.")
    @cluster_options.cluster_options
    @functools.wraps(command)
    def with_options(*args: Any, **options: Any) -> Any:
        return command(*args, **options)

    return with_options


@click.command(
    cls=ExampleCommand, examples=('kubectl stack mark shop web --reason "answers 500 to everything" --wait',)
)
@mark_options
@click.option("--reason", required=True, help="What is wrong with the object; shown wherever the mark is.")
def mark(cluster: ClusterOptions, name: str, resource: str, reason: str, *, wait: bool, timeout: float | None) -> None:
    """Declare the present object of a resource unhealthy; Hearth replaces it. `cache/db` leads into a nested Stack."""
    if not reason.strip():
        raise click.BadParameter("must say what is wrong with the object", param_hint="'--reason'")
    put(cluster, name, resource, reason=reason, wait=wait, timeout=timeout)


@click.command(cls=ExampleCommand, examples=("kubectl stack unmark shop web",))
@mark_options
def unmark(cluster: ClusterOptions, name: str, resource: str, *, wait: bool, timeout: float | None) -> None:
    """Take back the mark on the present object of a resource."""
    put(cluster, name, resource, reason=None, wait=wait, timeout=timeout)


def put(
    cluster: ClusterOptions, name: str, resource: str, *, reason: str | None, wait: bool, timeout: float | None
) -> None:
    """Create the HealthMark. reason: None to take back a mark."""

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.steering import mark_execution

        return await mark_execution.execute(
            session, cluster.find_namespace(), (name, resource), reason=reason, wait=wait, timeout=timeout
        )

    cluster_options.run(cluster, work)
