"""Follows a HealthMark. Must not know how it is shown."""

from __future__ import annotations

import asyncio

from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.steering import mark_requests
from hearth.cli.stack_views.steering.mark_requests import MarkState
from hearth.kube.well_known_kinds import HEALTH_MARK


async def wait_settled(
    session: Session,
    namespace: str,
    name: str,
    *,
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> MarkState | None:
    """Return the state of the mark once it is rejected, resolved or waits for something else; None after `timeout`."""
    try:
        async with asyncio.timeout(timeout):
            async for mark in session.watch_one(HEALTH_MARK, namespace, name):
                state = mark_requests.read_state(mark)
                if state.is_settled:
                    return state
    except TimeoutError:
        pass
    return None
