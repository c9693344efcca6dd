"""Present values that an apply changes and that only other field managers own, so that no later apply restores them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hearth.model import child, names, object_fields
from hearth.model.child import Object
from hearth.plan.ownership import apply_obstacles, field_ownership
from hearth.plan.ownership.apply_obstacles import Owners


def strip(raw: Object) -> Object:
    """Return the fields that a rollback restores: no status, and no labels and annotations of the operator and kubectl."""
    metadata = {
        part: {
            key: value
            for key, value in object_fields.mapping(raw, "metadata", part).items()
            if not names.is_ours(key) and key != names.KUBECTL_LAST_APPLIED
        }
        for part in ("labels", "annotations")
    }
    return {**apply_obstacles.strip(raw), "metadata": metadata}


def find_owners(raw: Object) -> Owners:
    """Return the owners of the fields of an object. The operator's own suspend does not count as another owner."""
    metadata = object_fields.mapping(raw, "metadata")
    entries = object_fields.entries(metadata, "managedFields")
    entry = child.find_entry(entries)
    others = tuple(
        each.get("fieldsV1") or {} for each in entries if each is not entry and not child.is_applied_by_us(each)
    )
    return Owners((entry.get("fieldsV1") or {}) if entry is not None else None, others)


def find_changed_fields(old: Any, new: Any, *, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that differ; a list counts as one field if its length changes."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from find_changed_fields(old.get(key), new.get(key), path=field_ownership.join(path, str(key)))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from find_changed_fields(one, other, path=f"{path}[{at}]")
    elif old != new:
        yield path


def find_overwritten(old: Any, new: Any, owners: Owners, *, path: str = "") -> Iterator[str]:
    """Yield the paths of existing values that change and that only other managers own."""
    if isinstance(old, Mapping) and not owners.is_owned_whole:
        found = new if isinstance(new, Mapping) else object_fields.EMPTY
        for key, value in old.items():
            below = owners.at(f"f:{key}")
            yield from find_overwritten(value, found.get(key), below, path=field_ownership.join(path, str(key)))
    elif isinstance(old, list) and (elements := dict.fromkeys(owners.list_items())):
        yield from find_overwritten_items(old, new if isinstance(new, list) else (), owners, elements, path=path)
    elif old != new and owners.ours is None and owners.others:
        yield path


def find_overwritten_items(
    old: Sequence[Any], new: Sequence[Any], owners: Owners, elements: Iterable[str], *, path: str
) -> Iterator[str]:
    """Yield the paths of overwritten values in a list whose items have keys."""
    for item in old:
        element = next((each for each in elements if apply_obstacles.is_named(item, each)), "")
        if element:
            found = next((each for each in new if apply_obstacles.is_named(each, element)), None)
            below = path + field_ownership.subscript(item, names=frozenset(child.parse_key(element)))
            yield from find_overwritten(item, found, owners.at(element), path=below)
