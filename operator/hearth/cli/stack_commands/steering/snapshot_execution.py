"""Creates a StackSnapshot and follows it, and restores one. Must not know what a snapshot contains."""

from __future__ import annotations

import click

from hearth.cli.stack_access import snapshots
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.showing import list_execution
from hearth.cli.stack_commands.steering import progress_output, verb_execution
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import snapshot_requests
from hearth.kube.well_known_kinds import STACK, STACK_SNAPSHOT

DONE, FAILED = 0, 1


async def take(
    session: Session,
    where: tuple[str, str],
    name: str,
    *,
    is_retained: bool,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Return the exit code. where: namespace and Stack; name: that of the snapshot, "" for one that is made."""
    if refusal := list_execution.find_group_refusal(where[1], what="snapshots"):
        cluster_options.complain(f"error: {refusal}")
        return FAILED
    stack = StackState(await session.get(STACK, *where))
    if refusal := snapshot_requests.find_refusal(stack):
        cluster_options.complain(f"error: {refusal}")
        return FAILED
    body = snapshot_requests.make_snapshot(stack, name=name, is_retained=is_retained)
    created = await session.create(STACK_SNAPSHOT, stack.namespace, body=body)
    made, said = created["metadata"]["name"], safe_text.one_line(snapshot_requests.describe(body))
    click.echo(f"stacksnapshot.hearth.dev/{made} created: {said}")
    for note in snapshot_requests.note_waiting(stack):
        click.echo(f"note: {safe_text.one_line(note)}", err=True)
    return await follow(session, stack.namespace, made, timeout=timeout) if wait else DONE


async def follow(
    session: Session,
    namespace: str,
    name: str,
    *,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Show progress until the snapshot is complete; return the exit code."""
    with progress_output.opened() as progress:
        state = await snapshots.wait_settled(session, namespace, name, show=progress.report, timeout=timeout)
    if state is None:
        cluster_options.complain(f"error: timed out waiting for stacksnapshot/{name}: {progress.last}")
        return FAILED
    if not state.is_complete:
        cluster_options.complain(f"error: stacksnapshot/{name}: {state.message}")
        return FAILED
    click.echo(f"stacksnapshot/{name}: {safe_text.one_line(state.message)}")
    return DONE


async def restore(
    session: Session,
    where: tuple[str, str],
    name: str,
    *,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Return the exit code. where: namespace and Stack; name: that of the snapshot."""
    if refusal := list_execution.find_group_refusal(where[1], what="snapshots"):
        cluster_options.complain(f"error: {refusal}")
        return FAILED
    stack = StackState(await session.get(STACK, *where))
    snapshot = await session.get(STACK_SNAPSHOT, stack.namespace, name)
    result = snapshot_requests.restore(stack, snapshot)
    return await verb_execution.carry_out(session, stack, result, wait=wait, timeout=timeout)
