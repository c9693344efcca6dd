"""Describes the values that a repair reverts: the field, its value, its manager and the restored value.

The values come from the live object just before the repair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from hearth.model import child, field_paths
from hearth.model.child import Child
from hearth.model.field_paths import GONE, ElementPath, ListItem
from hearth.model.text import redaction
from hearth.model.text.enumeration import NAMED_AT_MOST, enumerate_names
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.field_ownership import LostField
from hearth.plan.state import altered_values
from hearth.plan.state.resource_status import ManagerQuery

VALUE_LENGTH: Final = 60
"""Characters of a value in a message: numbers, images and names are shorter."""
MISSING: Final = "removed"


def describe(live: Mapping[str, Any], child: Child, manifest: Any, lost: Sequence[LostField], *, shows: bool) -> str:
    """Describe the fields `lost` of the manifest: `spec.replicas: 5 → 3, was owned by 'kubectl-edit'`.

    live: the whole object before the repair; child: the same, as parsed; shows: whether values may be shown.
    """
    named = "; ".join(_describe_field(live, manifest, each, shows=shows) for each in lost[:NAMED_AT_MOST])
    more = f"; and {len(lost) - NAMED_AT_MOST} more fields" if len(lost) > NAMED_AT_MOST else ""
    managers = describe_managers(live, ManagerQuery(child=child, lost=tuple(lost), manifest=manifest))
    return f"{named}{more}, {managers}"


def _describe_field(live: Mapping[str, Any], manifest: Any, lost: LostField, *, shows: bool) -> str:
    text = lost.text.removesuffix(f", {altered_values.NOTE}")
    pattern = field_paths.parse(text)
    before = _read(live, pattern) if pattern is not None else GONE
    try:
        after = field_paths.read(manifest, lost.path)
    except (KeyError, IndexError, TypeError):
        return text
    return f"{text}: {_write(before, shows=shows)} → {_write(after, shows=shows)}"


def _read(value: Any, pattern: field_paths.PathPattern) -> Any:
    """Return the value at a path, or GONE."""
    for key in pattern:
        if isinstance(key, ListItem):
            items = value if isinstance(value, list) else ()
            value = next((item for item in items if key.fits(item)), GONE)
        else:
            value = value.get(key, GONE) if isinstance(value, dict) else GONE
    return value


def _write(value: Any, *, shows: bool) -> str:
    """Return a value as text, in one line of bounded length."""
    if value is GONE:
        return MISSING
    if not shows:
        return redaction.SENSITIVE
    text = orjson.dumps(value).decode()
    return text if len(text) <= VALUE_LENGTH else f"{text[: VALUE_LENGTH - 1]}…"


# Field managers that own lost fields, from a complete object. Used for messages only, never for decisions.

REMOVED = "removed by another field manager"
UNKNOWN = "owned by another field manager"
"""Text before the object is read."""
UNREADABLE = "owned by another field manager, whose name cannot be read"


def describe_managers(raw: Mapping[str, Any], query: ManagerQuery) -> str:
    """Describe the managers of lost fields in the object's order: `owned by 'kubectl-edit'`."""
    entries = raw["metadata"].get("managedFields") or ()
    ours = child.find_entry(entries)
    found = [
        str(entry.get("manager", ""))
        for entry in entries
        if entry is not ours and holds_any(entry.get("fieldsV1") or {}, (lost.path for lost in query.lost), query)
    ]
    managers = [repr(manager) for manager in dict.fromkeys(found)]
    return f"owned by {enumerate_names(managers)}" if managers else REMOVED


def holds_any(node: Mapping[str, Any], places: Iterable[ElementPath], query: ManagerQuery) -> bool:
    """Return whether an entry's fields contain one of the paths, or something below it."""
    return any(holds(node, place, query.manifest) for place in places)


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
