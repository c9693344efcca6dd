"""Reads everything with a time that belongs to a Stack, and shows it as one timeline."""

from __future__ import annotations

import time
from collections.abc import Iterator

from hearth.cli.stack_access import owned_objects, revisions
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_views.lists import event_timeline
from hearth.cli.stack_views.lists.event_timeline import TimelineEntry
from hearth.cli.stack_views.tree.snapshot import StackSnapshot

DONE, FAILED = 0, 1


async def execute(
    session: Session, namespace: str, name: str, *, since: float | None, only_warnings: bool, output: str | None
) -> int:
    """Return the exit code. since: seconds before now."""
    snapshot = await StackReader(session).read(namespace, name)
    if snapshot is None:
        cluster_options.complain(f'Error from server (NotFound): stacks.hearth.dev "{name}" not found')
        return FAILED
    now = time.time()
    entries = event_timeline.sort(
        await collect(session, snapshot), since=None if since is None else now - since, only_warnings=only_warnings
    )
    if output in ("json", "yaml"):
        text_output.write_object([event_timeline.to_output(entry) for entry in entries], output=output)
    else:
        rows = [event_timeline.make_row(entry, now=now) for entry in entries]
        text_output.write_table(event_timeline.HEADER, rows, is_wide=output == "wide")
    return DONE


async def collect(session: Session, snapshot: StackSnapshot) -> list[TimelineEntry]:
    """Return all entries, unsorted."""
    namespaces = owned_objects.list_namespaces(snapshot)
    uids = event_timeline.list_uids(snapshot)
    owned = await owned_objects.list_owned(session, namespaces, uids, only_metadata=True)
    uids |= {each.uid: each.name for each in owned}
    entries = list(event_timeline.describe_events(await owned_objects.list_events(session, namespaces), uids))
    for each in walk(snapshot):
        stored = await revisions.list_revisions(session, each.stack)
        entries += event_timeline.describe_revisions(stored.by_number, f"stack.hearth.dev/{each.stack.name}")
        entries += event_timeline.describe_deletions(each)
    return entries


def walk(snapshot: StackSnapshot) -> Iterator[StackSnapshot]:
    """Yield the Stack and all nested ones."""
    yield snapshot
    for nested in snapshot.nested.values():
        yield from walk(nested)
