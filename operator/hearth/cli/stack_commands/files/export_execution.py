"""Reads a Stack, and writes its objects as plain manifests."""

from __future__ import annotations

import click

from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.showing import list_execution
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.files import stack_export
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.template.text import kubectl_yaml

DONE, FAILED = 0, 1


async def execute(session: Session, namespace: str, name: str, *, with_sensitive: bool) -> int:
    """Return the exit code: 1 if the user may not read all objects."""
    kind, namespace, name = list_execution.locate(namespace, name)
    snapshot = await StackReader(session).read(namespace, name, kind=kind)
    if snapshot is None:
        cluster_options.complain(f'Error from server (NotFound): {kind.plural}.{kind.group} "{name}" not found')
        return FAILED
    if snapshot.unreadable:
        # Half of a Stack would pass for the whole.
        for omission in snapshot.unreadable.values():
            cluster_options.complain(f"error: {omission}")
        return FAILED
    write(snapshot, with_sensitive=with_sensitive)
    return DONE


def write(snapshot: StackObjects, *, with_sensitive: bool) -> None:
    """Write the manifests on standard output, and what is missing on standard error."""
    for child in stack_export.list_children(snapshot):
        if stack_export.is_secret(child) and not with_sensitive:
            note(f"{child} is left out; --include-secrets writes it")
            continue
        manifest, withheld = stack_export.export(snapshot, child, with_sensitive=with_sensitive)
        for each in withheld:
            becomes = f"`import` makes it the parameter {each.parameter} without a value"
            note(f"{child}: {each} is sensitive and left out; {becomes}; --include-secrets writes it")
        click.echo("---")
        click.echo(kubectl_yaml.write(manifest), nl=False)


def note(text: str) -> None:
    """Write a note on standard error."""
    click.echo(f"note: {safe_text.one_line(text)}", err=True)
