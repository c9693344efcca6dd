"""Lists and watches Stacks, ResourceGroups and instances. Must not know how they are printed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

import click

from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.session import RECONNECT, Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_commands.exit_codes import DONE
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.stack_state import StackState
from hearth.model.kinds import Kind


class StackPrinter(Protocol):
    """Prints Stacks."""

    def show(self, stacks: list[StackState], *, is_first: bool, is_single: bool = False) -> None:
        """Print them."""


async def execute(
    session: Session,
    namespace: str,
    names: Sequence[str],
    selector: str,
    *,
    printer: StackPrinter,
    watch: bool,
) -> int:
    """Return the exit code. namespace: "" for all."""
    if names:
        locations = [await stack_locations.locate(session, namespace, name) for name in names]
        found = [await stack_locations.read(session, each) for each in locations]
        kinds: Collection[Kind] = {each.kind for each in locations}
    else:
        kinds = await stack_locations.list_kinds(session)
        found = await stack_locations.list_all(session, namespace, kinds, selector=selector)
    if found or watch:
        printer.show(found, is_first=True, is_single=len(names) == 1)
    else:
        where = f"{safe_text.one_line(namespace)} namespace" if namespace else "any namespace"
        click.echo(f"No Stacks found in {where}.", err=True)
    if watch:
        wanted = {(each.kind, each.name) for each in found} if names else None
        await asyncio.gather(*(follow(session, kind, namespace, (wanted, selector), found, printer) for kind in kinds))
    return DONE


def find_group_refusal(location: StackLocation, *, what: str) -> str:
    """Return why a command of Stacks does not apply to what an argument names; "" if it does. what: a group lacks."""
    return f"a ResourceGroup has no {what}; name a Stack" if location.is_group else ""


async def follow(
    session: Session,
    kind: Kind,
    namespace: str,
    which: tuple[Collection[tuple[Kind, str]] | None, str],
    found: Sequence[StackState],
    printer: StackPrinter,
) -> None:
    """Print each change of a kind until the user ends it. which: kinds and names, None for all, and a selector."""
    wanted, selector = which
    versions = {stack.uid: stack.raw["metadata"]["resourceVersion"] for stack in found}
    query = {"labelSelector": selector} if selector else {}
    while True:
        # Without a version, the server sends the present state first: what is known of it is not printed again.
        async for _, raw in session.watch(kind, namespace, query=query, version=""):
            stack = stack_locations.parse(raw, kind)
            version = raw["metadata"]["resourceVersion"]
            if (wanted is None or (kind, stack.name) in wanted) and versions.get(stack.uid) != version:
                versions[stack.uid] = version
                printer.show([stack], is_first=False)
        await asyncio.sleep(RECONNECT)
