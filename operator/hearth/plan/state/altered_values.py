"""Values that were changed under our own field manager's name, which ownership cannot show.

Compares the values of a live object with its manifest, for a check alone. What only looks different (defaults, other
spellings, what a webhook changed) a dry run tells apart: an apply of the manifest would leave that as it is. Pure; must not
know how the object was read, nor who asks the server.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hearth.model import names
from hearth.model.child import Child, Object
from hearth.model.field_paths import ElementPath
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.field_ownership import LostField

NOTE = "under the operator's own field manager name"
"""To be read after the name of a field, before «changed»."""
COMPARED_METADATA = ("labels", "annotations")
"""Of the metadata what an apply may change and must not; our own labels and annotations are drift by themselves."""
MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """What a check found on one object."""

    hash: str
    """Of the definition that it was compared with."""
    fields: tuple[LostField, ...]


def find_candidates(manifest: Object, live: Mapping[str, Any]) -> list[ElementPath]:
    """The fields that the manifest states and the live object shows otherwise, our own labels and annotations excepted."""
    found: list[ElementPath] = []
    for key, stated in manifest.items():
        if key == "metadata":
            metadata = live.get("metadata") or {}
            for part in COMPARED_METADATA:
                theirs = {name: value for name, value in (stated.get(part) or {}).items() if not names.is_ours(name)}
                found += find_different(theirs, metadata.get(part), place=(key, part))
        elif key == "stringData":
            # Servers return what they were given as `data`; one that returned it as it was would be right as well.
            found += find_different(stated, {**decode(live.get("data")), **(live.get(key) or {})}, place=(key,))
        elif key not in field_ownership.UNOWNED:
            found += find_different(stated, live.get(key, MISSING), place=(key,))
    return found


def find_different(stated: Any, live: Any, *, place: ElementPath) -> Iterator[ElementPath]:
    """The fields at and below a place whose value is not the stated one. What states nothing is never different."""
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
    """Whether an apply would change what users see of the object. applied: what a dry run answered."""
    return trim(applied) != trim(live)


def trim(raw: Mapping[str, Any]) -> Object:
    """The object less its status, and less what every apply changes."""
    kept = {key: value for key, value in raw.items() if key != "status"}
    parts = ((part, raw["metadata"].get(part) or {}) for part in COMPARED_METADATA)
    metadata = {part: {key: value for key, value in found.items() if not names.is_ours(key)} for part, found in parts}
    return {**kept, "metadata": metadata}


def describe(places: Sequence[ElementPath]) -> tuple[LostField, ...]:
    """The fields as drift."""
    return tuple(LostField(path=place, text=f"{write_path(place)}, {NOTE}") for place in places)


def write_path(place: ElementPath) -> str:
    """`spec.template.spec.containers[0].image`."""
    text = ""
    for key in place:
        text = f"{text}[{key}]" if isinstance(key, int) else field_ownership.join(text, key)
    return text


def decode(data: Any) -> Object:
    """The data of a Secret as `stringData` states it; what is no text is left out."""
    found: Object = {}
    for key, value in data.items() if isinstance(data, dict) else ():
        try:
            found[key] = base64.b64decode(value, validate=True).decode()
        except (ValueError, TypeError, binascii.Error):
            continue
    return found


def is_comparable(child: Child, *, hash_: str) -> bool:
    """Whether the object claims to be what the definition of that hash says, so that its values must be the stated ones."""
    return child.is_identified and not child.deleting and not child.has_record and child.hash == hash_
