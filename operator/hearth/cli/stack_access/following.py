"""Sends what a verb writes, and follows a Stack until a goal is reached. Must not know how progress is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hearth.cli import object_fields
from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import goals
from hearth.cli.stack_views.steering.goals import Goal, GoalState, Verdict
from hearth.cli.stack_views.steering.verbs import Write
from hearth.model import value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What to wait for, on one Stack."""

    kind: Kind
    """Stack, or a kind with the same status."""
    namespace: str
    name: str
    goal: Goal
    handled: tuple[str, str] | None = None
    generation: int = 0
    """The generation that the Stack has at least: an earlier state is not judged."""


async def follow(
    session: Session,
    followed: Followed,
    *,
    show: Callable[[StackState | None, GoalState], None],
    timeout: float | None,  # noqa: ASYNC109 -- the time limit of the user, not of a request
) -> GoalState | None:
    """Return the state in which the goal is reached or has failed; None when the time is over. timeout: seconds."""
    try:
        async with asyncio.timeout(timeout):
            async for raw in session.watch_one(followed.kind, followed.namespace, followed.name):
                if raw is not None and (object_fields.number(raw, "metadata", "generation") or 0) < followed.generation:
                    continue
                stack = stack_locations.parse(raw, followed.kind) if raw is not None else None
                reached = goals.assess(stack, followed.goal, handled=followed.handled)
                show(stack, reached)
                if reached.verdict is not Verdict.WAITING:
                    return reached
    except TimeoutError:
        pass
    return None


async def send(session: Session, stack: StackState, write: Write) -> Object:
    """Send the patches of a verb; return the Stack as it then is.

    Each patch names the UID, so that it never meets another Stack of that name.
    """
    # A nested Stack is one, also within a group or an instance.
    kind = STACK if write.stack else stack.kind
    name = write.stack or stack.name
    answer: Object = stack.raw
    for index, patch in enumerate(write.patches):
        if index:
            await wait_observed(session, kind, answer)
        metadata = dict(patch.get("metadata") or {})
        if not write.stack:
            metadata["uid"] = stack.uid
        answer = await session.patch(kind, stack.namespace, name, body={**patch, "metadata": metadata})
    return answer


async def wait_observed(session: Session, kind: Kind, patched: Object) -> None:
    """Return once the operator has observed that generation."""
    metadata = patched["metadata"]
    async for raw in session.watch_one(kind, metadata["namespace"], metadata["name"]):
        observed = object_fields.number(raw, "status", "observedGeneration") or 0
        if raw is None or observed >= metadata["generation"]:
            return
