"""`kubectl stack wait`: until a state is reached, or cannot be reached without a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.stack_argument import NAME, Duration

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session
    from hearth.cli.stack_views.steering.goals import Goal


class GoalParameter(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The value of `--for`."""

    name = "goal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Goal:
        """Parse it."""
        from hearth.cli.stack_views.steering import goals

        if isinstance(value, goals.Goal):
            return value
        try:
            return goals.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(
    cls=ExampleCommand,
    examples=(
        "kubectl stack wait shop",
        "kubectl stack wait shop --for=deleted --timeout 5m",
        "kubectl stack wait shop --for=phase=UpdateComplete",
    ),
)
@NAME
@click.option(
    "--for",
    "goal",
    type=GoalParameter(),
    default="ready",
    metavar="GOAL",
    show_default=True,
    help="ready, suspended, stopped (at a breakpoint), deleted, phase=PHASE or condition=TYPE[=STATUS].",
)
@click.option("--timeout", type=Duration(), help="The time limit, e.g. 90s or 10m. Default: none.")
@cluster_options.cluster_options
def wait(cluster: ClusterOptions, name: str, goal: Goal, timeout: float | None) -> None:
    """Wait for a state, with progress; end with 1 as soon as it cannot be reached without help, and say why.

    Unlike `kubectl wait`, which waits for its timeout even if the Stack has failed.
    """

    async def work(session: Session) -> int:
        from hearth.cli.stack_access import stack_locations
        from hearth.cli.stack_access.following import Followed
        from hearth.cli.stack_commands.steering import verb_execution
        from hearth.cli.stack_views.steering.goals import GoalType

        location = await stack_locations.locate(session, cluster.find_namespace(), name)
        if goal.type is not GoalType.DELETED:
            # What never existed is not deleted.
            await stack_locations.read(session, location)
        followed = Followed(kind=location.kind, namespace=location.namespace, name=location.name, goal=goal)
        return await verb_execution.follow(session, followed, timeout=timeout)

    cluster_options.run(cluster, work)
