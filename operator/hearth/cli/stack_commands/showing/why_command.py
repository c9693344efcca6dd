"""`kubectl stack why`: the chain from what is not ready to its root cause, and the command that helps."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_access import evidence, stack_locations
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, stack_argument, text_output
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.exit_codes import DONE, FAILED
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.causes import explanation, stack_causes
from hearth.cli.stack_views.causes.explanation import Cause
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model.text import enumeration


@click.command(
    cls=ExampleCommand,
    examples=(
        "kubectl stack why shop",
        "kubectl stack why shop/web",
        "kubectl stack why shop/cache/db",
        "kubectl stack why rg/queue/3",
        "kubectl stack why webapp/shop",
    ),
)
@click.argument("where", type=stack_argument.StackName(), metavar="NAME[/RESOURCE]")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"], case_sensitive=False), help="The format.")
@cluster_options.cluster_options
def why(cluster: ClusterOptions, where: str, output: str | None) -> None:
    """Explain why a Stack, or one resource, is not ready: who waits for whom, down to the pod, in its own words.

    Each cause has the command that helps or shows more. Exit code 0 if nothing is wrong, 1 otherwise.
    """

    async def work(session: Session) -> int:
        return await execute(session, cluster.find_namespace(), where, output=output)

    cluster_options.run(cluster, work)


async def execute(session: Session, namespace: str, argument: str, *, output: str | None) -> int:
    """Return the exit code: 0 if there is nothing to explain. argument: of a Stack, or of a resource in it."""
    location, path = await stack_locations.locate_within(session, namespace, argument, has_path=True)
    async with StackReader(session, with_groups=True) as reader:
        return await explain(reader, location, path, output=output)


async def explain(reader: StackReader, location: StackLocation, path: Sequence[str], *, output: str | None) -> int:
    """Read and explain; return the exit code."""
    snapshot = await reader.read(location)
    if snapshot is None:
        cluster_options.complain(cluster_options.describe_absence(location))
        return FAILED
    causes = stack_causes.find_causes(
        snapshot, path, await evidence.collect(await reader.find_session(snapshot), snapshot)
    )
    if causes is None:
        listed = (
            list(stack_view.list_members(snapshot.stack)) if snapshot.stack.is_group else sorted(snapshot.resources)
        )
        known = (
            enumeration.enumerate_names(listed, most=stack_view.NAMED_AT_MOST)
            if snapshot.stack.is_group
            else ", ".join(listed)
        )
        cluster_options.complain(
            f"error: {snapshot.stack.title} has no resource {'/'.join(path)!r}; resources: {known or 'none'}"
        )
        return FAILED
    if output:
        text_output.write_object([explanation.to_output(each) for each in causes], output=output)
    else:
        show(snapshot, path, causes)
    return FAILED if causes else DONE


def show(objects: StackObjects, path: Sequence[str], causes: Sequence[Cause]) -> None:
    """Show the explanation."""
    stack = objects.stack
    subject = "/".join((stack.title, *path))
    head = " ".join(part for part in (stack.phase or "New", stack.summary) if part)
    if causes:
        text_output.write_segments([(safe_text.one_line(subject), "bold"), (f"  {safe_text.one_line(head)}", "yellow")])
    else:
        click.echo(safe_text.one_line(f"{subject}: nothing is wrong ({head})"))
    for line in explanation.draw(causes, now=time.time()):
        text_output.write_segments(line)
    for omission in objects.omissions:
        click.echo(f"note: {safe_text.one_line(omission)}", err=True)
