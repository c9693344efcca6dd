"""Whether the deletion of a Stack is forbidden: by `spec.protected` of the Stack, or of one that would be deleted with it.

Only decides. `hearth.engine.stack.stack_deletion` holds the deletion of a Stack, and the planner that of nested Stacks.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import orjson

from hearth.engine import relatives
from hearth.engine.cluster_objects import StackObject
from hearth.engine.services import Services
from hearth.engine.work_queue import DirtyScope
from hearth.model import instance_fields, limits, names, object_fields
from hearth.model.child import Child
from hearth.model.kinds import Kind
from hearth.plan.stack import options
from hearth.template.blueprint import Blueprint
from hearth.template.parser import policies


def explain_own(stack: StackObject) -> str:
    """Return which field protects a Stack, and the way out; "" if none does."""
    settings = stack.settings
    if not stack.definition or not options.is_protected(settings):
        return explain(settings)
    stated = orjson.loads(stack.packed_stated or b"{}")
    if object_fields.find(stated, instance_fields.OPTIONS, "protected") is True:
        return f"spec.{instance_fields.OPTIONS}.protected is true; set it to false first"
    return f"spec.defaults.protected of StackDefinition {stack.definition} is true; set it to false first"


def explain(spec: Mapping[str, Any]) -> str:
    """Return how to lift the protection that the spec of a Stack or ResourceGroup requests; "" for none."""
    return "spec.protected is true; set it to false first" if options.is_protected(spec) else ""


def explain_nested(child: Child, services: Services, *, depth: int = limits.NESTED_DEPTH) -> str:
    """Return why a nested Stack is not deleted: it is protected, or contains one that is; "" if it may be deleted.

    The parent's label alone proves nothing, so naming a Stack as the parent of another one does not hold its deletion.
    """
    nested = services.management_cluster.find_stack(child.uid)
    if nested is None:
        # Another process works on it, or it is in another cluster.
        is_stack = names.is_stack(child.kind.group, child.kind.name)
        own = explain(object_fields.mapping(child.fields, "spec")) if is_stack else ""
    else:
        own = explain_own(nested)
    if own:
        return f"{child.ref} is protected: its {own}"
    if nested is None or depth <= 0 or nested.settings.get("deletionPolicy") == policies.ABANDON:
        return ""
    return find_within(nested.uid, services, depth=depth - 1)


def find_within(
    uid: str, services: Services, *, blueprint: Blueprint | None = None, depth: int = limits.NESTED_DEPTH
) -> str:
    """Return which nested Stack protects the one that contains it, and the way out; "" if none does.

    blueprint: of the outer Stack; None if it is not loaded. Retained nested Stacks protect nothing, because they stay.
    """
    # While thousands of objects are deleted, each reconcile looks at all that are left.
    is_stack = functools.cache(functools.partial(is_nestable, services=services))
    for children in services.find_children_cluster(uid).children(uid).values():
        for child in children:
            if not (is_stack(child.kind) and child.is_identified) or relatives.is_retained(child, blueprint):
                continue
            if found := explain_nested(child, services, depth=depth):
                return found
    return ""


def is_nestable(kind: Kind, services: Services) -> bool:
    """Return whether objects of the kind are Stacks: also ResourceGroups, and instances of StackDefinitions."""
    return names.is_stack(kind.group, kind.name) or services.management_cluster.find_forms(kind.key) is not None


def notify_outer(uid: str, services: Services) -> None:
    """Let the Stacks around this one plan again: it may hold their deletion, or not any longer."""
    for node in services.management_cluster.tree.climb(uid, most=limits.NESTED_DEPTH + 1):
        if node.uid != uid:
            services.queue.enqueue(node.uid, DirtyScope.ALL_RESOURCES)
