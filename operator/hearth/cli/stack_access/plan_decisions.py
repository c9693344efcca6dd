"""Reads the plans of changes that wait for an approval, and sends the decisions of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hearth.cli.stack_access import decision_requests
from hearth.cli.stack_views import plan_output
from hearth.cli.stack_views.plan_output import ShownPlan
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import names
from hearth.model.approvals import Approval, Decision
from hearth.model.well_known_kinds import STACK_PLAN

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

VERBS: Final = ("patch", "approve")
"""The verbs on stackplans that a user needs to decide."""


async def find_plan(session: Session, stack: StackState) -> ShownPlan | None:
    """Return the present plan of the Stack, or None."""
    selector = f"{names.LABEL_STACK}={names.stack_label(stack.name)}"
    return plan_output.choose_plan(await session.list(STACK_PLAN, stack.namespace, selector=selector), stack)


async def can_decide(session: Session, plan: ShownPlan) -> bool:
    """Return whether the user has the rights to decide about the plan. The webhook may refuse the decision all the same."""
    return await session.has_rights(*VERBS, kind=STACK_PLAN, namespace=plan.namespace, name=plan.name)


async def send_decision(session: Session, plan: ShownPlan, decision: Decision, *, reason: str) -> Approval:
    """Write the decision about a plan, and return its stamp. Raises DecisionUnstamped, ApiStatusError and Unreachable."""
    return await decision_requests.send_decision(
        session,
        STACK_PLAN,
        plan.raw["metadata"],
        decision=decision,
        request=decision_requests.write_request(plan.digest, reason),
        read_stamp=lambda written: ShownPlan(written).approval,
    )
