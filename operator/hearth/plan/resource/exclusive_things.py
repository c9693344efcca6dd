"""Finds exclusive properties of an object, for example a host port, that it cannot share with its successor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hearth.model import derived_defaults, kinds, object_fields
from hearth.model.child import Child
from hearth.template.blueprint import Replacement

NAMED_AT_MOST: Final = 3
SERVICE_FIELDS: Final = ("loadBalancerIP", "healthCheckNodePort")
POD: Final = "Pod"


def describe_holder(
    manifest: Mapping[str, Any],
    child: Child | None,
    children: Iterable[Child],
    replacement: Replacement | None,
    *,
    is_name_pinned: bool,
) -> str:
    """Return a clause about an older object that holds a property which the new one needs; "" for none.

    The clause names the way out. child: the new object, None if it could not be created; replacement: the policy of the
    resource; is_name_pinned: whether the manifest sets the name, so that the new object has another one only because
    that name changed.
    """
    holders = [
        each
        for each in children
        if each.is_identified and not each.deleting and (child is None or each.uid != child.uid)
    ]
    if not holders or (replacement is Replacement.DELETE_FIRST and not is_name_pinned):
        return ""
    holder = max(holders, key=lambda each: each.incarnation)
    return describe_held(manifest, str(holder.ref), is_name_pinned=is_name_pinned)


def describe_held(manifest: Mapping[str, Any], holder: str, *, is_name_pinned: bool) -> str:
    """Return the exclusive properties that an older object, `holder`, still has, with advice; "" for none."""
    found = list(dict.fromkeys(find_exclusive(manifest)))
    if not found:
        return ""
    named = ", ".join(found[:NAMED_AT_MOST])
    way = (
        "keep its name, or delete it yourself"
        if is_name_pinned
        else "set updatePolicy.replace: DeleteFirst on the resource"
    )
    return f"; {named} may be held by the old {holder}, which stays until the new object is ready: {way}"


def find_exclusive(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the exclusive properties of a manifest's object: `hostPort 80`."""
    key = kinds.make_key(str(manifest.get("apiVersion", "")).rpartition("/")[0], str(manifest.get("kind", "")))
    spec = object_fields.mapping(manifest, "spec")
    if key == "Service":
        yield from (f"{name} {spec[name]}" for name in SERVICE_FIELDS if spec.get(name))
        for port in object_fields.entries(spec, "ports"):
            if port.get("nodePort"):
                yield f"nodePort {port['nodePort']}"
        return
    path = ("spec",) if key == POD else derived_defaults.POD_SPECS.get(key)
    pod = object_fields.mapping(manifest, *path) if path is not None else object_fields.EMPTY
    for container in (*object_fields.entries(pod, "containers"), *object_fields.entries(pod, "initContainers")):
        for port in object_fields.entries(container, "ports"):
            number = port.get("hostPort") or (port.get("containerPort") if pod.get("hostNetwork") is True else None)
            if number:
                yield f"hostPort {number}"
