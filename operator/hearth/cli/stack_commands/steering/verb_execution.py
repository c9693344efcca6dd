"""Common options of verbs, and the execution of a verb: read, decide, write, report the write, wait."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, assert_never

import click

from hearth.cli.stack_access import following, stack_locations
from hearth.cli.stack_access.following import Followed
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, Failure
from hearth.cli.stack_commands.parameters import Duration
from hearth.cli.stack_commands.showing import explanation_commands
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering.goals import GoalVerdict
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, VerbResult, Write
from hearth.model import object_fields, value_class

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The values of `--wait` and `--timeout`."""

    is_wanted: bool
    seconds: float | None
    """The time limit, None for none."""


def waiting_options(wait_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator that adds `--wait` and `--timeout`, and passes them as `waiting`. wait_help: the help of `--wait`."""

    def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--wait", is_flag=True, help=wait_help)
        @click.option("--timeout", type=Duration(), help="With --wait: time limit, e.g. 90s or 10m. Default: no limit.")
        @functools.wraps(command)
        def with_waiting(*, wait: bool, timeout: float | None, **options: Any) -> Any:
            return command(waiting=Waiting(is_wanted=wait, seconds=timeout), **options)

        return with_waiting

    return add_options


def verb(command: Callable[..., Awaitable[int]]) -> Callable[..., Any]:
    """Add the options of every verb, and run it as `on_cluster` does, with `waiting`."""
    add_waiting = waiting_options("Wait until it is done, and show progress. Fail at the first problem.")
    return cluster_options.on_cluster(add_waiting(command))


def decision(decide: Callable[..., VerbResult]) -> Callable[..., Any]:
    """Make a command from a function that decides the write from the Stack and the options.

    The command reads and writes the Stack.
    """

    @verb
    @functools.wraps(decide)
    async def act(session: Session, namespace: str, name: str, waiting: Waiting, **options: Any) -> int:
        stack = await stack_locations.read(session, await stack_locations.locate(session, namespace, name))
        return await carry_out(session, stack, decide(stack, **options), waiting)

    return act


async def carry_out(session: Session, stack: StackState, result: VerbResult, waiting: Waiting) -> int:
    """Execute the decision; return the exit code."""
    match result:
        case Refusal():
            raise Failure(result.said)
        case AlreadySo():
            click.echo(f"{stack.reference} {safe_text.one_line(result.said)}")
            followed = Followed(kind=stack.kind, namespace=stack.namespace, name=stack.name, goal=result.goal)
        case Write():
            written = await following.send(session, stack, result)
            written_to = f"stack.hearth.dev/{result.stack}" if result.stack else stack.reference
            click.echo(f"{written_to} {safe_text.one_line(result.said)}")
            for note in result.notes:
                text_output.write_note(note)
            generation = object_fields.number(written, "metadata", "generation") or 0
            followed = Followed(
                kind=stack.kind,
                namespace=stack.namespace,
                name=stack.name,
                goal=result.goal,
                handled=result.handled,
                generation=0 if result.stack else generation,
            )
        case _:
            assert_never(result)
    return await follow(session, followed, seconds=waiting.seconds) if waiting.is_wanted else DONE


async def follow(session: Session, followed: Followed, *, seconds: float | None) -> int:
    """Show progress until the goal is reached; return the exit code. seconds: the time limit, None for none."""
    with text_output.open_progress() as progress:
        reached = await following.follow(session, followed, show=progress.report, seconds=seconds)
    subject = f"{followed.kind.name.lower()}/{followed.name}"
    if reached is None:
        causes = await explanation_commands.explain_briefly(session, followed)
        raise Failure("\n".join([f"timed out waiting for {subject}: {progress.last}", *causes]))
    message = f"{subject}: {reached.message}"
    if reached.verdict is not GoalVerdict.REACHED:
        raise Failure(message)
    click.echo(safe_text.clean(message))
    return DONE
