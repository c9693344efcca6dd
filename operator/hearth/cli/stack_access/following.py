"""Sends the patches of a verb and watches a Stack until it reaches a goal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_views.stack_state import SourceKey, StackState
from hearth.cli.stack_views.steering import goals
from hearth.cli.stack_views.steering.goals import Goal, GoalState, GoalVerdict
from hearth.cli.stack_views.steering.rollouts import DefinitionState
from hearth.cli.stack_views.steering.verbs import Write
from hearth.model import errors, object_fields, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK, STACK_DEFINITION

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

Found = TypeVar("Found")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A Stack and the goal to wait for."""

    kind: Kind
    """Stack, or a kind with the same status."""
    namespace: str
    name: str
    goal: Goal
    handled: tuple[str, str] | None = None
    generation: int = 0
    """The minimum generation of the Stack. Earlier states are ignored."""
    sources: Mapping[SourceKey, str] = field(default_factory=dict)
    """The versions of its sources, which the status must have seen as well."""


def make_token() -> str:
    """Return a token that was never used before: the current time, as `flux reconcile` writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def read_source_versions(session: Session, stack: StackState) -> dict[SourceKey, str]:
    """Return the resource versions of the definition's sources that the user is allowed to read."""
    found: dict[SourceKey, str] = {}
    for key in stack.list_sources():
        kind = well_known_kinds.SOURCE_KINDS.get(key[0])
        if kind is not None:
            with contextlib.suppress(errors.ApiStatusError):
                raw = await session.get(kind, key[1], key[2])
                found[key] = object_fields.text(raw, "metadata", "resourceVersion")
    return found


async def follow(
    session: Session, followed: Followed, *, show: Callable[[str], None], seconds: float | None
) -> GoalState | None:
    """Return the state that reached or failed the goal; None after the time limit.

    show: receives the message of each earlier state; seconds: the time limit, None for none.
    """

    def judge(raw: Object | None) -> GoalState | None:
        if raw is not None and (object_fields.number(raw, "metadata", "generation") or 0) < followed.generation:
            return None
        stack = stack_locations.parse(raw, followed.kind) if raw is not None else None
        reached = goals.assess(stack, followed.goal, handled=followed.handled, sources=followed.sources)
        if reached.verdict is not GoalVerdict.WAITING:
            return reached
        show(reached.message)
        return None

    return await wait_until(session, followed.kind, followed.namespace, followed.name, judge, seconds=seconds)


async def wait_until(
    session: Session,
    kind: Kind,
    namespace: str,
    name: str,
    judge: Callable[[Object | None], Found | None],
    *,
    seconds: float | None,
) -> Found | None:
    """Return the first result of `judge` for the states of an object; None after the time limit, if there is one."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for raw in session.watch_one(kind, namespace, name):
                if (found := judge(raw)) is not None:
                    return found
    return None


async def send(session: Session, stack: StackState, write: Write) -> Object:
    """Send the patches of a verb; return the resulting Stack.

    Each patch contains the UID, so that it never changes another Stack with the same name.
    """
    # A nested Stack always has the kind Stack, even within a group or an instance.
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


async def send_to_definition(session: Session, definition: DefinitionState, write: Write) -> None:
    """Send the patches of a verb to a StackDefinition. The UID keeps them from another one with the same name."""
    for patch in write.patches:
        metadata = {**patch["metadata"], "uid": definition.uid}
        await session.patch(STACK_DEFINITION, "", definition.name, body={**patch, "metadata": metadata})


async def wait_observed(session: Session, kind: Kind, patched: Object) -> None:
    """Wait until the operator has observed that generation."""
    metadata = patched["metadata"]
    async for raw in session.watch_one(kind, metadata["namespace"], metadata["name"]):
        observed = object_fields.number(raw, "status", "observedGeneration") or 0
        if raw is None or observed >= metadata["generation"]:
            return
