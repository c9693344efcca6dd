"""Finds fields that were removed from a manifest and that an apply does not remove from the object.

An apply removes a field that the operator no longer applies, unless another field manager owns it. Three causes can
keep the field anyway. The API server may copy it from the old object (`spec.clusterIP: None` of a Service). The object
may have the same field under a deprecated name (`serviceAccount`). Or the record of field ownership was lost, and the
API server attributed all fields to a placeholder manager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import orjson

from hearth.model import child, names
from hearth.model.child import FieldOwnership, Object
from hearth.model.kinds import Kind
from hearth.plan.ownership import apply_obstacles, field_ownership
from hearth.plan.ownership.apply_obstacles import FieldsPath, Owners
from hearth.plan.ownership.field_ownership import Node

PLACEHOLDER = "before-first-apply"
"""The field manager that the API server records for the fields of an object without a record of ownership."""
MISSING = object()
"""Placeholder for the value of a missing field."""
ALLOCATED = frozenset({"f:clusterIP", "f:clusterIPs", "f:ipFamilies", "f:nodePort", "f:healthCheckNodePort"})
"""Fields of a Service that the API server chooses if the definition does not set them. Once chosen, their values
stay."""
HEADLESS = ("None", ["None"])
"""Values of the address fields that the API server never chooses."""


def find_leaving(manifest: Object, owned: FieldOwnership) -> tuple[FieldsPath, ...]:
    """Return the fields that the operator owns and the manifest no longer sets. A list item counts as a whole."""
    found: list[FieldsPath] = []
    for element, owned_fields in field_ownership.read_fields(owned).items():
        key = element[2:]
        if key not in field_ownership.UNOWNED and states_all(owned_fields, manifest.get(key)):
            continue
        if key == "metadata":
            kept = {
                name: value for name, value in owned_fields.items() if name[2:] not in field_ownership.UNOWNED_METADATA
            }
            found += find_unstated(kept, manifest["metadata"], (element,))
        elif key not in field_ownership.UNOWNED:
            found += find_unstated({element: owned_fields}, manifest, ())
    return tuple(path for path in found if not is_bookkeeping(path))


def states_all(owned_fields: Node, stated: Any) -> bool:
    """Return whether a map certainly sets all fields that the operator owns there; False if that needs a closer look.

    Most changes remove no field, and this runs before each of them.
    """
    pending = [(owned_fields, stated)]
    while pending:
        owned, values = pending.pop()
        if not isinstance(values, dict):
            return False
        for element, below in owned.items():
            if element != ".":
                value = values.get(element[2:])
                if value is None or element[0] != "f":
                    return False
                if below:
                    pending.append((below, value))
    return True


def find_unstated(owned_fields: Node, stated: Any, path: FieldsPath) -> Iterator[FieldsPath]:
    """Find the fields below `path` that the operator owns and the manifest does not set."""
    if isinstance(stated, dict):
        for element, below in owned_fields.items():
            value = stated.get(element[2:]) if element.startswith("f:") else None
            if value is not None:
                # Most owned fields have nothing below them.
                if below:
                    yield from find_unstated(below, value, (*path, element))
            elif element != ".":
                yield from find_leaves(below, (*path, element))
    elif isinstance(stated, list):
        yield from find_unstated_items(owned_fields, stated, path)


def find_unstated_items(owned_fields: Node, stated: list[Any], path: FieldsPath) -> Iterator[FieldsPath]:
    """Find owned fields that the manifest does not set, in a list whose items have separate owners."""
    entries = {element: child.parse_key(element) for element in owned_fields if element.startswith("k:")}
    items = {at: item for at, item in enumerate(stated) if isinstance(item, dict)}
    keys = frozenset(name for key in entries.values() for name in key)
    pairs = {element: at for at, element in field_ownership.pair_items(items, entries, names=keys)}
    for element, below in owned_fields.items():
        if element in pairs:
            yield from find_unstated(below, items[pairs[element]], (*path, element))
        elif element in entries or (element.startswith("v:") and orjson.loads(element[2:]) not in stated):
            yield (*path, element)


def find_leaves(owned_fields: Node, path: FieldsPath) -> Iterator[FieldsPath]:
    """Find the smallest owned fields at and below a path; list items count as a whole."""
    if field_ownership.is_leaf(owned_fields) or not path[-1].startswith("f:"):
        yield path
        return
    for element, below in owned_fields.items():
        if element != ".":
            yield from find_leaves(below, (*path, element))


def is_bookkeeping(path: FieldsPath) -> bool:
    """Whether the operator uses this label or annotation to track its objects."""
    return path[:2] in child.TEXT_MAPS and path[-1].startswith(f"f:{names.GROUP}/")


def find_remaining(leaving: Iterable[FieldsPath], predicted: Object) -> list[FieldsPath]:
    """Return the fields that still exist after the apply and that no other field manager owns."""
    return [
        path
        for path in leaving
        if read(predicted, path) is not MISSING and not find_owners(predicted, path) - {PLACEHOLDER}
    ]


def find_attributed(remaining: Iterable[FieldsPath], predicted: Object) -> list[FieldsPath]:
    """Return the fields that still exist because the placeholder owns them."""
    return [path for path in remaining if find_owners(predicted, path)]


def find_unchanged(remaining: Iterable[FieldsPath], live: Object, predicted: Object, *, kind: Kind) -> list[FieldsPath]:
    """Return the fields that the apply keeps, except fields whose values the API server may choose.

    Some of them may have their default value.
    """
    return [
        path
        for path in remaining
        if (value := read(predicted, path)) == read(live, path) and not is_allocated(kind, path, value)
    ]


def is_allocated(kind: Kind, path: FieldsPath, value: Any) -> bool:
    """Return whether the API server could have chosen the value for a new object as well."""
    return kind.key == "Service" and path[-1] in ALLOCATED and value not in HEADLESS


def find_owners(raw: Object, path: FieldsPath) -> set[str]:
    """Return the field managers other than the operator that own a field."""
    entries = raw["metadata"].get("managedFields") or ()
    owned_fields = child.find_entry(entries)
    others = (each for each in entries if each is not owned_fields)
    return {str(each.get("manager", "")) for each in others if owns(each.get("fieldsV1") or {}, path)}


def owns(fields: Node, path: FieldsPath) -> bool:
    """Return whether an entry of `managedFields` owns a field, a part of it, or a whole parent."""
    for at, element in enumerate(path):
        if at and not fields:
            return True
        if element not in fields:
            return False
        fields = fields[element]
    return True


def read(value: Any, path: FieldsPath) -> Any:
    """Return the value at a path, `MISSING` without one."""
    for element in path:
        if element.startswith("f:"):
            value = value.get(element[2:], MISSING) if isinstance(value, dict) else MISSING
        else:
            value = next((item for item in find_items(value) if is_item(item, element)), MISSING)
        if value is MISSING:
            break
    return value


def find_items(value: Any) -> list[Any]:
    """Return the items of a list; of anything else, none."""
    return value if isinstance(value, list) else []


def is_item(item: Any, element: str) -> bool:
    """Return whether the element of a path names this item of a list."""
    return item == orjson.loads(element[2:]) if element.startswith("v:") else apply_obstacles.is_named(item, element)


def find_different(paths: Iterable[FieldsPath], live: Object, created: Object) -> list[FieldsPath]:
    """Return the fields whose live value a new object would not have."""
    return [path for path in paths if read(created, path) != read(live, path)]


def find_outdated_defaults(manifest: Object, live: Object, created: Object) -> list[FieldsPath]:
    """Return the fields of the object that no manager owns and that a new object would not have.

    The API server set them as defaults for another definition. created: a predicted new object.
    """
    owners = apply_obstacles.find_owners(live, with_subresources=True)
    return [
        path
        for key, value in apply_obstacles.strip(live).items()
        for path in find_outdated(
            manifest.get(key), value, created.get(key, MISSING), owners.at(f"f:{key}"), (f"f:{key}",)
        )
    ]


def find_outdated_annotations(manifest: Object, live: Object, created: Object) -> list[str]:
    """Return the annotations that no manager owns and that a new object would not have."""
    owners = apply_obstacles.find_owners(live).at("f:metadata").at("f:annotations")
    stated, new = (raw["metadata"].get("annotations") or {} for raw in (manifest, created))
    return [
        key
        for key in live["metadata"].get("annotations") or {}
        if key not in stated and key not in new and owners.at(f"f:{key}").is_unowned
    ]


def find_outdated(stated: Any, live: Any, created: Any, owners: Owners, path: FieldsPath) -> Iterator[FieldsPath]:
    """Find the fields at and below a path that no manager owns and that a new object would not have."""
    if owners.is_owned_whole:
        return
    if stated is None and owners.is_unowned and created is MISSING:
        yield path
    elif isinstance(live, dict) and isinstance(created, dict):
        values = stated if isinstance(stated, dict) else {}
        for key, value in live.items():
            element = f"f:{key}"
            yield from find_outdated(
                values.get(key), value, created.get(key, MISSING), owners.at(element), (*path, element)
            )
    elif isinstance(live, list) and isinstance(stated, list):
        for element in dict.fromkeys(owners.list_items()):
            mine = next((item for item in stated if apply_obstacles.is_meant(item, element)), None)
            item, new = read(live, (element,)), read(created, (element,))
            if mine is not None and item is not MISSING:
                yield from find_outdated(mine, item, new, owners.at(element), (*path, element))


def find_values(created: Object, paths: Iterable[FieldsPath]) -> dict[FieldsPath, Any]:
    """Return the values that a new object has in these fields, without fields that it lacks."""
    return {path: value for path in paths if (value := read(created, path)) is not MISSING}


def find_aliases(paths: Collection[FieldsPath], live: Object, created: Object, manifest: Object) -> list[FieldsPath]:
    """Return the fields that seem to be the same as `paths` under another name.

    They have the same value and no owner, the manifest does not set them, and a new object would not have them.
    """
    return [
        other
        for path in paths
        for other in find_equal_beside(path, live)
        if other not in paths
        and not find_owners(live, other)
        and read(created, other) is MISSING
        and read(manifest, other) is MISSING
    ]


def find_equal_beside(path: FieldsPath, live: Object) -> list[FieldsPath]:
    """Return the fields of the same map that have the same value."""
    parent, value = read(live, path[:-1]), read(live, path)
    if not isinstance(parent, dict):
        return []
    return [(*path[:-1], f"f:{key}") for key, other in parent.items() if other == value and f"f:{key}" != path[-1]]


def without(live: Object, paths: Collection[FieldsPath]) -> Object:
    """Return a copy of the object without these fields, and without its metadata and status."""
    copy: Object = orjson.loads(orjson.dumps(apply_obstacles.strip(live)))
    for path in paths:
        parent = read(copy, path[:-1])
        if isinstance(parent, dict):
            parent.pop(path[-1][2:], None)
    return copy


def with_values(manifest: Object, values: Mapping[FieldsPath, Any]) -> Object:
    """Return a copy of the manifest that also sets these fields. Items that it does not have are not added."""
    copy: Object = orjson.loads(orjson.dumps(manifest))
    for path, value in values.items():
        place: Any = copy
        for element in path[:-1]:
            if element.startswith("f:"):
                place = place.setdefault(element[2:], {}) if isinstance(place, dict) else None
            else:
                place = next((item for item in find_items(place) if apply_obstacles.is_meant(item, element)), None)
        if isinstance(place, dict):
            place[path[-1][2:]] = value
    return copy


def claim(live: Object, paths: Collection[FieldsPath], *, manager: str, version: str) -> list[Object]:
    """Return the `managedFields` that move these fields from the placeholder to the operator.

    The next apply then removes them.
    """
    entries = list(live["metadata"].get("managedFields") or ())
    entry = child.find_entry(entries)
    if entry is None:
        entry = {"manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1"}
        entries.append(entry)
    claimed = []
    for each in entries:
        fields = each.get("fieldsV1") or {}
        for path in paths:
            if each is entry:
                fields = apply_obstacles.with_item(fields, path)
            elif each.get("manager") == PLACEHOLDER:
                fields = apply_obstacles.without_item(fields, path)
        if fields:
            claimed.append({**each, "fieldsV1": fields})
    return claimed


def describe(paths: Iterable[FieldsPath]) -> tuple[str, ...]:
    """Return the fields as the API server writes them: `spec.ports[port=80].nodePort`."""
    return tuple(describe_path(path) for path in paths)


def describe_path(path: FieldsPath) -> str:
    """Return one field as the API server writes it."""
    text = ""
    for element in path:
        if element.startswith("f:"):
            text = field_ownership.join(text, element[2:])
        elif element.startswith("k:"):
            key = child.parse_key(element)
            text += field_ownership.subscript(key, names=frozenset(key))
        else:
            text += f"[={element[2:]}]"
    return text
