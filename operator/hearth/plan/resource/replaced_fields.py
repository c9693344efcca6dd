"""Finds changes to the fields in `replaceOn`, which replace the object.

Defaults, other notations of a quantity, the operator's own labels and annotations, and list items of other field
managers do not count as changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from hearth.model import field_paths, names
from hearth.model.child import Child, Path
from hearth.plan.ownership import applied_fields, field_ownership
from hearth.plan.ownership.applied_fields import AppliedFields
from hearth.plan.ownership.field_ownership import Node
from hearth.template.blueprint import ResourceBlueprint
from hearth.template.text import quantity

ITEM = "k:"
"""Prefix of the elements of field ownership that identify an item of a list by its keys."""
TRACKED = ("f:labels", "f:annotations")
OWN_FIELD = f"f:{names.GROUP}/"


def find_replaced_field(
    resource: ResourceBlueprint, child: Child, manifest: Mapping[str, Any], applied: AppliedFields | None = None
) -> str | None:
    """Find the first `replaceOn` field that the manifest changes, as a dotted path.

    A field that cannot be read is skipped. applied: of the manifest. A value that was applied before is not a change,
    even if the object now has another one.
    """
    if child.defect:
        return None
    owned_fields = without_tracking(field_ownership.read_fields(child.ownership)) if child.ownership is not None else {}
    known = applied_fields.split(applied_fields.read_applied_record(child)) if applied is not None else frozenset()
    for path in resource.replace_on:
        if any(field_paths.is_overlapping(path, omitted) for omitted in child.omitted):
            continue
        stated, live = read(manifest, path), read(child.fields, path)
        if applied is not None:
            stated = overlook_drift(stated, live, path, applied, known)
        if is_changed(stated, live, read(owned_fields, tuple(f"f:{key}" for key in path))):
            return ".".join(path)
    return None


def overlook_drift(stated: Any, live: Any, path: Path, applied: AppliedFields, known: frozenset[str]) -> Any:
    """Return the manifest's value, with live values for fields that only drifted. known: the hashes in the record."""
    if isinstance(stated, dict) and stated and (live is None or isinstance(live, dict)):
        found = {
            key: overlook_drift(value, (live or {}).get(key), (*path, key), applied, known)
            for key, value in stated.items()
        }
        return found if live is not None or any(value is not None for value in found.values()) else None
    return live if stated is not None and applied.is_known(path, stated, known) else stated


def without_tracking(owned_fields: Node) -> Node:
    """Return the operator's field ownership without its own labels and annotations, which no definition sets."""
    metadata = owned_fields.get("f:metadata")
    if not metadata:
        return owned_fields
    kept: dict[str, Any] = dict(metadata)
    for part in TRACKED:
        fields = {key: node for key, node in metadata.get(part, {}).items() if not key.startswith(OWN_FIELD)}
        kept.pop(part, None)
        if fields.keys() - {"."}:
            kept[part] = fields
    rest = {key: node for key, node in owned_fields.items() if key != "f:metadata"}
    # A level without fields counts as owned as a whole.
    return {**rest, "f:metadata": kept} if kept.keys() - {"."} else rest


def is_changed(stated: Any, live: Any, owned_fields: Node | None) -> bool:
    """Return whether an apply of `stated` changes `live`. owned_fields: the operator's field ownership at this level, if any."""
    if stated is None:
        return live is not None and owned_fields is not None
    if isinstance(stated, dict) and isinstance(live, dict):
        return is_map_changed(stated, live, owned_fields)
    if isinstance(stated, list) and isinstance(live, list):
        if any(element.startswith(ITEM) for element in owned_fields or ()):
            return is_keyed_list_changed(stated, live, owned_fields or {})
        pairs = zip(stated, live, strict=False)
        return len(stated) != len(live) or any(is_changed(one, other, None) for one, other in pairs)
    return not is_same(stated, live)


def is_map_changed(stated: Mapping[str, Any], live: Mapping[str, Any], owned_fields: Node | None) -> bool:
    """Return whether an apply changes a key of the map, or removes a key that the operator applied before."""
    nodes = owned_fields or {}
    kept = {key for key, value in stated.items() if value is not None}
    if owned_fields is not None and not nodes:
        # The map is owned as a whole.
        return kept != live.keys() or any(is_changed(stated[key], live[key], None) for key in kept)
    removed = {key[2:] for key in nodes if key.startswith("f:")} - kept
    return bool(removed & live.keys()) or any(
        is_changed(stated[key], live.get(key), nodes.get(f"f:{key}")) for key in kept
    )


def is_keyed_list_changed(stated: Sequence[Any], live: Sequence[Any], owned_fields: Node) -> bool:
    """Return whether an apply adds, removes or changes one of the operator's items of the list."""
    owned = [(orjson.loads(key.removeprefix(ITEM)), node) for key, node in owned_fields.items() if key.startswith(ITEM)]
    left = list(stated)
    for key, node in owned:
        item = next((each for each in left if is_item(each, key)), None)
        found = next((each for each in live if is_item(each, key)), None)
        if item is None or is_changed(item, found, node):
            return True
        left.remove(item)
    return bool(left)


def is_item(item: Any, key: Mapping[str, Any]) -> bool:
    """Return whether the key may identify the item, which may omit keys with a default."""
    if not isinstance(item, Mapping) or not item.keys() & key.keys():
        return False
    return all(item.get(name, value) == value for name, value in key.items())


def is_same(stated: Any, live: Any) -> bool:
    """Return whether the API server stores the value that is set as the live one."""
    if stated == live:
        return True
    return isinstance(stated, str) and quantity.is_quantity(stated) and quantity.normalize(stated) == live


def read(value: Any, path: Path) -> Any:
    """Return the value at `path`, or None."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
