"""Field managers that own lost fields, found in a complete object. Used for messages only, never for decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hearth.model import child, field_paths
from hearth.model.field_paths import ElementPath
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.ownership import field_ownership
from hearth.plan.state.resource_conditions import ManagerQuery

REMOVED = "removed by another field manager"
UNKNOWN = "owned by another field manager"
"""Until the object was read."""
UNREADABLE = "owned by another field manager, whose name cannot be read"


def describe_managers(raw: Mapping[str, Any], question: ManagerQuery) -> str:
    """Describe the managers of lost fields in the object's order: `owned by 'kubectl-edit'`."""
    entries = raw["metadata"].get("managedFields") or ()
    ours = child.find_entry(entries)
    found = [
        str(entry.get("manager", ""))
        for entry in entries
        if entry is not ours and holds_any(entry.get("fieldsV1") or {}, (lost.path for lost in question.lost), question)
    ]
    managers = [repr(manager) for manager in dict.fromkeys(found)]
    return f"owned by {enumerate_names(managers)}" if managers else REMOVED


def holds_any(node: Mapping[str, Any], places: Iterable[ElementPath], question: ManagerQuery) -> bool:
    """Return whether an entry's fields contain one of the paths, or something below it."""
    return any(holds(node, place, question.manifest) for place in places)


def holds(node: Mapping[str, Any], place: ElementPath, manifest: Any) -> bool:
    """Return whether an entry's fields contain the path, a whole parent of it, or something below it."""
    for key in place:
        value = manifest[key]
        inner = node.get(f"f:{key}") if isinstance(key, str) else find_item(node, value)
        if inner is None:
            return False
        if field_ownership.is_leaf(inner):
            return True
        node, manifest = inner, value
    return True


def find_item(node: Mapping[str, Any], item: Any) -> Mapping[str, Any] | None:
    """Return the fields of an entry for a list item, or None."""
    for element, inner in node.items():
        if element.startswith("k:") and isinstance(item, dict) and field_ownership.fits(item, child.parse_key(element)):
            found: Mapping[str, Any] = inner
            return found
        if element.startswith("v:") and field_paths.write_value(item) == element[2:].strip('"'):
            return {}
    return None
