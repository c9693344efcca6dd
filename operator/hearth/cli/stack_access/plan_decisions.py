"""Reads the plans of changes that wait for an approval, and sends the decisions of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hearth.cli.stack_views import plan_output
from hearth.cli.stack_views.plan_output import ShownPlan
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import errors, limits, names
from hearth.model.approvals import Approval, Decision
from hearth.model.well_known_kinds import STACK_PLAN

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

UNSTAMPED: Final = (
    "the decision does not count, because the cluster has no admission webhook for StackPlans, which checks the right to "
    "decide; ask an administrator to enable the webhook of the operator"
)
VERBS: Final = ("patch", "approve")
"""The verbs on stackplans that a user needs to decide."""


class DecisionUnstamped(errors.HearthError):
    """The decision was written, but nothing checked it; the administrator must enable the webhook."""


async def find_plan(session: Session, stack: StackState) -> ShownPlan | None:
    """Return the present plan of the Stack, or None."""
    selector = f"{names.LABEL_STACK}={names.stack_label(stack.name)}"
    return plan_output.choose_plan(await session.list(STACK_PLAN, stack.namespace, selector=selector), stack)


async def can_decide(session: Session, plan: ShownPlan) -> bool:
    """Return whether the user has the rights to decide about the plan. The webhook may refuse the decision all the same."""
    return await session.has_rights(*VERBS, kind=STACK_PLAN, namespace=plan.namespace, name=plan.name)


async def send_decision(session: Session, plan: ShownPlan, decision: Decision, *, reason: str) -> Approval:
    """Write the decision about a plan, and return its stamp. Raises DecisionUnstamped, ApiStatusError and Unreachable.

    The UID makes sure that the plan is still the same object.
    """
    key = names.REQUEST_APPROVE if decision is Decision.APPROVED else names.REQUEST_REJECT
    request = f"{plan.digest} {reason[: limits.APPROVAL_REASON]}".strip()

    async def annotate(annotations: dict[str, str | None]) -> ShownPlan:
        body = {"metadata": {"uid": plan.uid, "annotations": annotations}}
        return ShownPlan(await session.patch(STACK_PLAN, plan.namespace, plan.name, body=body))

    if key in plan.annotations:
        # From a time without a webhook. The same value again would be no change, and the webhook would not see it.
        await annotate({key: None})
    written = await annotate({key: request})
    stamp = written.approval
    if stamp is None or any(key in written.annotations for key in (names.REQUEST_APPROVE, names.REQUEST_REJECT)):
        raise DecisionUnstamped(f"stackplan/{plan.name}: {UNSTAMPED}")
    return stamp
