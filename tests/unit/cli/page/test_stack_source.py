"""Snapshots of Stacks for all requests of the page."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hearth.cli.page.stack_source import StackSource
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK


class HangingSession:
    """A session that never answers for the Stack `slow`, and knows no other one."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Hang for `slow`."""
        self.asked.append(name)
        if name == "slow":
            await asyncio.Event().wait()
        return None


def locate(name: str) -> StackLocation:
    return StackLocation(kind=STACK, namespace="prod", name=name)


async def test_a_stack_that_cannot_be_read_delays_no_other() -> None:
    session = HangingSession()
    source = StackSource(cast(Session, cast(Any, session)), namespace="prod")
    slow = [asyncio.create_task(source.read(locate("slow"))) for _ in range(2)]

    assert await asyncio.wait_for(source.read(locate("quick")), timeout=5) is None
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert session.asked.count("slow") == 1
