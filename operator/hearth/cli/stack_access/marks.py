"""Follows a HealthMark. Must not know how it is shown."""

from __future__ import annotations

import asyncio

from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import mark_requests
from hearth.cli.stack_views.steering.mark_requests import MarkState
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.kube.well_known_kinds import HEALTH_MARK
from hearth.model import names
from hearth.model.groups import members


async def has_mark(session: Session, stack: StackState, resource: str) -> bool:
    """Return whether an object of the resource is marked, or a mark of it waits; True if that cannot be read."""
    waiting = await session.list(HEALTH_MARK, stack.namespace)
    if any(mark_requests.is_waiting(each, stack, resource) for each in waiting):
        return True
    snapshot: StackObjects | None = await StackReader(session, with_groups=True).complete(stack)
    first, *rest = resource.split("/")
    if stack.is_group:
        first = members.name_member(members.GROUP_MEMBER, first)
    while rest and snapshot is not None and not snapshot.unreadable:
        child = snapshot.choose_children().get(first)
        snapshot = snapshot.nested.get(child.uid) if child is not None else None
        first, *rest = rest
    if snapshot is None or snapshot.unreadable:
        return True
    return any(
        names.ANNOTATION_UNHEALTHY in child.annotations for child in snapshot.children if child.resource == first
    )


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
