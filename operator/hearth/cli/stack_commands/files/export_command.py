"""`kubectl stack export`: prints the objects of a Stack as plain manifests."""

from __future__ import annotations

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE, FAILED
from hearth.cli.stack_commands.parameters import NAME
from hearth.cli.stack_views import shown_objects
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.template.text import kubectl_yaml


@example_command("kubectl stack export shop > shop.yaml", "kubectl stack export shop --include-secrets > shop.yaml")
@NAME
@click.option("--include-secrets", is_flag=True, help="Also print Secrets and sensitive values, in plain text.")
@cluster_options.on_cluster
async def export(session: Session, namespace: str, name: str, *, include_secrets: bool) -> int:
    """Print the objects of a Stack as plain manifests, without fields that the API server and Hearth filled in.

    Secrets, and fields with sensitive values in other objects, are left out unless --include-secrets is set. Objects
    keep their names, so `kubectl stack import --adopt` can create a Stack that takes them over, with a parameter for
    each field that was left out.
    """
    location = await stack_locations.locate(session, namespace, name)
    async with StackReader(session) as reader:
        snapshot = await reader.get(location)
    if snapshot.unreadable:
        # A partial export would look complete.
        for omission in snapshot.unreadable.values():
            cluster_options.complain(f"error: {omission}")
        return FAILED
    write(snapshot, with_sensitive=include_secrets)
    return DONE


def write(objects: StackObjects, *, with_sensitive: bool) -> None:
    """Write the manifests to standard output, and a list of missing values to standard error."""
    for child in shown_objects.list_exported(objects):
        if shown_objects.is_secret(child) and not with_sensitive:
            text_output.write_note(f"{child} is left out; --include-secrets writes it")
            continue
        manifest, withheld = shown_objects.export(objects, child, with_sensitive=with_sensitive)
        for each in withheld:
            becomes = f"`import` makes it the parameter {each.parameter} without a value"
            text_output.write_note(f"{child}: {each} is sensitive and left out; {becomes}; --include-secrets writes it")
        click.echo("---")
        click.echo(kubectl_yaml.write(manifest), nl=False)
