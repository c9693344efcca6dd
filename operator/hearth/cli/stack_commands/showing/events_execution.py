"""Reads everything with a time that belongs to a Stack, and shows it as one timeline."""

from __future__ import annotations

import time

from hearth.cli.stack_access import evidence
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.showing import list_execution
from hearth.cli.stack_views.lists import event_timeline

DONE, FAILED = 0, 1


async def execute(
    session: Session, namespace: str, name: str, *, since: float | None, only_warnings: bool, output: str | None
) -> int:
    """Return the exit code. since: seconds before now."""
    kind, namespace, name = list_execution.locate(namespace, name)
    snapshot = await StackReader(session, with_groups=True).read(namespace, name, kind=kind)
    if snapshot is None:
        cluster_options.complain(f'Error from server (NotFound): {kind.plural}.{kind.group} "{name}" not found')
        return FAILED
    now = time.time()
    entries = event_timeline.sort(
        await evidence.collect_timeline(session, snapshot),
        since=None if since is None else now - since,
        only_warnings=only_warnings,
    )
    if output in ("json", "yaml"):
        text_output.write_object([event_timeline.to_output(entry) for entry in entries], output=output)
    else:
        rows = [event_timeline.make_row(entry, now=now) for entry in entries]
        text_output.write_table(event_timeline.HEADER, rows, is_wide=output == "wide")
    return DONE
