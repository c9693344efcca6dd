"""Handling of `hearth.dev/continue`: clears the breakpoint of one resource, or explains that no resource waits there."""

from __future__ import annotations

from dataclasses import dataclass

from hearth.plan.environment import cleared_breakpoints
from hearth.plan.resource import enforcement
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.status import breakpoint_waits

MAX_ECHO = 120
"""Characters of a request that an answer repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueResult:
    """The result of one request."""

    message: str
    passed: tuple[str, str] | None = None
    """The resource and its hook; None if no resource waits there."""


def parse(order: str) -> tuple[str, str]:
    """Return resource and hook, "" for any, of `<resource>[/<hook>][@<token>]`."""
    target = order.partition("@")[0]
    resource, _, hook = target.rpartition("/")
    return (resource, hook) if hook in enforcement.HOOKS else (target, "")


def answer(order: str, plan: StackPlan) -> ContinueResult:
    """Answer a request after all resources were observed."""
    resource, hook = parse(order)
    waiting = list(breakpoint_waits.find_waits(plan))
    found = next((wait for wait in waiting if wait.resource == resource and hook in ("", wait.hook)), None)
    if found is not None and found.stack:
        # A request applies once. A copy stored in a manifest would conflict with later requests to that Stack itself.
        message = (
            f"hearth.dev/continue: {order[:MAX_ECHO]}: {found.resource} belongs to the nested Stack {found.stack}; "
            f"annotate that one with hearth.dev/continue: {found.continue_value}"
        )
        return ContinueResult(message=message)
    if found is not None:
        message = f"{resource} continues past {found.hook}, as hearth.dev/continue requests"
        return ContinueResult(message=message, passed=(resource, found.hook))
    keys = [cleared_breakpoints.breakpoint_key(wait.resource, wait.hook) for wait in waiting[:5]]
    there = f"waiting breakpoints: {', '.join(keys)}" if keys else "no resource waits at a breakpoint"
    return ContinueResult(
        message=f"hearth.dev/continue: {order[:MAX_ECHO]}: no resource waits there; {there}{_advise(resource, plan)}"
    )


def _advise(resource: str, plan: StackPlan) -> str:
    """Name the nested Stack that a path leads into. A Stack being deleted accepts no requests."""
    first, slash, rest = resource.partition("/")
    status = plan.statuses.get(first)
    children = [status.child] if status is not None and status.child is not None else []
    children += [child for child in plan.cleanup.children.values() if child.resource == first]
    if not slash or not children:
        return ""
    return f"; if {rest[:MAX_ECHO]} waits within {children[0].ref}, annotate that one"
