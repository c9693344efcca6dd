"""Field ownership as in the API server: the leaves of an object, their owners, and merging sets of leaves.

A leaf is a path of the elements that `managedFields` uses (`f:spec`, `k:{"name":"web"}`, `v:"x"`). Works on the shape
of objects; requests and times are in `managed_fields`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

FieldPath: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[FieldPath]

LIST_KEYS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "containers"): ("name",),
    ("", "initContainers"): ("name",),
    ("", "env"): ("name",),
    ("", "volumes"): ("name",),
    ("", "volumeMounts"): ("mountPath",),
    ("", "volumeDevices"): ("devicePath",),
    ("", "imagePullSecrets"): ("name",),
    ("", "hostAliases"): ("ip",),
    ("", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("", "conditions"): ("type",),
    ("", "ownerReferences"): ("uid",),
    ("", "webhooks"): ("name",),
    ("containers", "ports"): ("containerPort", "protocol"),
    ("initContainers", "ports"): ("containerPort", "protocol"),
    ("Service.spec", "ports"): ("port", "protocol"),
    ("ServiceAccount", "secrets"): ("name",),
}
"""The keyed lists, by the name of their parent ("" for any) and their own."""
SETS = frozenset({"finalizers"})
ATOMIC_MAPS = frozenset({("", "nodeSelector"), ("", "labelSelector"), ("", "selector")})
DEFAULTS = {"protocol": "TCP"}
"""Defaults of keys that an item may omit."""
UNOWNED_METADATA = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds", "generateName", "selfLink"}
)
ITEM = object()
"""The value of a leaf that is itself a list item, or a map under free-form fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the fields of one kind are merged, where that differs from the rule."""

    kind: str
    is_custom: bool = False
    """Whether the kind is custom. Its lists are atomic, except the lists in the metadata."""
    free: tuple[tuple[str, ...], ...] = ()
    """Paths of free-form fields (`x-kubernetes-preserve-unknown-fields`). Lists below them are atomic, and maps have an
    entry of their own."""
    has_status: bool = True


def list_keys(shape: Shape, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The keys of the list at `path`, () for a set, None for an atomic list."""
    name, above = path[-1], path[-2] if len(path) > 1 else ""
    if name in SETS and above == "metadata":
        return ()
    if shape.is_custom and path[0] != "metadata":
        return None
    for holder in (above, ".".join((shape.kind, *path[:-1])), ""):
        if (holder, name) in LIST_KEYS:
            return LIST_KEYS[(holder, name)]
    return None


def is_atomic_map(shape: Shape, path: tuple[str, ...]) -> bool:
    """Whether the map at `path` has one owner as a whole."""
    if shape.is_custom or ("", path[-1]) not in ATOMIC_MAPS:
        return False
    return shape.kind != "Service" or path != ("spec", "selector")


def item_element(item: Any, keys: tuple[str, ...]) -> str:
    """The element for an item of a keyed list or set in `managedFields`."""
    if not keys:
        return "v:" + json.dumps(item, separators=(",", ":"))
    values = {key: item.get(key, DEFAULTS.get(key)) for key in keys}
    return "k:" + json.dumps({key: values[key] for key in sorted(keys)}, separators=(",", ":"))


def flatten(value: Any, shape: Shape) -> dict[FieldPath, Any]:
    """Every leaf of an object that a user can own, with its value; without the status if that is a subresource."""
    leaves: dict[FieldPath, Any] = {}
    for key, inner in value.items():
        if key in {"apiVersion", "kind"} or (key == "status" and shape.has_status):
            continue
        if key == "metadata":
            inner = {name: held for name, held in inner.items() if name not in UNOWNED_METADATA}  # noqa: PLW2901 -- the same value, without parts that have no owner
            if not inner:
                continue
        collect(inner, shape, ("f:" + key,), (key,), leaves)
    return leaves


