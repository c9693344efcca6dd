"""`snapshot` and `restore`: a StackSnapshot, and the way back to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.exit_codes import DONE, FAILED
from hearth.cli.stack_commands.showing import list_execution
from hearth.cli.stack_commands.stack_argument import NAME
from hearth.cli.stack_commands.steering import progress_output, verb_execution
from hearth.cli.stack_commands.steering.verb_commands import verb
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.steering import snapshot_requests
from hearth.cli.stack_views.steering.snapshot_requests import SnapshotState
from hearth.model.well_known_kinds import STACK_SNAPSHOT


@click.command(
    cls=ExampleCommand,
    examples=("kubectl stack snapshot shop", "kubectl stack snapshot shop --name before-migration --wait"),
)
@NAME
@click.option("--name", "snapshot_name", default="", help="The name of the StackSnapshot. Default: NAME and a suffix.")
@click.option("--retain", is_flag=True, help="Keep the VolumeSnapshots when the StackSnapshot is deleted.")
@verb
def snapshot(
    cluster: ClusterOptions, name: str, snapshot_name: str, *, retain: bool, wait: bool, timeout: float | None
) -> None:
    """Keep the complete revision of a Stack, and a VolumeSnapshot of each of its volumes, as a StackSnapshot."""

    async def work(session: Session) -> int:
        where = cluster.find_namespace(), name
        return await take(session, where, snapshot_name, is_retained=retain, wait=wait, timeout=timeout)

    cluster_options.run(cluster, work)


@click.command(cls=ExampleCommand, examples=("kubectl stack restore shop before-migration --wait",))
@NAME
@click.argument("snapshot_name", metavar="SNAPSHOT")
@verb
def restore(cluster: ClusterOptions, name: str, snapshot_name: str, *, wait: bool, timeout: float | None) -> None:
    """Go back to a StackSnapshot: to its revision, with the data of its volumes. Once more if it was restored before."""

    async def work(session: Session) -> int:
        where = cluster.find_namespace(), name
        return await restore_snapshot(session, where, snapshot_name, wait=wait, timeout=timeout)

    cluster_options.run(cluster, work)


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
    location = await stack_locations.locate(session, *where)
    if refusal := list_execution.find_group_refusal(location, what="snapshots"):
        cluster_options.complain(f"error: {refusal}")
        return FAILED
    stack = await stack_locations.read(session, location)
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
        state = await wait_settled(session, namespace, name, show=progress.report, timeout=timeout)
    if state is None:
        cluster_options.complain(f"error: timed out waiting for stacksnapshot/{name}: {progress.last}")
        return FAILED
    if not state.is_complete:
        cluster_options.complain(f"error: stacksnapshot/{name}: {state.message}")
        return FAILED
    click.echo(f"stacksnapshot/{name}: {safe_text.one_line(state.message)}")
    return DONE


async def restore_snapshot(
    session: Session,
    where: tuple[str, str],
    name: str,
    *,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> int:
    """Return the exit code. where: namespace and Stack; name: that of the snapshot."""
    location = await stack_locations.locate(session, *where)
    if refusal := list_execution.find_group_refusal(location, what="snapshots"):
        cluster_options.complain(f"error: {refusal}")
        return FAILED
    stack = await stack_locations.read(session, location)
    snapshot = await session.get(STACK_SNAPSHOT, stack.namespace, name)
    result = snapshot_requests.restore(stack, snapshot)
    return await verb_execution.carry_out(session, stack, result, wait=wait, timeout=timeout)


async def wait_settled(
    session: Session,
    namespace: str,
    name: str,
    *,
    show: Callable[[str], None],
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> SnapshotState | None:
    """Return the snapshot once it is complete or needs help; None after `timeout`. show: gets each message before."""
    try:
        async with asyncio.timeout(timeout):
            async for raw in session.watch_one(STACK_SNAPSHOT, namespace, name):
                state = SnapshotState(raw)
                if state.is_complete or state.needs_help:
                    return state
                show(state.message)
    except TimeoutError:
        pass
    return None
