"""`kubectl stack rehearse`: interrupts a change after each step on a copy, rolls it back and compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.files import diff_command
from hearth.cli.stack_commands.files.diff_command import FAILED
from hearth.cli.stack_commands.parameters import files_option, output_option
from hearth.cli.stack_views import rehearsal_output
from hearth.model.tenancy import Tenancy

if TYPE_CHECKING:
    from hearth.preview.rehearsals import Rehearsal

REVERTED, NOT_REVERTED = 0, 1


@example_command(
    "kubectl stack rehearse -f stack.yaml",
    "kubectl stack rehearse -f stack.yaml --all",
    "kubectl stack rehearse -f stack.yaml -o json",
)
@files_option(required=True)
@click.option("--all", "rehearses_all", is_flag=True, help="Interrupt a change of many steps after each of them.")
@output_option("text", "json", default="text")
@cluster_options.tenancy_options
@cluster_options.cluster_options
def rehearse(
    cluster: ClusterOptions,
    files: tuple[str, ...],
    rehearses_all: bool,
    output: str,
    tenancy: Tenancy,
) -> None:
    """Rehearse the way back of a change. Runs the engine on a copy of the cluster's state, interrupts the change after
    each step, rolls it back, and compares the objects with those at the start. Writes nothing.

    The way back of a new Stack is its deletion. Nested Stacks count as one object. A change of more than 49 steps is
    interrupted at 50 evenly chosen points.

    Exit code 0: everything comes back; 1: something does not; 2: an error, or a definition with mistakes.
    """
    # This imports the engine, which is slow and not needed for `--help`.
    from hearth.cli.stack_access import stack_previews

    stated = diff_command.read_files(files)
    if not stated.stacks or stated.definitions:
        raise click.UsageError("pass files with Stacks: a StackDefinition or an instance cannot be rehearsed")

    async def work(session: Session) -> int:
        found: list[Rehearsal] = []
        is_failed = False
        for file in stated.stacks:
            tried = await diff_command.try_file(session, file, namespace=cluster.find_namespace())
            if tried is None:
                is_failed = True
                continue
            previewer = stack_previews.StackPreviewer(session=session, tenancy=tenancy, beside=tried.beside)
            with text_output.open_progress() as progress:
                made = await previewer.rehearse(
                    tried.present,
                    tried.wanted,
                    rehearses_all=rehearses_all,
                    report=lambda done, total: progress.report(f"{done} of {total} interruptions rehearsed"),
                )
            found.append(made)
        write(found, output=output)
        if is_failed or any(each.preview.rejection for each in found):
            return FAILED
        return REVERTED if all(each.is_reverted for each in found) else NOT_REVERTED

    stack_previews.silence_engine()
    cluster_options.run(cluster, work, failure=FAILED)


def write(found: list[Rehearsal], *, output: str) -> None:
    """Write the rehearsals."""
    if output == "json":
        text_output.write_object([rehearsal_output.to_output(each) for each in found], output="json")
        return
    for at, each in enumerate(found):
        if at:
            click.echo()
        text_output.write_lines(rehearsal_output.list_lines(each))
