"""Follows a StackSnapshot. Must not know how it is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.steering.snapshot_requests import SnapshotState
from hearth.kube.well_known_kinds import STACK_SNAPSHOT


async def wait_settled(
    session: Session,
    namespace: str,
    name: str,
    *,
    show: Callable[[str], None],
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> SnapshotState | None:
    """Return the snapshot once it is complete or needs help; None after `timeout`. show: gets each message before."""
    try:
        async with asyncio.timeout(timeout):
            async for raw in session.watch_one(STACK_SNAPSHOT, namespace, name):
                state = SnapshotState(raw)
                if state.is_complete or state.needs_help:
                    return state
                show(state.message)
    except TimeoutError:
        pass
    return None
