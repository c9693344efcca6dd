"""The status of a StackPlan, and the messages about a change that waits for one. Nothing reads the status back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from hearth.model import names, phases
from hearth.model.approvals import Approval
from hearth.model.child import Object
from hearth.model.text import times
from hearth.plan.status import conditions
from hearth.plan.target.change_plans import PlanPhase

FAILED: Final = frozenset({PlanPhase.REJECTED, PlanPhase.FAILED, PlanPhase.EXPIRED, PlanPhase.SUPERSEDED})
NO_WEBHOOK: Final = (
    "it cannot be approved, because the operator does not serve its admission webhook; enable the webhook "
    "(chart value webhook.enabled)"
)


class NamedStack(Protocol):
    """A Stack with its name."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def namespace(self) -> str:
        """The namespace."""


def build_status(phase: PlanPhase, message: str, *, generation: int, before: Mapping[str, Any], now: float) -> Object:
    """Return the status of a plan. before: the present one; now: seconds since the epoch."""
    listed = before.get("conditions")
    known = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return {
        "phase": str(phase),
        "observedGeneration": generation,
        "conditions": conditions.build_conditions(
            _find_conditions(phase),
            headline=(str(phase), message),
            generation=generation,
            before=known,
            now=times.format_time(now),
        ),
    }


def _find_conditions(phase: PlanPhase) -> phases.PhaseConditions:
    if phase is PlanPhase.COMPLETED:
        return phases.DONE
    if phase in FAILED:
        return phases.FAILED
    return phases.WORKING if phase in (PlanPhase.APPROVED, PlanPhase.RUNNING) else phases.STOPPED


def describe_wait(stack: NamedStack, plan: str, *, digest: str, expiry: float, is_approvable: bool) -> str:
    """Return what a user can do about a plan that waits. plan: its name; expiry: seconds since the epoch."""
    where = f"StackPlan {plan} waits for an approval until {times.format_time(expiry)}"
    if not is_approvable:
        return f"{where}; {NO_WEBHOOK}"
    decide = f"{stack.name} {digest[: names.PLAN_DIGITS]} --namespace {stack.namespace}"
    return f"{where}; approve it with kubectl stack approve {decide}, or reject it with kubectl stack reject {decide}"


def describe_rejection(stack: NamedStack, plan: str, approval: Approval) -> str:
    """Return what a user can do after a rejection. plan: its name."""
    reason = f": {approval.reason}" if approval.reason else ""
    return f"{approval.user} rejected StackPlan {plan}{reason}; {_advise(stack)}"


def describe_expiry(stack: NamedStack, plan: str, expiry: float) -> str:
    """Return what a user can do about a plan that expired. plan: its name; expiry: seconds since the epoch."""
    return f"StackPlan {plan} expired at {times.format_time(expiry)}; {_advise(stack)}"


def _advise(stack: NamedStack) -> str:
    retry = f"kubectl stack retry {stack.name} --namespace {stack.namespace}"
    return f"change the Stack, or request another plan with {retry}"
