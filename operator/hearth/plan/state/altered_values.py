"""Finds values that were changed under the operator's own field manager name, which field ownership cannot show.

Only a check uses this. It compares a live object with its manifest. A dry run then excludes differences that an apply
would not change: defaults, other notations, and changes by a webhook.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hearth.model import names, value_class
from hearth.model.child import Child, Object
from hearth.model.field_paths import ElementPath
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.field_ownership import LostField

NOTE = "under the operator's own field manager name"
"""Text between the name of a field and the word "changed"."""
COMPARED_METADATA = ("labels", "annotations")
"""Metadata to compare, because an apply can change it. Changes of the operator's own labels and annotations are a
separate kind of drift."""
MISSING = object()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """Altered values that a check found on one object."""

    hash: str
    """Hash of the definition that the object was compared with."""
    fields: tuple[LostField, ...]


def find_candidates(manifest: Object, live: Mapping[str, Any]) -> list[ElementPath]:
    """Find fields whose live value differs from the manifest, except the operator's own labels and annotations."""
    found: list[ElementPath] = []
    for key, stated in manifest.items():
        if key == "metadata":
            metadata = live.get("metadata") or {}
            for part in COMPARED_METADATA:
                theirs = {name: value for name, value in (stated.get(part) or {}).items() if not names.is_ours(name)}
                found += find_different(theirs, metadata.get(part), place=(key, part))
        elif key not in field_ownership.UNOWNED:
            found += find_different(stated, live.get(key, MISSING), place=(key,))
    return found


def find_different(stated: Any, live: Any, *, place: ElementPath) -> Iterator[ElementPath]:
    """Find fields at and below a path whose live value differs from the applied one.

    An empty applied value never differs.
    """
    if isinstance(stated, dict):
        below = live if isinstance(live, dict) else {}
        for key, inner in stated.items():
            yield from find_different(inner, below.get(key, MISSING), place=(*place, key))
    elif isinstance(stated, list) and stated and all(isinstance(item, dict) for item in stated):
        items = live if isinstance(live, list) else []
        for at, inner in enumerate(stated):
            yield from find_different(inner, items[at] if at < len(items) else MISSING, place=(*place, at))
    elif stated is not None and stated != [] and stated != live:
        yield place


def is_changed_by(applied: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Return whether an apply would change what users see of the object. applied: the response to a dry run."""
    return trim(applied) != trim(live)


def trim(raw: Mapping[str, Any]) -> Object:
    """Return the object without its status and without the metadata that every apply changes."""
    kept = {key: value for key, value in raw.items() if key != "status"}
    parts = ((part, raw["metadata"].get(part) or {}) for part in COMPARED_METADATA)
    metadata = {part: {key: value for key, value in found.items() if not names.is_ours(key)} for part, found in parts}
    return {**kept, "metadata": metadata}


def describe(places: Sequence[ElementPath]) -> tuple[LostField, ...]:
    """Return the fields as drift."""
    return tuple(LostField(path=place, text=f"{write_path(place)}, {NOTE}") for place in places)


def write_path(place: ElementPath) -> str:
    """Format a path: `spec.template.spec.containers[0].image`."""
    text = ""
    for key in place:
        text = f"{text}[{key}]" if isinstance(key, int) else field_ownership.join(text, key)
    return text


def is_comparable(child: Child, *, hash_: str) -> bool:
    """Return whether the object claims to match the definition of this hash.

    Then its values must be the applied ones.
    """
    return child.is_identified and not child.deleting and not child.has_record and child.hash == hash_
