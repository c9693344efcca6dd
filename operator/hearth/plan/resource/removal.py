"""Removal of an obsolete object: delete it, or release it unchanged."""

from __future__ import annotations

from hearth.model import members
from hearth.model.child import Child
from hearth.plan.state.steps import Delete, Release
from hearth.template.blueprint import Blueprint


def is_retained(child: Child, blueprint: Blueprint) -> bool:
    """Return whether the object outlives the target: by its metadata, by the template, or because it was adopted."""
    return child.must_not_delete or blueprint.abandons or members.root_of(child.resource) in blueprint.retained


def plan_removal(child: Child, blueprint: Blueprint) -> Delete | Release | None:
    """Plan the step that removes the object, or return None if its deletion has already started.

    A retained object is released even then: another client deletes it, and the Stack need not wait for that.
    """
    if is_retained(child, blueprint):
        return Release(child=child)
    return None if child.deleting else Delete(child=child)


def explain_retained(child: Child) -> str:
    """Explain why no other object can take the place of a retained one."""
    why = "was adopted" if child.is_adopted else "has deletionPolicy: Retain"
    return f"{child.ref} {why}, so it is not deleted for a replacement; delete it yourself"
