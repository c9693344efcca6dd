"""Reads all that may explain a Stack, and shows the explanation."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from hearth.cli.stack_access import evidence
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.showing import list_execution
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.causes import cause_drawing, stack_causes
from hearth.cli.stack_views.causes.cause import Cause
from hearth.cli.stack_views.tree import group_rows, resource_state
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model.text import enumeration

DONE, FAILED = 0, 1


async def execute(session: Session, namespace: str, name: str, path: Sequence[str], *, output: str | None) -> int:
    """Return the exit code: 0 if there is nothing to explain."""
    kind, namespace, name = list_execution.locate(namespace, name)
    snapshot = await StackReader(session, with_groups=True).read(namespace, name, kind=kind)
    if snapshot is None:
        cluster_options.complain(f'Error from server (NotFound): {kind.plural}.{kind.group} "{name}" not found')
        return FAILED
    causes = stack_causes.find_causes(snapshot, path, await evidence.collect(session, snapshot))
    if causes is None:
        listed = (
            list(group_rows.list_members(snapshot.stack)) if snapshot.stack.is_group else sorted(snapshot.resources)
        )
        known = (
            enumeration.enumerate_names(listed, most=resource_state.NAMED_AT_MOST)
            if snapshot.stack.is_group
            else ", ".join(listed)
        )
        cluster_options.complain(
            f"error: {snapshot.stack.title} has no resource {'/'.join(path)!r}; resources: {known or 'none'}"
        )
        return FAILED
    if output:
        text_output.write_object([cause_drawing.to_output(each) for each in causes], output=output)
    else:
        show(snapshot, path, causes)
    return FAILED if causes else DONE


def show(snapshot: StackObjects, path: Sequence[str], causes: Sequence[Cause]) -> None:
    """Show the explanation."""
    stack = snapshot.stack
    subject = "/".join((stack.title, *path))
    head = " ".join(part for part in (stack.phase or "New", stack.summary) if part)
    if causes:
        text_output.write_segments([(safe_text.one_line(subject), "bold"), (f"  {safe_text.one_line(head)}", "yellow")])
    else:
        click.echo(safe_text.one_line(f"{subject}: nothing is wrong ({head})"))
    for line in cause_drawing.draw(causes, now=time.time()):
        text_output.write_segments(line)
    for omission in snapshot.omissions:
        click.echo(f"note: {safe_text.one_line(omission)}", err=True)
