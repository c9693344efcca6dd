"""`kubectl stack list`: the Stacks and ResourceGroups of a namespace or of all, as a table or as objects."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.stack_argument import StackName

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session
    from hearth.cli.stack_views.stack_state import StackState


@click.command(
    "list",
    cls=ExampleCommand,
    examples=("kubectl stack list", "kubectl stack list -A -o wide", "kubectl stack list -l team=shop -w"),
)
@click.argument("names", nargs=-1, metavar="[NAME]...", type=StackName())
@click.option("-A", "--all-namespaces", is_flag=True, help="The Stacks of all namespaces.")
@click.option("-l", "--selector", default="", help="A label selector.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["wide", "json", "yaml", "name"], case_sensitive=False),
    help="The format; wide: uncut messages.",
)
@click.option("-w", "--watch", is_flag=True, help="Then print each change.")
@cluster_options.cluster_options
def list_(
    cluster: ClusterOptions,
    names: tuple[str, ...],
    selector: str,
    output: str | None,
    *,
    all_namespaces: bool,
    watch: bool,
) -> None:
    """List Stacks, ResourceGroups (rg/NAME) and objects of StackDefinitions with phase, progress, and what needs attention.

    Sensitive parameters are never shown.
    """

    async def work(session: Session) -> int:
        from hearth.cli.stack_commands.showing import list_execution

        namespace = "" if all_namespaces else cluster.find_namespace()
        printer = Printer(output=output, with_namespace=all_namespaces)
        return await list_execution.execute(session, namespace, names, selector, printer=printer, watch=watch)

    cluster_options.run(cluster, work)


class Printer:
    """Prints Stacks in one format."""

    def __init__(self, *, output: str | None, with_namespace: bool) -> None:
        self._output = output
        self._with_namespace = with_namespace

    def show(self, stacks: list[StackState], *, is_first: bool, is_single: bool = False) -> None:
        """Print the Stacks; a table has its header once. is_single: whether one Stack was named."""
        from hearth.cli.stack_views.lists import stack_list

        if self._output == "name":
            for stack in stacks:
                text_output.write_text(stack.reference)
        elif self._output in ("json", "yaml"):
            is_one = is_single or not is_first
            for content in map(stack_list.to_output, stacks) if is_one else [stack_list.to_list(stacks)]:
                text_output.write_object(content, output=self._output)
        else:
            self._show_table(stacks, is_first=is_first)

    def _show_table(self, stacks: list[StackState], *, is_first: bool) -> None:
        from hearth.cli.stack_views.lists import stack_list

        now = time.time()
        rows: list[Any] = [stack_list.make_row(stack, now=now, with_namespace=self._with_namespace) for stack in stacks]
        header = stack_list.make_header(with_namespace=self._with_namespace)
        text_output.write_table(
            header,
            rows,
            is_wide=self._output == "wide",
            with_header=is_first,
            optional=("REVISION", "AGE", "RESOURCES", "STATE"),
        )
