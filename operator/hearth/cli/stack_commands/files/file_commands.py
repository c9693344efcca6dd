"""`lint` and `render`: Stacks in files, compiled as the operator does it, with schemas of a cluster or of a folder."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both commands have."""

    @click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        metavar="FILE",
        help="YAML or JSON, optionally compressed by gzip; - is standard input. Repeatable.",
    )
    @click.option(
        "--schemas",
        type=click.Path(exists=True, file_okay=False),
        help="A folder of JSON schemas, as kubeconform uses them.",
    )
    @click.option("--cluster", "uses_cluster", is_flag=True, help="Use the kinds and schemas of the cluster.")
    @cluster_options.cluster_options
    @functools.wraps(command)
    def with_options(*args: Any, **options: Any) -> Any:
        return command(*args, **options)

    return with_options


@click.command(
    cls=ExampleCommand,
    examples=(
        "kubectl stack lint -f stack.yaml",
        "kubectl stack lint -f stack.yaml --schemas ./schemas -o json",
        "kubectl stack lint -f stack.yaml --cluster",
        "kubectl stack lint stacks/*.yaml --output sarif > lint.sarif",
    ),
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@file_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "sarif"], case_sensitive=False),
    default="text",
    show_default=True,
    help="The format.",
)
@click.option("--allow-none", "allows_none", is_flag=True, help="Accept files without a Stack.")
def lint(
    cluster: ClusterOptions, files: tuple[str, ...], more: tuple[str, ...], *, uses_cluster: bool, **options: Any
) -> None:
    """Report all mistakes of the Stacks and ResourceGroups in files. Without schemas, fields of objects are not checked.

    Exit code 0: no mistake; 1: mistakes, or a file cannot be read; 2: a mistake on the command line.
    """
    from hearth.cli.stack_commands.files import file_execution

    if not files and not more:
        raise click.UsageError("name a file: kubectl stack lint -f FILE")
    file_execution.lint(cluster, (*files, *more), uses_cluster=uses_cluster, **options)


@click.command(cls=ExampleCommand, examples=("kubectl stack render -f stack.yaml",))
@file_options
def render(cluster: ClusterOptions, files: tuple[str, ...], schemas: str | None, *, uses_cluster: bool) -> None:
    """Write the manifests that the Stacks and ResourceGroups in files give. What only a run can know is a comment."""
    from hearth.cli.stack_commands.files import file_execution

    if not files:
        raise click.UsageError("name a file: kubectl stack render -f FILE")
    file_execution.render(cluster, files, schemas=schemas, uses_cluster=uses_cluster)
