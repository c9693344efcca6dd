"""Causes that block the deletion of a Stack: for example objects with finalizers, and failed deletions.

Only reports them. Must not decide the reaction.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hearth.model.child import Child
from hearth.model.text import enumeration
from hearth.plan.environment.environment_rules import Action
from hearth.plan.resource import enforcement
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_conditions import ExtraCondition
from hearth.plan.status import breakpoint_waits

TYPE = "DeletionBlocked"
"""Type of the condition."""


def find_deletion_block(plan: StackPlan, memory: InMemoryState, *, beyond: str) -> ExtraCondition | None:
    """Return the condition of a Stack that is being deleted; None while the deletion only needs time.

    beyond: the cause that blocks the deletion although no known child is left, "" for none.
    """
    refused = [(attempt.reason, attempt.message) for _, attempt in plan.find_failed_deletions(memory)]
    held = (
        ("HeldByFinalizers", describe(child))
        for child in plan.cleanup.children.values()
        if child.deleting and child.finalizers
    )
    waiting = (("Stopped", f"{wait} waits at a breakpoint") for wait in breakpoint_waits.find_waits(plan))
    denied = (
        (enforcement.RESTRICTED, f"{each.child.ref}: {enforcement.explain_restriction(each.rule, Action.DELETE)}")
        for each in plan.deletion_guard.denied
        if each.rule is not None
    )
    unseen = (
        ("Forbidden", f"{kind.key}: {words}")
        for kind, words in plan.kinds.denied.items()
        if kind in plan.kinds.unsynced
    )
    found = list(itertools.islice(itertools.chain(denied, refused, waiting, held, unseen), enumeration.NAMED_AT_MOST))
    if not found and not beyond:
        return None
    found = found or [("NotGone", beyond)]
    return ExtraCondition(type=TYPE, reason=found[0][0], message="; ".join(text for _, text in found))


def describe(child: Child) -> str:
    """Describe the object, with finalizers while it is being deleted: `configmap/web (held by example.com/backup)`."""
    held = f" (held by {', '.join(child.finalizers)})" if child.deleting and child.finalizers else ""
    return f"{child.ref}{held}"


def describe_all(children: Iterable[Child], *, count: int) -> str:
    """Name the first few objects and count the rest. count: of all objects."""
    return enumeration.enumerate_first(map(describe, children), count=count)
