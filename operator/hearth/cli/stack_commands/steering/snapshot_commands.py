"""`snapshot` and `restore`: a StackSnapshot, and the way back to it."""

from __future__ import annotations

import click

from hearth.cli.command_classes import ExampleCommand
from hearth.cli.stack_access import following, stack_locations
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands import text_output
from hearth.cli.stack_commands.cluster_options import DONE, Failure
from hearth.cli.stack_commands.parameters import NAME
from hearth.cli.stack_commands.steering import verb_execution
from hearth.cli.stack_commands.steering.verb_execution import Waiting, verb
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.steering import snapshot_requests
from hearth.cli.stack_views.steering.snapshot_requests import SnapshotState
from hearth.model.child import Object
from hearth.model.well_known_kinds import STACK_SNAPSHOT


@click.command(
    cls=ExampleCommand,
    examples=("kubectl stack snapshot shop", "kubectl stack snapshot shop --name before-migration --wait"),
)
@NAME
@click.option("--name", "snapshot_name", default="", help="The name of the StackSnapshot. Default: NAME and a suffix.")
@click.option("--retain", is_flag=True, help="Keep the VolumeSnapshots when the StackSnapshot is deleted.")
@verb
async def snapshot(
    session: Session, namespace: str, name: str, snapshot_name: str, waiting: Waiting, *, retain: bool
) -> int:
    """Keep the complete revision of a Stack, and a VolumeSnapshot of each of its volumes, as a StackSnapshot."""
    stack = await stack_locations.get_stack(session, namespace, name, wanted="snapshots")
    if refusal := snapshot_requests.find_refusal(stack):
        raise Failure(refusal)
    body = snapshot_requests.make_snapshot(stack, name=snapshot_name, is_retained=retain)
    created = await session.create(STACK_SNAPSHOT, stack.namespace, body=body)
    made, said = created["metadata"]["name"], safe_text.one_line(snapshot_requests.describe(body))
    click.echo(f"stacksnapshot.hearth.dev/{made} created: {said}")
    for note in snapshot_requests.note_waiting(stack):
        text_output.write_note(note)
    return await follow(session, stack.namespace, made, seconds=waiting.seconds) if waiting.is_wanted else DONE


async def follow(session: Session, namespace: str, name: str, *, seconds: float | None) -> int:
    """Show progress until the snapshot is complete or needs help; return the exit code. seconds: the time limit."""
    with text_output.open_progress() as progress:

        def judge(raw: Object | None) -> SnapshotState | None:
            found = SnapshotState(raw)
            if found.is_complete or found.needs_help:
                return found
            progress.report(found.message)
            return None

        state = await following.wait_until(session, STACK_SNAPSHOT, namespace, name, judge, seconds=seconds)
    if state is None:
        raise Failure(f"timed out waiting for stacksnapshot/{name}: {progress.last}")
    if not state.is_complete:
        raise Failure(f"stacksnapshot/{name}: {state.message}")
    click.echo(f"stacksnapshot/{name}: {safe_text.one_line(state.message)}")
    return DONE


@click.command(cls=ExampleCommand, examples=("kubectl stack restore shop before-migration --wait",))
@NAME
@click.argument("snapshot_name", metavar="SNAPSHOT")
@verb
async def restore(session: Session, namespace: str, name: str, snapshot_name: str, waiting: Waiting) -> int:
    """Go back to a StackSnapshot: to its revision, with the data of its volumes. Once more if it was restored before."""
    stack = await stack_locations.get_stack(session, namespace, name, wanted="snapshots")
    stored = await session.get(STACK_SNAPSHOT, stack.namespace, snapshot_name)
    return await verb_execution.carry_out(session, stack, snapshot_requests.restore(stack, stored), waiting)
