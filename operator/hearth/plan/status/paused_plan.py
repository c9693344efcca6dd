"""Everything that `spec.paused` prevents: the steps that are due, and those that could only follow them. Pure.

Which of the following resources change is known only once those before them are done, so they are named as such.
"""

from __future__ import annotations

from typing import Final

from hearth.model.text import enumeration
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Apply, Suspend

NAMED_AT_MOST: Final = 50
"""Names of one kind of step: a message is read by people, and has to fit into a condition."""


def describe(plan: StackPlan) -> str:
    """Describe the steps that `spec.paused` prevents now, and what may follow them."""
    due = [
        f"{verb} {enumeration.enumerate_names(sorted(named), most=NAMED_AT_MOST)}"
        for verb, named in sorted(_find_due(plan).items())
    ]
    if not due:
        return "spec.paused is true; no step is pending"
    return "; ".join([f"spec.paused prevents: {', '.join(due)}", *_find_next(plan)])


def _find_due(plan: StackPlan) -> dict[str, list[str]]:
    """Find the names of what the due steps change, by verb."""
    due: dict[str, list[str]] = {}
    for name, step in plan.ready_steps.items():
        if isinstance(step, Apply):
            due.setdefault("apply", []).append(name)
        elif isinstance(step, Suspend):
            due.setdefault(str(step.purpose), []).append(step.child.resource)
        else:
            due.setdefault("delete", []).append(str(step.child.ref))
    return due


def _find_next(plan: StackPlan) -> list[str]:
    """Describe what follows the due steps: resources that wait for them, and deletions that come last."""
    waiting = [name for name in plan.by_state[ResourceState.WAITING] if name not in plan.ready_steps]
    later = [
        str(child.ref)
        for uid, child in plan.cleanup.children.items()
        if uid not in plan.ready_steps and not child.deleting
    ]
    found = []
    if waiting:
        found.append(
            f"then apply, where they differ: {enumeration.enumerate_names(sorted(waiting), most=NAMED_AT_MOST)}"
        )
    if later:
        found.append(f"at last delete {enumeration.enumerate_names(sorted(later), most=NAMED_AT_MOST)}")
    return found
