"""Describes why the deletion of a Stack is blocked, for example by finalizers or failed deletions."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable

from hearth.model import names
from hearth.model.child import Child
from hearth.model.phases import ConditionType
from hearth.model.text import enumeration, finalizers
from hearth.plan.health import health_result, object_reports
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.condition_types import ExtraCondition
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.read_access import Access, Reader
from hearth.plan.status import breakpoint_waits

FORBIDDEN = "Forbidden"
"""The reason of a step that the account of the Stack has no right to."""
QUOTED_LENGTH = 500
"""Characters of an object's own message. The message of a nested Stack may quote further nested Stacks, so the limit
also ends cycles."""


def find_deletion_block(planner: StackPlanner, memory: InMemoryState, *, beyond: str) -> ExtraCondition | None:
    """Return the condition of a Stack that is being deleted; None while the deletion only needs time.

    beyond: the cause that blocks the deletion although no known child is left, "" for none.
    """
    refused = [(attempt.reason, attempt.message) for _, attempt in planner.find_failed_deletions(memory)]
    held = (
        ("HeldByFinalizers", describe_with_cause(child, planner.reader))
        for child in find_first(child for child in planner.cleanup.children.values() if is_held(child, planner.reader))
    )
    waiting = (("Stopped", f"{wait} waits at a breakpoint") for wait in breakpoint_waits.find_waits(planner))
    denied = ((each.reason, f"{each.child.ref}: {each.message}") for each in planner.deletion_guard.denied)
    unseen = (
        ("Forbidden", f"{kind.key}: {words}")
        for kind, words in sorted(planner.kinds.denied.items(), key=lambda each: each[0].key)
        if kind in planner.kinds.unsynced
    )
    found = list(itertools.islice(itertools.chain(denied, refused, waiting, held, unseen), enumeration.NAMED_AT_MOST))
    if not found and not beyond:
        return None
    found = found or [("NotGone", beyond)]
    message = "; ".join(text for _, text in found)
    if planner.reader.boundary.account and any(reason == FORBIDDEN for reason, _ in found):
        message += explain_lost_rights(planner.reader.boundary.account)
    return ExtraCondition(type=ConditionType.DELETION_BLOCKED, reason=found[0][0], message=message)


def explain_lost_rights(account: str) -> str:
    """Explain the remedy if the account of a Stack, or its rights, were deleted before the Stack."""
    return (
        f"; if ServiceAccount {account} or its rights were deleted first, recreate them until the Stack is deleted, or "
        "set another account in spec.serviceAccountName; with spec.deletionPolicy: Abandon, the Stack keeps its "
        "objects and only needs permission to patch them"
    )


def find_first(children: Iterable[Child]) -> list[Child]:
    """Find the first few objects by name, because a restart changes the order of the cache."""
    return heapq.nsmallest(enumeration.NAMED_AT_MOST, children, key=lambda each: str(each.ref))


def is_held(child: Child, reader: Reader) -> bool:
    """Return whether the deletion of the object needs more than time."""
    return child.deleting and bool(finalizers.find_others(child.finalizers) or find_report(child, reader))


def describe(child: Child, *, cause: str = "") -> str:
    """Describe the object, with finalizers while it is being deleted: `configmap/web (held by example.com/backup)`."""
    held = finalizers.describe_hold(child.finalizers) if child.deleting else ""
    why = ", because ".join(part for part in (held, cause) if part)
    return f"{child.ref} ({why})" if why else str(child.ref)


def find_report(child: Child, reader: Reader) -> str:
    """Return what the object reports about its blocked deletion, for readers who may get the object; "" for nothing."""
    report = object_reports.explain_deletion(child.kind.key, child.fields)
    return shorten(report) if report and reader.find(child) is Access.GRANTED else ""


def shorten(text: str) -> str:
    """Return a text of another object, cut if it is long."""
    return text if len(text) <= QUOTED_LENGTH else f"{text[:QUOTED_LENGTH]}…"


def describe_with_cause(child: Child, reader: Reader) -> str:
    """Describe the object. For a nested Stack or a Namespace, add its own report on its blocked deletion.

    reader: the Stack that reads it. Text of another object is shown only to readers who may get that object.
    """
    is_stack = names.is_stack(child.kind.group, child.kind.name)
    if not child.deleting:
        return describe(child)
    if not is_stack or reader.find(child) is not Access.GRANTED:
        return describe(child, cause=find_report(child, reader))
    reported = (
        health_result.read_text(each, "message")
        for each in health_result.read_items(child.fields, "status.conditions")
        if each.get("type") == ConditionType.DELETION_BLOCKED and each.get("status") == "True"
    )
    cause = " ".join(next(reported, "").split())
    return describe(child, cause=shorten(cause))


def describe_all(children: Collection[Child], *, reader: Reader | None = None) -> str:
    """Name the first few objects and count the rest. reader: as for `describe_with_cause`; None: without causes."""
    first = find_first(children)
    named = map(describe, first) if reader is None else (describe_with_cause(child, reader) for child in first)
    return enumeration.enumerate_first(named, count=len(children))
