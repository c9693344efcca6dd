"""`kubectl stack list` and `ui`: show all Stacks as a table, as objects or as a page in the browser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from hearth.cli.command_classes import example_command
from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import DONE
from hearth.cli.stack_commands.parameters import StackName, output_option
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.lists import stack_list
from hearth.cli.stack_views.stack_state import StackState
from hearth.model.kinds import Kind

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session


@example_command(
    "kubectl stack list",
    "kubectl stack list -A -o wide",
    "kubectl stack list -l team=shop -w",
    name="list",
)
@click.argument("names", nargs=-1, metavar="[NAME]...", type=StackName())
@click.option("-A", "--all-namespaces", is_flag=True, help="List the Stacks of all namespaces.")
@click.option("-l", "--selector", default="", help="Label selector, e.g. team=shop.")
@output_option("wide", "json", "yaml", "name", text="Output format. wide: full messages.")
@click.option("-w", "--watch", is_flag=True, help="Print every later change, until Ctrl-C.")
@cluster_options.on_cluster
async def list_(  # noqa: PLR0913 -- each is an option
    session: Session,
    namespace: str,
    names: tuple[str, ...],
    selector: str,
    output: str | None,
    *,
    all_namespaces: bool,
    watch: bool,
) -> int:
    """List Stacks, ResourceGroups (rg/NAME) and instances of StackDefinitions with phase, progress and problems.

    Sensitive parameters are never shown.
    """
    namespace = "" if all_namespaces else namespace
    printer = Printer(output=output, with_namespace=all_namespaces)
    if names:
        locations = [await stack_locations.locate(session, namespace, name) for name in names]
        found = [await stack_locations.read(session, each) for each in locations]
        kinds: Collection[Kind] = {each.kind for each in locations}
    else:
        known = await stack_locations.list_kinds(session)
        found = await stack_locations.list_all(session, namespace, known, selector=selector)
        kinds = [kind for kind in known if (kind, namespace) not in session.denied]
        for refused in session.denied.values():
            text_output.write_note(f"not shown: {refused}")
    if found or watch:
        printer.show(found, is_first=True, is_single=len(names) == 1)
    else:
        where = f"{safe_text.one_line(namespace)} namespace" if namespace else "any namespace"
        click.echo(f"No Stacks found in {where}.", err=True)
    if watch:
        wanted = {(each.kind, each.name) for each in found} if names else None
        await asyncio.gather(*(follow(session, kind, namespace, (wanted, selector), found, printer) for kind in kinds))
    return DONE


class Printer:
    """Prints Stacks in one format."""

    def __init__(self, *, output: str | None, with_namespace: bool) -> None:
        self._output = output
        self._with_namespace = with_namespace

    def show(self, stacks: list[StackState], *, is_first: bool, is_single: bool = False) -> None:
        """Print the Stacks; a table has its header once. is_single: whether the user named one Stack."""
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


async def follow(
    session: Session,
    kind: Kind,
    namespace: str,
    which: tuple[Collection[tuple[Kind, str]] | None, str],
    found: Sequence[StackState],
    printer: Printer,
) -> None:
    """Print each change until the user stops. which: kinds and names, None for all, and a selector."""
    from hearth.cli.stack_access.session import RECONNECT

    wanted, selector = which
    versions = {stack.uid: stack.raw["metadata"]["resourceVersion"] for stack in found}
    query = {"labelSelector": selector} if selector else {}
    while True:
        # Without a version, the server sends the current state first. Known rows are not printed again.
        async for _, raw in session.watch(kind, namespace, query=query, version=""):
            stack = stack_locations.parse(raw, kind)
            version = raw["metadata"]["resourceVersion"]
            if (wanted is None or (kind, stack.name) in wanted) and versions.get(stack.uid) != version:
                versions[stack.uid] = version
                printer.show([stack], is_first=False)
        await asyncio.sleep(RECONNECT)


@example_command("kubectl stack ui -n prod", "kubectl stack ui -A --port 8001")
@click.option("-A", "--all-namespaces", is_flag=True, help="List the Stacks of all namespaces.")
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65_535),
    default=0,
    help="Port on 127.0.0.1. Default: a free port.",
)
@cluster_options.on_cluster
async def ui(session: Session, namespace: str, port: int, *, all_namespaces: bool) -> int:
    """Serve a page on loopback until Ctrl-C, with Stacks as live graphs and a button for each action.

    Requests to the cluster use your own credentials. The URL contains a token: anyone who has it can act with your
    permissions. It works only from this machine.
    """
    from hearth.cli.page import server

    # The page cannot prompt on the terminal while it serves.
    is_allowed = bool(click.get_current_context().meta[cluster_options.KEY].other_clusters)
    session.may_connect = lambda _: is_allowed
    await server.serve_forever(session, namespace="" if all_namespaces else namespace, port=port, show=show_address)
    return DONE


def show_address(address: str) -> None:
    """Show the address."""
    click.echo(f"Open {address}\nCtrl-C ends it.")
