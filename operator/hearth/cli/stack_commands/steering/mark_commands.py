"""`kubectl stack mark` and `unmark`: create a HealthMark for the current object of a resource."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import following, stack_locations
from hearth.cli.stack_access.following import Followed
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, Failure
from hearth.cli.stack_commands.parameters import NAME, ResourceName
from hearth.cli.stack_commands.steering import verb_execution
from hearth.cli.stack_commands.steering.verb_execution import Waiting
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import goals, mark_requests, verbs
from hearth.cli.stack_views.steering.goals import Goal, GoalState, GoalType, GoalVerdict
from hearth.cli.stack_views.steering.mark_requests import MarkState
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import members, names, object_fields
from hearth.model.child import Object
from hearth.model.well_known_kinds import HEALTH_MARK
from hearth.plan.state.healing import HealingMode


def mark_options(command: Callable[..., Awaitable[int]]) -> Callable[..., Any]:
    """Add the options of both commands, and run them as `on_cluster` does, with `waiting`."""
    add_resource = click.argument("resource", metavar="RESOURCE", type=ResourceName())
    add_waiting = verb_execution.waiting_options(
        "Wait until the object is replaced and the Stack is ready; after unmark, until the mark is removed."
    )
    return NAME(add_resource(add_waiting(cluster_options.on_cluster(command))))


def check_reason(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return `value` unless it is blank."""
    if not value.strip():
        raise click.BadParameter("must say why the object is unhealthy")
    return value


@example_command('kubectl stack mark shop web --reason "answers 500 to everything" --wait')
@mark_options
@click.option(
    "--reason",
    required=True,
    callback=check_reason,
    help="Why the object is unhealthy. Shown together with the mark.",
)
async def mark(session: Session, namespace: str, name: str, resource: str, reason: str, waiting: Waiting) -> int:
    """Declare the current object of a resource unhealthy; Hearth replaces it. `cache/db` is in the nested Stack
    `cache`.
    """
    stack = await read_stack(session, namespace, name, resource)
    return await put(session, stack, resource, reason=reason, waiting=waiting)


@example_command("kubectl stack unmark shop web")
@mark_options
async def unmark(session: Session, namespace: str, name: str, resource: str, waiting: Waiting) -> int:
    """Remove the mark from the current object of a resource."""
    stack = await read_stack(session, namespace, name, resource)
    if await has_mark(session, stack, resource):
        return await put(session, stack, resource, reason=None, waiting=waiting)
    click.echo(safe_text.one_line(f"{stack.title}: {resource} is not marked"))
    return DONE


async def read_stack(session: Session, namespace: str, name: str, resource: str) -> StackState:
    """Return the Stack. Raises Failure if it cannot have a mark on the resource."""
    stack = await stack_locations.read(session, await stack_locations.locate(session, namespace, name))
    if refusal := mark_requests.find_refusal(stack, resource):
        raise Failure(refusal)
    return stack


async def put(session: Session, stack: StackState, resource: str, *, reason: str | None, waiting: Waiting) -> int:
    """Create the HealthMark; return the exit code. reason: None to take back a mark."""
    body = mark_requests.make_mark(stack, resource, reason=reason)
    created = await session.create(HEALTH_MARK, stack.namespace, body=body)
    said = safe_text.one_line(mark_requests.describe(body))
    click.echo(f"healthmark.hearth.dev/{created['metadata']['name']} created: {said}")
    for note in verbs.note_paused(stack):
        text_output.write_note(note)
    if not waiting.is_wanted:
        return DONE
    return await follow(session, stack, created["metadata"]["name"], seconds=waiting.seconds)


async def follow(session: Session, stack: StackState, mark: str, *, seconds: float | None) -> int:
    """Wait until the marked object is replaced and the Stack is ready; return the exit code.

    The wait also ends if the Stack needs help to replace the object. If marks wait for an update, the mark only needs
    to be accepted.
    """
    is_later = object_fields.text(stack.spec, "healing", "policy") == HealingMode.ON_UPDATE

    def judge(raw: Object | None) -> MarkState | None:
        found = mark_requests.read_state(raw)
        is_over = found.is_rejected or found.is_resolved or (is_later and found.is_ready)
        return found if is_over else None

    began = asyncio.get_running_loop().time()
    settled = following.wait_until(session, HEALTH_MARK, stack.namespace, mark, judge, seconds=seconds)
    followed = Followed(kind=stack.kind, namespace=stack.namespace, name=stack.name, goal=Goal(type=GoalType.SETTLED))
    state = await wait_unless_failed(session, settled, followed)
    if isinstance(state, GoalState):
        raise Failure(f"{stack.title}: {state.message}")
    if state is None or state.is_rejected:
        message = state.message if state is not None else "timed out waiting for the replacement of the marked object"
        raise Failure(f"healthmark/{mark}: {message}")
    click.echo(f"healthmark/{mark}: {safe_text.one_line(state.message)}")
    if not state.is_resolved:
        return DONE
    left = None if seconds is None else max(0.0, seconds - (asyncio.get_running_loop().time() - began))
    return await verb_execution.follow(session, followed, seconds=left)


async def wait_unless_failed(
    session: Session, settled: Coroutine[Any, Any, MarkState | None], followed: Followed
) -> MarkState | GoalState | None:
    """Return the awaited state, or the state of a Stack that fails earlier."""

    def judge(raw: Object | None) -> GoalState | None:
        reached = goals.assess(stack_locations.parse(raw, followed.kind) if raw is not None else None, followed.goal)
        return reached if reached.verdict is GoalVerdict.FAILED else None

    failing = following.wait_until(session, followed.kind, followed.namespace, followed.name, judge, seconds=None)
    tasks = [asyncio.create_task(settled), asyncio.create_task(failing)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task.result() for task in tasks if task.done())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def has_mark(session: Session, stack: StackState, resource: str) -> bool:
    """Return whether an object of the resource is marked, or a mark is pending; True if that cannot be read."""
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
