"""The verbs: `retry`, `rollback`, `continue`, `check`, `cleanup`, `pause`, `unpause`, `suspend`, `resume`."""

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
    from hearth.cli.stack_views.stack_state import StackState
    from hearth.cli.stack_views.steering.verbs import VerbResult


def verb(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every verb."""

    @cluster_options.cluster_options
    @click.option("--wait", is_flag=True, help="Follow it with progress until it is done; fail with the first problem.")
    @click.option("--timeout", type=Duration(), help="With --wait: the time limit, e.g. 90s or 10m. Default: none.")
    @functools.wraps(command)
    def with_options(*args: Any, **options: Any) -> Any:
        return command(*args, **options)

    return with_options


def act(
    cluster: ClusterOptions,
    name: str,
    decide: Callable[[StackState], VerbResult],
    *,
    wait: bool,
    timeout: float | None,
) -> None:
    """Read the Stack, decide, write, and follow it if asked to."""

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.steering import verb_execution

        return await verb_execution.execute(session, cluster.find_namespace(), name, decide, wait=wait, timeout=timeout)

    cluster_options.run(cluster, work)


@click.command(
    cls=ExampleCommand,
    examples=(
        "kubectl stack retry shop",
        "kubectl stack retry shop --wait --timeout 5m",
        "kubectl stack retry shop migrate",
    ),
)
@NAME
@click.argument("resource", required=False, default="")
@verb
def retry(cluster: ClusterOptions, name: str, resource: str, *, wait: bool, timeout: float | None) -> None:
    """Retry everything that failed now, from the point of failure.

    After an automatic rollback the definition in the spec, which failed, is tried again. With RESOURCE, work that has
    finished is run again.
    """
    from hearth.cli.stack_commands.steering import verb_execution
    from hearth.cli.stack_views.steering import verbs

    token = verb_execution.make_token()
    act(cluster, name, lambda stack: verbs.retry(stack, token=token, resource=resource), wait=wait, timeout=timeout)


@click.command(
    cls=ExampleCommand,
    examples=(
        "kubectl stack rollback shop",
        "kubectl stack rollback shop --to 3 --wait",
    ),
)
@NAME
@click.option(
    "--to",
    "to_revision",
    type=click.IntRange(min=0),
    default=0,
    help="The revision. Default: the last completed one other than that in the spec.",
)
@verb
def rollback(cluster: ClusterOptions, name: str, to_revision: int, *, wait: bool, timeout: float | None) -> None:
    """Go back to an earlier revision, from any state."""

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.steering import verb_execution

        return await verb_execution.roll_back(
            session, cluster.find_namespace(), name, to_revision=to_revision, wait=wait, timeout=timeout
        )

    cluster_options.run(cluster, work)


@click.command(
    "continue",
    cls=ExampleCommand,
    examples=(
        "kubectl stack continue shop web",
        "kubectl stack continue shop web/PreUpdate --wait",
        "kubectl stack continue shop 'workers[*]'",
    ),
)
@NAME
@click.argument("where", metavar="RESOURCE[/HOOK]", default="", type=stack_argument.ResourceName())
@verb
def continue_(cluster: ClusterOptions, name: str, where: str, *, wait: bool, timeout: float | None) -> None:
    """Continue past the breakpoint at which a resource waits; `cache/db` is a resource of the nested Stack `cache`.

    `workers[*]` stands for all members of a collection, `*` for those of a group.
    """
    from hearth.cli.stack_commands.steering import verb_execution
    from hearth.cli.stack_views.steering import verbs

    token = verb_execution.make_token()
    act(cluster, name, lambda stack: verbs.continue_(stack, where=where, token=token), wait=wait, timeout=timeout)


@click.command(cls=ExampleCommand, examples=("kubectl stack check shop --wait",))
@NAME
@verb
def check(cluster: ClusterOptions, name: str, *, wait: bool, timeout: float | None) -> None:
    """Compare all objects with the API server, and report differences. Changes nothing."""
    from hearth.cli.stack_commands.steering import verb_execution
    from hearth.cli.stack_views.steering import verbs

    token = verb_execution.make_token()
    act(cluster, name, lambda stack: verbs.check(stack, token=token), wait=wait, timeout=timeout)


@click.command(cls=ExampleCommand, examples=("kubectl stack cleanup shop",))
@NAME
@verb
def cleanup(cluster: ClusterOptions, name: str, *, wait: bool, timeout: float | None) -> None:
    """Delete obsolete objects now, which otherwise stay until the new definition is complete."""
    from hearth.cli.stack_commands.steering import verb_execution
    from hearth.cli.stack_views.steering import verbs

    token = verb_execution.make_token()
    act(cluster, name, lambda stack: verbs.cleanup(stack, token=token), wait=wait, timeout=timeout)


@click.command(cls=ExampleCommand, examples=("kubectl stack pause shop",))
@NAME
@verb
def pause(cluster: ClusterOptions, name: str, *, wait: bool, timeout: float | None) -> None:
    """Stop all writes of the operator for a Stack; it then shows what it would do."""
    from hearth.cli.stack_views.steering import verbs

    act(cluster, name, lambda stack: verbs.set_paused(stack, paused=True), wait=wait, timeout=timeout)


@click.command(cls=ExampleCommand, examples=("kubectl stack unpause shop --wait",))
@NAME
@verb
def unpause(cluster: ClusterOptions, name: str, *, wait: bool, timeout: float | None) -> None:
    """Permit the operator to write again: what it held back is done now."""
    from hearth.cli.stack_views.steering import verbs

    act(cluster, name, lambda stack: verbs.set_paused(stack, paused=False), wait=wait, timeout=timeout)


@click.command(cls=ExampleCommand, examples=("kubectl stack suspend shop --wait",))
@NAME
@verb
def suspend(cluster: ClusterOptions, name: str, *, wait: bool, timeout: float | None) -> None:
    """Scale workloads to nothing, dependents first. Data stays."""
    from hearth.cli.stack_views.steering import verbs

    act(cluster, name, lambda stack: verbs.set_suspended(stack, suspended=True), wait=wait, timeout=timeout)


@click.command(cls=ExampleCommand, examples=("kubectl stack resume shop --wait",))
@NAME
@verb
def resume(cluster: ClusterOptions, name: str, *, wait: bool, timeout: float | None) -> None:
    """Bring suspended workloads back in order, with their previous replica counts."""
    from hearth.cli.stack_views.steering import verbs

    act(cluster, name, lambda stack: verbs.set_suspended(stack, suspended=False), wait=wait, timeout=timeout)
