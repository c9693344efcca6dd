"""Expands a ResourceGroup's spec to a Stack with one resource per member, independently of the operator.

Evaluates only `${index}` and `${key}`, so it does not repeat mistakes of the operator. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any

from hearth.model.child import Object

GROUP = "ResourceGroup"


def find_listed(spec: Mapping[str, Any]) -> set[int]:
    """The indices in the removal policies of a spec."""
    return {int(name) for policy in spec.get("removalPolicies") or () for name in policy["resources"]}


def expand(spec: Mapping[str, Any], *, removed: Collection[int] = ()) -> Object:
    """The spec of a Stack whose resources are the members of a group. removed: the indices removed before."""
    taken = {*removed, *find_listed(spec)}
    free = (index for index in itertools.count() if index not in taken)
    indices = itertools.islice(free, spec.get("replicas", 1))
    template = spec["template"]
    policy: Object = {"updatePolicy": template["updatePolicy"]} if "updatePolicy" in template else {}
    resources = {str(index): {"manifest": fill_in(template["manifest"], index), **policy} for index in indices}
    declared = {name: {"default": value} for name, value in (spec.get("parameters") or {}).items()}
    rest = {key: spec[key] for key in ("paused", "suspended", "parameters") if key in spec}
    return {**rest, "template": {"parameters": declared, "resources": resources}}


def fill_in(value: Any, index: int) -> Any:
    """A manifest with the index of a member in it."""
    if isinstance(value, dict):
        return {key: fill_in(inner, index) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill_in(item, index) for item in value]
    if value == "${index}":
        return index
    return value.replace("${index}", str(index)).replace("${key}", str(index)) if isinstance(value, str) else value
