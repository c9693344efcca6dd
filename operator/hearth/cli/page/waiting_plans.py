"""Finds the plans that Stacks on open pages wait for, without reading them for each update of a page."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from hearth.cli.page import shown_plan
from hearth.cli.page.shown_plan import WaitingChange
from hearth.cli.stack_access import plan_decisions
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import errors, limits, object_fields

FRESH_SECONDS: Final = 10.0
"""Maximum age of a plan that is shown again while the Stack reports no change."""
REFUSALS: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
"""Answers after which a Stack is shown without its plan."""


class WaitingPlans:
    """The waiting changes that one user looks at."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: OrderedDict[str, tuple[Mapping[str, Any], float, WaitingChange]] = OrderedDict()
        """By UID of the Stack, what it reported about the change, when the plan was read, and the change."""

    async def find(self, stack: StackState) -> WaitingChange | None:
        """Return the change of a Stack that waits for an approval, or None. Raises ApiStatusError and Unreachable."""
        if not shown_plan.waits_for_approval(stack):
            self._found.pop(stack.uid, None)
            return None
        now, held = asyncio.get_running_loop().time(), object_fields.mapping(stack.status, "heldChange")
        known = self._found.pop(stack.uid, None)
        if known is None or known[0] != held or now - known[1] > FRESH_SECONDS:
            known = held, now, await self._read(stack)
        self._found[stack.uid] = known
        if len(self._found) > limits.PAGE_STREAMS:
            self._found.popitem(last=False)
        return known[2]

    async def _read(self, stack: StackState) -> WaitingChange:
        try:
            plan = await plan_decisions.find_plan(self._session, stack)
        except errors.ApiStatusError as refused:
            if refused.code not in REFUSALS:
                raise
            plan = None
        return shown_plan.describe_waiting(stack, plan)
