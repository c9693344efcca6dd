"""Reads a Stack and shows it as a tree, once or until the user ends it."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.showing import list_execution
from hearth.cli.stack_views.tree import stack_view, tree_view
from hearth.cli.stack_views.tree.stack_view import StackView
from hearth.kube.well_known_kinds import RESOURCE_GROUP, STACK
from hearth.model.kinds import Kind

PAUSE: Final = 0.5
"""Seconds between two snapshots, at least."""
PAUSE_FACTOR: Final = 3
"""A snapshot of a large Stack costs the API server more: the pause is so many times as long as it took."""
DONE, FAILED = 0, 1


async def execute(session: Session, namespace: str, name: str, *, watch: bool) -> int:
    """Return the exit code."""
    reader = StackReader(session, with_groups=True)
    kind, namespace, name = list_execution.locate(namespace, name)
    view = await observe(reader, kind, namespace, name)
    if not view.exists:
        cluster_options.complain(f'Error from server (NotFound): {kind.plural}.{kind.group} "{name}" not found')
        return FAILED
    if watch:
        await follow(reader, view)
    else:
        for line in tree_view.draw(view, now=time.time()):
            text_output.write_segments(line)
    return DONE


async def observe(reader: StackReader, kind: Kind, namespace: str, name: str) -> StackView:
    """Return the Stack as it is now."""
    snapshot = await reader.read(namespace, name, kind=kind)
    if snapshot is None:
        return StackView(name=name, namespace=namespace, is_group=kind is RESOURCE_GROUP, exists=False)
    return stack_view.describe(snapshot)


async def follow(reader: StackReader, view: StackView) -> None:
    """Show the Stack as it changes, until it is deleted or the user ends it."""
    import rich.console

    from hearth.cli.stack_commands import terminal_output

    began = time.monotonic()
    console = rich.console.Console(highlight=False)
    with terminal_output.opened(console) as output:
        while True:
            output.show(view, seconds=time.monotonic() - began, now=time.time())
            if not view.exists:
                return
            started = time.monotonic()
            kind = RESOURCE_GROUP if view.is_group else STACK
            view = await observe(reader, kind, view.namespace, view.name)
            await asyncio.sleep(max(PAUSE, PAUSE_FACTOR * (time.monotonic() - started)))
