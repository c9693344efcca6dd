"""`kubectl stack scale`: the size of a ResourceGroup."""

from __future__ import annotations

import click

from hearth.cli import object_fields
from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_access.following import Followed
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.exit_codes import DONE, FAILED
from hearth.cli.stack_commands.stack_argument import GroupName
from hearth.cli.stack_commands.steering import verb_execution
from hearth.cli.stack_commands.steering.verb_commands import verb
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import verbs
from hearth.cli.stack_views.steering.goals import Goal, GoalType
from hearth.cli.stack_views.steering.verbs import Refusal, Write
from hearth.model import limits
from hearth.model.well_known_kinds import RESOURCE_GROUP


@click.command(cls=ExampleCommand, examples=("kubectl stack scale workers --replicas 5 --wait",))
@click.argument("name", type=GroupName(), metavar="GROUP")
@click.option("--replicas", required=True, type=click.IntRange(0, limits.GROUP_MEMBERS), help="The number of members.")
@verb
def scale(cluster: ClusterOptions, name: str, replicas: int, *, wait: bool, timeout: float | None) -> None:
    """Set the number of members of a ResourceGroup. The highest indices go first."""

    async def work(session: Session) -> int:
        where = cluster.find_namespace(), name
        return await execute(session, where, replicas=replicas, wait=wait, timeout=timeout)

    cluster_options.run(cluster, work)


async def execute(
    session: Session,
    where: tuple[str, str],
    *,
    replicas: int,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Return the exit code. where: namespace and ResourceGroup."""
    namespace, name = where
    group = StackState(await session.get(RESOURCE_GROUP, namespace, name))
    result = verbs.scale(group, replicas=replicas)
    if isinstance(result, Refusal):
        cluster_options.complain(f"error: {result.said}")
        return FAILED
    if isinstance(result, Write):
        await session.patch(RESOURCE_GROUP, namespace, name, body=result.patches[0], subresource="scale")
    click.echo(f"resourcegroup.hearth.dev/{name} {result.said}")
    for note in verbs.note_size(group):
        click.echo(f"note: {note}", err=True)
    return await follow(session, where, timeout=timeout) if wait else DONE


async def follow(
    session: Session,
    where: tuple[str, str],
    *,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Show progress until the group is ready; return the exit code."""
    # The answer of the subresource states no generation.
    group = await session.get(RESOURCE_GROUP, *where)
    followed = Followed(
        kind=RESOURCE_GROUP,
        namespace=where[0],
        name=where[1],
        goal=Goal(type=GoalType.READY),
        generation=object_fields.number(group, "metadata", "generation") or 0,
    )
    return await verb_execution.follow(session, followed, timeout=timeout)