def collect(value: Any, shape: Shape, path: FieldPath, names: tuple[str, ...], leaves: dict[FieldPath, Any]) -> None:
    """Add the leaves at and below `path` to `leaves`."""
    if isinstance(value, dict) and value and not is_atomic_map(shape, names):
        if len(names) > 1 and any(names[: len(free)] == free for free in shape.free):
            leaves[path] = ITEM
        for key, inner in value.items():
            collect(inner, shape, (*path, "f:" + key), (*names, key), leaves)
        return
    keys = list_keys(shape, names) if isinstance(value, list) else None
    if keys is None:
        leaves[path] = value
        return
    for item in value:
        element = item_element(item, keys)
        leaves[(*path, element)] = ITEM
        if keys:
            for key, inner in item.items():
                collect(inner, shape, (*path, element, "f:" + key), (*names, key), leaves)


def field_set(value: Any, shape: Shape) -> FieldSet:
    """The leaves of an object, without their values."""
    return frozenset(flatten(value, shape))


def to_fields_v1(fields: Iterable[FieldPath]) -> dict[str, Any]:
    """A set as `fieldsV1` writes it: nested, with "." for a member that has members below it."""
    tree: dict[str, Any] = {}
    for path in sorted(fields):
        node = tree
        for element in path[:-1]:
            node = node.setdefault(element, {})
        node.setdefault(path[-1], {})
    members = frozenset(fields)
    mark_members(tree, (), members)
    return tree


def mark_members(tree: dict[str, Any], path: FieldPath, members: FieldSet) -> None:
    """Put "." where a member has members below it."""
    for element, inner in list(tree.items()):
        if inner:
            mark_members(inner, (*path, element), members)
            if (*path, element) in members:
                inner["."] = {}


def from_fields_v1(tree: Mapping[str, Any], path: FieldPath = ()) -> Iterator[FieldPath]:
    """The members of a `fieldsV1`."""
    for element, inner in tree.items():
        if element == ".":
            yield path
        elif not inner:
            yield (*path, element)
        else:
            yield from from_fields_v1(inner, (*path, element))


def dotted(path: FieldPath) -> str:
    """A path as the server's conflict messages write it: `.spec.containers[name="web"].image`."""
    text = ""
    for element in path:
        if element.startswith("f:"):
            text += "." + element[2:]
        elif element.startswith("k:"):
            pairs = json.loads(element[2:])
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in pairs.items()) + "]"
        else:
            text += f"[={element[2:]}]"
    return text


def is_key(path: FieldPath) -> bool:
    """Whether a leaf is a key field of its list item."""
    return len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in json.loads(path[-2][2:])


def merge(live: Any, wanted: Any, shape: Shape, names: tuple[str, ...] = ()) -> Any:
    """`live` with all fields that `wanted` sets; neither is changed."""
    if isinstance(live, dict) and isinstance(wanted, dict) and not (names and is_atomic_map(shape, names)):
        merged = dict(live)
        for key, inner in wanted.items():
            merged[key] = merge(live.get(key), inner, shape, (*names, key))
        return merged
    keys = list_keys(shape, names) if isinstance(wanted, list) and names else None
    if keys is None or not isinstance(live, list):
        return wanted
    return merge_items(live, wanted, shape, names, keys)


def merge_items(
    live: list[Any], wanted: list[Any], shape: Shape, names: tuple[str, ...], keys: tuple[str, ...]
) -> list[Any]:
    """Merge two keyed lists: the live order, then new items."""
    stated = {item_element(item, keys): item for item in wanted}
    merged = []
    for item in live:
        element = item_element(item, keys)
        merged.append(merge(item, stated.pop(element), shape, names) if element in stated else item)
    return [*merged, *stated.values()]


def remove(value: Any, path: FieldPath, shape: Shape, names: tuple[str, ...] = ()) -> Any:
    """`value` without the leaf at `path`; maps that become empty are removed as well (None)."""
    element, rest = path[0], path[1:]
    if isinstance(value, list):
        keys = list_keys(shape, names) or ()
        kept = [item for item in value if item_element(item, keys) != element]
        found = [item for item in value if item_element(item, keys) == element]
        if rest and found:
            kept = [remove(item, rest, shape, names) if item_element(item, keys) == element else item for item in value]
        return kept or None
    key = element[2:]
    if not isinstance(value, dict) or key not in value:
        return value
    inner = remove(value[key], rest, shape, (*names, key)) if rest else None
    kept_map = {name: held for name, held in value.items() if name != key or inner is not None}
    if inner is not None:
        kept_map[key] = inner
    return kept_map or None
