"""What becomes of an object that nothing wants any more: it is deleted, or released and left as it is."""

from __future__ import annotations

from hearth.model.child import Child
from hearth.plan.state.steps import Delete, Release
from hearth.template.blueprint import Blueprint


def is_retained(child: Child, blueprint: Blueprint) -> bool:
    """Whether the object must outlive its wish: it or the template says so, or it was somebody else's before."""
    return child.must_not_delete or blueprint.abandons or child.resource in blueprint.retained


def plan_removal(child: Child, blueprint: Blueprint) -> Delete | Release | None:
    """The step that lets the object go; None where it is on its way out already.

    What is kept is released even then: somebody else deletes it, and the Stack need not wait for that.
    """
    if is_retained(child, blueprint):
        return Release(child=child)
    return None if child.deleting else Delete(child=child)


def explain_retained(child: Child) -> str:
    """Why no other object can take the place of one that is kept."""
    why = "was adopted" if child.is_adopted else "is to be retained"
    return f"{child.ref} {why}, so it is not deleted to make room for another; delete it yourself"
