"""`kubectl stack why` and `events`: explain the root cause of a resource that is not ready, and show a timeline."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import evidence, stack_locations
from hearth.cli.stack_access.following import Followed
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, FAILED, Failure
from hearth.cli.stack_commands.parameters import NAME, Duration, StackName, output_option
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.causes import explanation, stack_causes
from hearth.cli.stack_views.causes.explanation import Cause
from hearth.cli.stack_views.lists import event_timeline
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import errors
from hearth.model.text import enumeration
from hearth.model.well_known_kinds import EVENT

BRIEF_SECONDS: Final = 10.0
"""Time for an explanation that the user did not ask for."""
BRIEF_LINES: Final = 20


@example_command(
    "kubectl stack why shop",
    "kubectl stack why shop/web",
    "kubectl stack why shop/cache/db",
    "kubectl stack why rg/queue/3",
    "kubectl stack why webapp/shop",
)
@click.argument("where", type=StackName(), metavar="NAME[/RESOURCE]")
@output_option("json", "yaml")
@cluster_options.on_cluster
async def why(session: Session, namespace: str, where: str, output: str | None) -> int:
    """Explain why a Stack, or one resource, is not ready: which resource waits for which, down to the messages of the
    Pod.

    Each cause comes with a command that helps or shows more. Exit code 0: nothing is wrong; 1: otherwise.
    """
    location, path = await stack_locations.locate_within(session, namespace, where, has_path=True)
    snapshot, causes = await read_causes(session, location, path)
    if causes is None:
        raise Failure(f"{snapshot.stack.title} has no resource {'/'.join(path)!r}; resources: {list_known(snapshot)}")
    if output:
        text_output.write_object([explanation.to_output(each) for each in causes], output=output)
    else:
        show(snapshot, path, causes)
    return FAILED if causes else DONE


async def read_causes(
    session: Session, location: StackLocation, path: Sequence[str] = ()
) -> tuple[StackObjects, tuple[Cause, ...] | None]:
    """Return a Stack and the causes why it, or one resource, is not ready; None instead of causes without the resource.

    path: into nested Stacks, empty for the Stack.
    """
    async with StackReader(session, with_groups=True) as reader:
        snapshot = await reader.get(location)
        collected = await evidence.collect(await reader.find_session(snapshot), snapshot)
    return snapshot, stack_causes.find_causes(snapshot, path, collected)


async def explain_briefly(session: Session, followed: Followed) -> list[str]:
    """Return the lines of the explanation after a wait that failed; none if the explanation takes too long."""
    location = StackLocation(followed.kind, followed.namespace, followed.name)
    with contextlib.suppress(TimeoutError, errors.ApiStatusError, errors.Unreachable):
        async with asyncio.timeout(BRIEF_SECONDS):
            _, causes = await read_causes(session, location)
        lines = explanation.draw(causes or (), now=time.time())
        return ["".join(text for text, _ in line) for line in lines][:BRIEF_LINES]
    return []


def list_known(objects: StackObjects) -> str:
    """Return the names of the resources; only some names for a group."""
    if objects.stack.is_group:
        members = list(stack_view.list_members(objects.stack))
        return enumeration.enumerate_names(members, most=stack_view.NAMED_AT_MOST) or "none"
    return ", ".join(sorted(objects.resources)) or "none"


def show(objects: StackObjects, path: Sequence[str], causes: Sequence[Cause]) -> None:
    """Show the explanation."""
    stack = objects.stack
    subject = "/".join((stack.title, *path))
    head = " ".join(part for part in (stack.phase or "New", stack.summary) if part)
    if causes:
        text_output.write_segments([(safe_text.one_line(subject), "bold"), (f"  {safe_text.one_line(head)}", "yellow")])
    else:
        click.echo(safe_text.one_line(f"{subject}: nothing is wrong ({head})"))
    text_output.write_lines(explanation.draw(causes, now=time.time()))
    if not causes and stack.target_cause == "Rollback":
        # The definition in the spec does not run, and the message says how to apply it again.
        text_output.write_note(stack.ready.message)
    if stack.expires_at:
        text_output.write_note(f"{stack.title} will be deleted at {stack.expires_at} (expiresAfter)")
    for omission in objects.omissions:
        text_output.write_note(omission)


@example_command("kubectl stack events shop", "kubectl stack events shop --since 1h --types Warning")
@NAME
@click.option("--since", type=Duration(), help="Show only Events of this period, e.g. 30m or 2h.")
@click.option(
    "--types",
    "types",
    type=click.Choice(["Normal", "Warning"], case_sensitive=False),
    help="Warning: hide Normal Events.",
)
@output_option("wide", "json", "yaml", text="Output format. wide: full messages.")
@cluster_options.on_cluster
async def events(
    session: Session, namespace: str, name: str, since: float | None, types: str | None, output: str | None
) -> int:
    """Show Events about a Stack, its revisions, its children, their Pods and nested Stacks, the latest last."""
    location = await stack_locations.locate(session, namespace, name)
    async with StackReader(session, with_groups=True) as reader:
        snapshot = await reader.get(location)
        there = await reader.find_session(snapshot)
        collected = await evidence.collect_timeline(session, snapshot, object_session=there)
    now = time.time()
    entries = event_timeline.sort(
        collected, since=None if since is None else now - since, only_warnings=types == "Warning"
    )
    if output in ("json", "yaml"):
        text_output.write_object([event_timeline.to_output(entry) for entry in entries], output=output)
    else:
        rows = [event_timeline.make_row(entry, now=now) for entry in entries]
        text_output.write_table(
            event_timeline.HEADER, rows, is_wide=output == "wide", optional=("LAST SEEN", "TYPE", "REASON")
        )
    denied = (refused for (kind, _), refused in there.denied.items() if kind == EVENT)
    for omission in (*snapshot.omissions, *(f"not shown: {refused}" for refused in denied)):
        text_output.write_note(omission)
    return DONE
