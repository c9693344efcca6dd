"""Reads all that may explain a Stack, and shows the explanation."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from hearth.cli.stack_access import evidence
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.causes import cause_drawing, stack_causes
from hearth.cli.stack_views.causes.cause import Cause
from hearth.cli.stack_views.tree.snapshot import StackSnapshot

DONE, FAILED = 0, 1


async def execute(session: Session, namespace: str, name: str, path: Sequence[str], *, output: str | None) -> int:
    """Return the exit code: 0 if there is nothing to explain."""
    snapshot = await StackReader(session).read(namespace, name)
    if snapshot is None:
        cluster_options.complain(f'Error from server (NotFound): stacks.hearth.dev "{name}" not found')
        return FAILED
    causes = stack_causes.find_causes(snapshot, path, await evidence.collect(session, snapshot))
    if causes is None:
        known = ", ".join(sorted(snapshot.resources)) or "none"
        cluster_options.complain(f"error: stack/{name} has no resource {'/'.join(path)!r}; resources: {known}")
        return FAILED
    if output:
        text_output.write_object([cause_drawing.to_output(each) for each in causes], output=output)
    else:
        show(snapshot, path, causes)
    return FAILED if causes else DONE


def show(snapshot: StackSnapshot, path: Sequence[str], causes: Sequence[Cause]) -> None:
    """Show the explanation."""
    stack = snapshot.stack
    subject = "/".join((stack.name, *path))
    head = " ".join(part for part in (stack.phase or "New", stack.summary) if part)
    if not causes:
        click.echo(safe_text.one_line(f"stack/{subject}: nothing is wrong ({head})"))
        return
    text_output.write_segments(
        [(safe_text.one_line(f"stack/{subject}"), "bold"), (f"  {safe_text.one_line(head)}", "yellow")]
    )
    for line in cause_drawing.draw(causes, now=time.time()):
        text_output.write_segments(line)
    for omission in snapshot.unreadable:
        click.echo(f"note: {safe_text.one_line(omission)}", err=True)
