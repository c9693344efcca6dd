"""Fields of `replaceOn` that the definition changes, found by values and field ownership.

Defaults of the API server and its notation of quantities are no change. Must not know what follows from a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import field_paths
from hearth.model.child import Child, Path
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.field_ownership import Node
from hearth.template.blueprint import ResourceBlueprint
from hearth.template.cel import quantity


def find_replaced_field(resource: ResourceBlueprint, child: Child, manifest: Mapping[str, Any]) -> str | None:
    """Find the first `replaceOn` field that the manifest changes, as dotted path. A field that cannot be read is skipped."""
    if child.defect:
        return None
    ours = field_ownership.read_fields(child.ownership) if child.ownership is not None else {}
    for path in resource.replace_on:
        if any(field_paths.is_overlapping(path, omitted) for omitted in child.omitted):
            continue
        if is_changed(read(manifest, path), read(child.fields, path), read(ours, tuple(f"f:{key}" for key in path))):
            return ".".join(path)
    return None


def is_changed(stated: Any, live: Any, ours: Node | None) -> bool:
    """Return whether an apply of `stated` changes `live`. ours: the operator's field ownership at this level, if any."""
    if stated is None:
        return live is not None and ours is not None
    if isinstance(stated, dict) and isinstance(live, dict):
        return is_map_changed(stated, live, ours)
    if isinstance(stated, list) and isinstance(live, list):
        pairs = zip(stated, live, strict=False)
        return len(stated) != len(live) or any(is_changed(one, other, None) for one, other in pairs)
    return not is_same(stated, live)


def is_map_changed(stated: Mapping[str, Any], live: Mapping[str, Any], ours: Node | None) -> bool:
    """Return whether an apply changes a key of the map, or removes a key that the operator applied before."""
    nodes = ours or {}
    kept = {key for key, value in stated.items() if value is not None}
    if ours is not None and not nodes:
        # The map is owned as a whole.
        return kept != live.keys() or any(is_changed(stated[key], live[key], None) for key in kept)
    removed = {key[2:] for key in nodes if key.startswith("f:")} - kept
    return bool(removed & live.keys()) or any(
        is_changed(stated[key], live.get(key), nodes.get(f"f:{key}")) for key in kept
    )


def is_same(stated: Any, live: Any) -> bool:
    """Return whether the API server stores the stated value as the live one."""
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
