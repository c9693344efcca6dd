"""Lists and watches Stacks and ResourceGroups. Must not know how they are printed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import click

from hearth.cli.stack_access import owned_objects
from hearth.cli.stack_access.session import RECONNECT, Session
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.exit_codes import DONE
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.lists import stack_list
from hearth.cli.stack_views.stack_state import StackState
from hearth.kube.well_known_kinds import RESOURCE_GROUP, STACK
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
        found = [StackState(await session.get(*locate(namespace, name))) for name in names]
    else:
        stacks = await session.list(STACK, namespace, selector=selector)
        groups = await owned_objects.list_allowed(session, RESOURCE_GROUP, namespace, selector=selector)
        found = stack_list.sort(map(StackState, [*stacks, *groups]))
    if found or watch:
        printer.show(found, is_first=True, is_single=len(names) == 1)
    else:
        where = f"{safe_text.one_line(namespace)} namespace" if namespace else "any namespace"
        click.echo(f"No Stacks found in {where}.", err=True)
    if watch:
        await asyncio.gather(
            *(follow(session, kind, namespace, (names, selector), found, printer) for kind in (STACK, RESOURCE_GROUP))
        )
    return DONE


def locate(namespace: str, name: str) -> tuple[Kind, str, str]:
    """Return where the object is that an argument names: `rg/queue` is a ResourceGroup."""
    group = cluster_options.strip_group_kind(name)
    return (STACK, namespace, name) if group == name else (RESOURCE_GROUP, namespace, group)


def find_group_refusal(name: str, *, what: str) -> str:
    """Return why a command of Stacks does not apply to what an argument names; "" if it does. what: a group lacks."""
    is_group = locate("", name)[0] is RESOURCE_GROUP
    return f"a ResourceGroup has no {what}; name a Stack" if is_group else ""


async def follow(
    session: Session,
    kind: Kind,
    namespace: str,
    which: tuple[Sequence[str], str],
    found: Sequence[StackState],
    printer: StackPrinter,
) -> None:
    """Print each change of a kind until the user ends it."""
    names, selector = which
    wanted = {name for each, _, name in (locate(namespace, name) for name in names) if each is kind}
    versions = {stack.uid: stack.raw["metadata"]["resourceVersion"] for stack in found}
    query = {"labelSelector": selector} if selector else {}
    while True:
        # Without a version, the server sends the present state first: what is known of it is not printed again.
        async for _, raw in session.watch(kind, namespace, query=query, version=""):
            stack = StackState(raw)
            version = raw["metadata"]["resourceVersion"]
            if (not names or stack.name in wanted) and versions.get(stack.uid) != version:
                versions[stack.uid] = version
                printer.show([stack], is_first=False)
        await asyncio.sleep(RECONNECT)
