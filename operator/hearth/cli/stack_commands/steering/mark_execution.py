"""Creates a HealthMark and follows it. Must not know what becomes of a marked object."""

from __future__ import annotations

import asyncio

import click

from hearth.cli.stack_access import marks
from hearth.cli.stack_access.following import Followed
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.showing import list_execution
from hearth.cli.stack_commands.steering import verb_execution
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import mark_requests, verbs
from hearth.cli.stack_views.steering.goals import Goal, GoalType
from hearth.kube.well_known_kinds import HEALTH_MARK, RESOURCE_GROUP, STACK

DONE, FAILED = 0, 1


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
    kind, namespace, name = list_execution.locate(namespace, name)
    stack = StackState(await session.get(kind, namespace, name))
    if refusal := mark_requests.find_refusal(stack, resource):
        cluster_options.complain(f"error: {refusal}")
        return FAILED
    if reason is None and not await marks.has_mark(session, stack, resource):
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
    state = await marks.wait_settled(session, stack.namespace, mark, timeout=timeout)
    if state is None or state.is_rejected:
        message = state.message if state is not None else "timed out waiting for the operator to accept the mark"
        cluster_options.complain(f"error: healthmark/{mark}: {message}")
        return FAILED
    click.echo(f"healthmark/{mark}: {safe_text.one_line(state.message)}")
    if not state.is_resolved:
        return DONE
    left = None if timeout is None else max(0.0, timeout - (asyncio.get_running_loop().time() - began))
    kind = RESOURCE_GROUP if stack.is_group else STACK
    followed = Followed(kind=kind, namespace=stack.namespace, name=stack.name, goal=Goal(type=GoalType.READY))
    return await verb_execution.follow(session, followed, timeout=left)
