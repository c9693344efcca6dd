"""`kubectl stack diff`: what a file or a rollback would do."""

from __future__ import annotations

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.stack_argument import StackName
from hearth.model.tenancy import Mode


@click.command(
    cls=ExampleCommand,
    examples=(
        "kubectl stack diff -f stack.yaml",
        "kubectl stack diff shop --to 3",
        "kubectl stack diff -f stack.yaml -o markdown",
    ),
)
@click.argument("name", type=StackName(), metavar="[NAME]", required=False)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="YAML or JSON, optionally compressed by gzip; - is standard input.",
)
@click.option("--to", "number", type=click.IntRange(min=0), metavar="N", help="The revision to roll back to.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "markdown"], case_sensitive=False),
    default="text",
    show_default=True,
    help="The format.",
)
@click.option(
    "--tenancy",
    type=click.Choice([mode.value for mode in Mode], case_sensitive=False),
    default=Mode.ISOLATED.value,
    show_default=True,
    help="The --tenancy of the operator, which the cluster does not tell.",
)
@click.option("--default-service-account", default="", metavar="NAME", help="That of the operator.")
@cluster_options.cluster_options
def diff(  # noqa: PLR0913 -- each is an option
    cluster: ClusterOptions,
    name: str | None,
    files: tuple[str, ...],
    number: int | None,
    output: str,
    tenancy: str,
    default_service_account: str,
) -> None:
    """Show what an apply of a file, or a rollback, would do: by the engine itself, with dry runs. Writes nothing.

    Exit code 0: no change; 1: changes; 2: an error, or a definition with mistakes.
    """
    from hearth.cli.stack_commands.preview import diff_execution
    from hearth.model.tenancy import Tenancy

    if bool(files) == bool(name) or (number is not None) != bool(name):
        raise click.UsageError("pass -f FILE, or NAME with --to N")
    diff_execution.execute(
        cluster,
        files=files,
        rollback=(name, number) if name is not None and number is not None else None,
        output=output,
        tenancy=Tenancy(mode=Mode(tenancy), default_account=default_service_account),
    )
