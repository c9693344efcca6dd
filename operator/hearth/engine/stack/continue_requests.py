"""Handling of `hearth.dev/continue`: clears the breakpoint of one resource, or explains that no resource waits there."""

from __future__ import annotations

from collections.abc import Iterable

from hearth.engine.cluster_objects import StackObject
from hearth.model import members, value_class
from hearth.plan.environment import active_environment
from hearth.plan.resource import enforcement
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.status import breakpoint_waits
from hearth.plan.status.breakpoint_waits import BreakpointWait, StackAddress

MAX_ECHO = 120
"""Characters of a request that an answer repeats."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ContinueResult:
    """The result of one request."""

    message: str
    passed: tuple[tuple[str, str], ...] = ()
    """The resource and its hook; several for members that wait at different hooks, none if no resource waits there."""


def parse(order: str) -> tuple[str, str]:
    """Return resource and hook, "" for any, of `<resource>[/<hook>][@<token>]`."""
    target = order.partition("@")[0]
    resource, _, hook = target.rpartition("/")
    return (resource, hook) if hook in enforcement.HOOKS else (target, "")


def find_address(stack: StackObject | None) -> StackAddress:
    """Return what commands need to name the Stack; an empty address for one that is gone."""
    if stack is None:
        return StackAddress()
    return StackAddress(name=stack.name, namespace=stack.namespace, kind=stack.kind.lower())


def answer(order: str, plan: StackPlanner, address: StackAddress) -> ContinueResult:
    """Answer a request to the Stack `address` after all resources were observed."""
    resource, hook = parse(order)
    waiting = list(breakpoint_waits.find_waits(plan))
    if passed := find_members(resource, hook, waiting):
        message = f"all members continue past {', '.join(each for _, each in passed)}, as hearth.dev/continue requests"
        return ContinueResult(message=message, passed=passed)
    found = next((wait for wait in waiting if wait.resource == resource and hook in ("", wait.hook)), None)
    if found is not None and found.stack:
        # A request applies once. A copy stored in a manifest would conflict with later requests to that Stack itself.
        message = (
            f"hearth.dev/continue: {order[:MAX_ECHO]}: {found.resource} belongs to the nested Stack {found.stack}; "
            f"continue it there: {address.write_continue(found)}"
        )
        return ContinueResult(message=message)
    if found is not None:
        message = f"{resource} continues past {found.hook}, as hearth.dev/continue requests"
        return ContinueResult(message=message, passed=((resource, found.hook),))
    keys = [active_environment.breakpoint_key(wait.resource, wait.hook) for wait in waiting[:5]]
    there = "no resource waits at a breakpoint"
    if keys:
        there = f"waiting breakpoints: {', '.join(keys)}; to continue the first: {address.write_continue(waiting[0])}"
    return ContinueResult(
        message=f"hearth.dev/continue: {order[:MAX_ECHO]}: no resource waits there; {there}{_advise(resource, plan)}"
    )


def find_members(resource: str, hook: str, waiting: Iterable[BreakpointWait]) -> tuple[tuple[str, str], ...]:
    """Return the hooks at which members of a collection wait, if the request is for all of them; otherwise none.

    resource: `workers[*]`, or `*` for the members of a group.
    """
    if resource == members.EVERY and all(members.is_group_member(each.resource) for each in waiting):
        resource = members.name_all(members.GROUP_MEMBER)
    if not members.is_all(resource):
        return ()
    found = (each for each in waiting if members.is_among(each.resource, {resource}) and hook in ("", each.hook))
    return tuple(dict.fromkeys((resource, each.hook) for each in found))


def _advise(resource: str, plan: StackPlanner) -> str:
    """Name the nested Stack that a path leads into. A Stack being deleted accepts no requests."""
    first, slash, rest = resource.partition("/")
    status = plan.statuses.get(first)
    children = [status.child] if status is not None and status.child is not None else []
    children += [child for child in plan.cleanup.children.values() if child.resource == first]
    if not slash or not children:
        return ""
    return f"; if {rest[:MAX_ECHO]} waits within {children[0].ref}, continue it there"
