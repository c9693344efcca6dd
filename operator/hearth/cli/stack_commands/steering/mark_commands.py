"""`mark` and `unmark`: a HealthMark on the present object of a resource."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.following import Followed
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, stack_argument
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.exit_codes import DONE, FAILED
from hearth.cli.stack_commands.stack_argument import NAME, Duration
from hearth.cli.stack_commands.steering import verb_execution
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import mark_requests, verbs
from hearth.cli.stack_views.steering.goals import Goal, GoalType
from hearth.cli.stack_views.steering.mark_requests import MarkState
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import members, names
from hearth.model.well_known_kinds import HEALTH_MARK


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
        return await execute(
            session, cluster.find_namespace(), (name, resource), reason=reason, wait=wait, timeout=timeout
        )

    cluster_options.run(cluster, work)


async def execute(
    session: Session,
    namespace: str,
    where: tuple[str, str],
    *,
    reason: str | None,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Return the exit code. where: the Stack and the resource; reason: None to take back a mark."""
    name, resource = where
    stack = await stack_locations.read(session, await stack_locations.locate(session, namespace, name))
    if refusal := mark_requests.find_refusal(stack, resource):
        cluster_options.complain(f"error: {refusal}")
        return FAILED
    if reason is None and not await has_mark(session, stack, resource):
        click.echo(safe_text.one_line(f"{stack.title}: {resource} is not marked"))
        return DONE
    body = mark_requests.make_mark(stack, resource, reason=reason)
    created = await session.create(HEALTH_MARK, namespace, body=body)
    said = safe_text.one_line(mark_requests.describe(body))
    click.echo(f"healthmark.hearth.dev/{created['metadata']['name']} created: {said}")
    for note in verbs.note_paused(stack):
        click.echo(f"note: {note}", err=True)
    if not wait:
        return DONE
    return await follow(session, stack, created["metadata"]["name"], timeout=timeout)


async def follow(
    session: Session,
    stack: StackState,
    mark: str,
    *,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Wait until the mark is accepted and settled, then until the Stack is ready; return the exit code."""
    began = asyncio.get_running_loop().time()
    state = await wait_settled(session, stack.namespace, mark, timeout=timeout)
    if state is None or state.is_rejected:
        message = state.message if state is not None else "timed out waiting for the operator to accept the mark"
        cluster_options.complain(f"error: healthmark/{mark}: {message}")
        return FAILED
    click.echo(f"healthmark/{mark}: {safe_text.one_line(state.message)}")
    if not state.is_resolved:
        return DONE
    left = None if timeout is None else max(0.0, timeout - (asyncio.get_running_loop().time() - began))
    followed = Followed(kind=stack.kind, namespace=stack.namespace, name=stack.name, goal=Goal(type=GoalType.READY))
    return await verb_execution.follow(session, followed, timeout=left)


async def has_mark(session: Session, stack: StackState, resource: str) -> bool:
    """Return whether an object of the resource is marked, or a mark of it waits; True if that cannot be read."""
    waiting = await session.list(HEALTH_MARK, stack.namespace)
    if any(mark_requests.is_waiting(each, stack, resource) for each in waiting):
        return True
    async with StackReader(session, with_groups=True) as reader:
        snapshot: StackObjects | None = await reader.complete(stack)
    first, *rest = resource.split("/")
    if stack.is_group:
        first = members.name_member(members.GROUP_MEMBER, first)
    while rest and snapshot is not None and not snapshot.unreadable:
        child = snapshot.choose_children().get(first)
        snapshot = snapshot.nested.get(child.uid) if child is not None else None
        first, *rest = rest
    if snapshot is None or snapshot.unreadable:
        return True
    return any(
        names.ANNOTATION_UNHEALTHY in child.annotations for child in snapshot.children if child.resource == first
    )


async def wait_settled(
    session: Session,
    namespace: str,
    name: str,
    *,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> MarkState | None:
    """Return the state of the mark once it is rejected, resolved or waits for something else; None after `timeout`."""
    try:
        async with asyncio.timeout(timeout):
            async for mark in session.watch_one(HEALTH_MARK, namespace, name):
                state = mark_requests.read_state(mark)
                if state.is_settled:
                    return state
    except TimeoutError:
        pass
    return None
