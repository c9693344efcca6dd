"""What a Stack sets of an object, beside what the object has. Pure; all texts are cleaned.

The fields are those that the API server attributes to the Stack. A field that others took is in the preview alone, which
the engine makes: it knows what it would write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.stack_views import safe_text, shown_objects
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model import child as child_module
from hearth.model import limits, names, value_class
from hearth.preview import field_changes
from hearth.preview.changes import Preview
from hearth.preview.field_changes import Absent, FieldPath

LONGEST: Final = 1_000
"""Characters of a value that are shown."""
SELF: Final = "."
"""The entry of a map or list item itself among the owned fields below it."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownField:
    """One field."""

    path: str
    wanted: str
    """"" if the Stack wants the field removed."""
    live: str
    """"" if the object lacks the field."""
    differs: bool


def compare(objects: StackObjects, child: FoundChild, preview: Preview) -> tuple[ShownField, ...]:
    """Return the fields that the Stack sets, those that differ first. preview: of the Stack as it is."""
    found = {
        field_changes.write_path(path): write(value)
        for path, value in list_owned(shown_objects.show_object(objects, child), find_owned_fields(child), ())
        if not is_bookkeeping(path)
    }
    changed = {
        field.text: ShownField(path=clean(field.text), wanted=write(field.new), live=write(field.old), differs=True)
        for change in preview.changes
        if change.ref is not None and change.resource == child.resource
        for field in change.fields
    }
    same = (
        ShownField(path=clean(path), wanted=value, live=value, differs=False)
        for path, value in found.items()
        if not any(is_within(each, path) or is_within(path, each) for each in changed)
    )
    return (*changed.values(), *same)[: limits.PAGE_EVENTS]


def is_within(path: str, other: str) -> bool:
    """Return whether a path is another one, or below it."""
    return path == other or path.startswith((f"{other}.", f"{other}["))


def find_owned_fields(child: FoundChild) -> Mapping[str, Any]:
    """Return the fields that the API server attributes to the Stack, as `managedFields` states them."""
    entries = [dict(each) for each in object_fields.entries(child.raw, "metadata", "managedFields")]
    entry = child_module.find_entry(entries)
    return object_fields.mapping(entry, "fieldsV1") if entry is not None else object_fields.EMPTY


def list_owned(value: Any, owned: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the smallest owned fields with their values in the object; what the object lacks is left out."""
    for element, below in owned.items():
        place = find_place(value, element)
        if place is None:
            continue
        name, inner = place
        if isinstance(below, Mapping) and below.keys() - {SELF}:
            yield from list_owned(inner, below, (*path, name))
        else:
            yield (*path, name), inner


def find_place(value: Any, element: str) -> tuple[str, Any] | None:
    """Return the name and value of what an entry of `fieldsV1` means within a value; None if that is not there."""
    key = element[2:]
    if element.startswith("f:"):
        return (key, value[key]) if isinstance(value, Mapping) and key in value else None
    if not isinstance(value, list) or element[:2] not in ("k:", "v:"):
        return None
    wanted = parse(key)
    for name, item in zip(field_changes.name_items(value), value, strict=True):
        is_item = element.startswith("k:") and isinstance(item, Mapping) and isinstance(wanted, Mapping)
        if (is_item and wanted.items() <= item.items()) or (element.startswith("v:") and item == wanted):
            return name, item
    return None


def parse(text: str) -> Any:
    """Return the value of a JSON text; None if it is none: anyone may have written it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_bookkeeping(path: FieldPath) -> bool:
    """Return whether this is a label or annotation of the operator itself."""
    return path[:2] in (("metadata", "labels"), ("metadata", "annotations")) and names.is_ours(path[-1])


def write(value: Any) -> str:
    """Return a value as one cleaned line; "" for none."""
    if isinstance(value, Absent):
        return ""
    text = value if isinstance(value, str) and value != "" else json.dumps(value, ensure_ascii=False, default=str)
    return clean(text)


def clean(text: str) -> str:
    """Return a text as it may be shown."""
    shown = safe_text.one_line(text)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
