"""Detects drift: fields of a manifest that the operator no longer owns.

It compares no values, so defaults, other notations and mutating webhooks never count as drift. Its input is the reduced
`hearth.model.child.FieldOwnership`, which does not name the managers that took a field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from hearth.model import value_class
from hearth.model.child import FieldOwnership, Path, parse_key
from hearth.model.field_paths import ElementPath

Node: TypeAlias = Mapping[str, Any]
"""One level of `fieldsV1`."""

UNOWNED = frozenset({"apiVersion", "kind", "status"})
"""Top-level fields that never appear in `managedFields` of the object itself."""
UNOWNED_METADATA = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}
)
GRANULAR: frozenset[ElementPath] = frozenset({("metadata", "labels"), ("metadata", "annotations")})
"""Maps below the first level whose keys have separate owners in every kind."""
NOTHING: tuple[object, ...] = (None, [])
"""Applied values that no manager can own and that therefore cannot be lost. The same applies to maps that contain only
these values."""
PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class LostField:
    """An applied field that the operator no longer owns, with everything below it."""

    path: ElementPath
    text: str
    """As the API server writes paths: `spec.template.spec.containers[name="web"].image`."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DriftFinding:
    """Drifted fields of a manifest, by the reaction of the operator."""

    tolerated: tuple[LostField, ...] = ()
    """Fields that other managers keep: no apply contains them."""
    to_repair: tuple[LostField, ...] = ()
    """Fields that the next apply contains, and thereby repairs."""
    altered: tuple[LostField, ...] = ()
    """Fields that the operator owns although their value was changed. They are only reported, until another reason
    causes an apply."""


def find_all_lost(manifest: Mapping[str, Any], ownership: FieldOwnership | None) -> Iterator[LostField]:
    """Find every field of `manifest` that the operator no longer owns.

    A map without owned fields counts as one field, because it may have one owner as a whole. Maps that never have a
    single owner count by key.
    """
    owned_fields = read_fields(ownership) if ownership is not None else {}
    for key, value in manifest.items():
        if key == "metadata" and isinstance(value, dict):
            owned = owned_fields.get("f:metadata")
            for name, inner in value.items():
                if name not in UNOWNED_METADATA:
                    node = owned.get(f"f:{name}") if owned is not None else None
                    yield from find_lost_field(inner, node, place=(key, name), path=join(key, name))
        elif key not in UNOWNED:
            yield from find_lost_field(value, owned_fields.get(f"f:{key}"), place=(key,), path=join("", key))


def read_fields(ownership: FieldOwnership) -> Node:
    """Parse our `fieldsV1`. Mark leaves that were maps before, so that they do not look like maps owned as a whole."""
    owned_fields: Node = orjson.loads(ownership.fields)
    for path in ownership.collapsed:
        mark_collapsed(owned_fields, path)
    return owned_fields


def owns_annotation(ownership: FieldOwnership | None, key: str) -> bool:
    """Return whether the operator owns that annotation of the object."""
    metadata = read_fields(ownership).get("f:metadata") if ownership is not None else None
    return f"f:{key}" in ((metadata or {}).get("f:annotations") or {})


def mark_collapsed(owned_fields: Node, path: Path) -> None:
    """Give the leaf at `path` a child that no field matches, so that all applied fields below it count as lost."""
    for element in path:
        owned_fields = owned_fields[element]
    if isinstance(owned_fields, dict):
        owned_fields["collapsed"] = {}


def find_lost_field(value: Any, owned_fields: Node | None, *, place: ElementPath, path: str) -> Iterator[LostField]:
    """Find the lost fields at or below `place`. path: its text in messages."""
    if owned_fields is None:
        if isinstance(value, dict) and (len(place) == 1 or place in GRANULAR):
            yield from find_lost_in_map(value, {}, place=place, path=path)
        elif find_first_field(value, path=path) is not None:
            yield LostField(path=place, text=path)
    elif is_leaf(owned_fields):
        return
    elif isinstance(value, dict):
        yield from find_lost_in_map(value, owned_fields, place=place, path=path)
    elif isinstance(value, list):
        yield from find_lost_in_list(value, owned_fields, place=place, path=path)
    else:
        yield LostField(path=place, text=path)


def is_leaf(owned_fields: Node) -> bool:
    """Return whether the operator owns this level as a whole."""
    return not owned_fields or owned_fields.keys() == {"."}


def find_lost_in_map(
    value: Mapping[str, Any], owned_fields: Node, *, place: ElementPath, path: str
) -> Iterator[LostField]:
    """Find the lost fields of a map whose keys have separate owners."""
    for key, inner in value.items():
        yield from find_lost_field(inner, owned_fields.get(f"f:{key}"), place=(*place, key), path=join(path, key))


def find_lost_in_list(
    value: Sequence[Any], owned_fields: Node, *, place: ElementPath, path: str
) -> Iterator[LostField]:
    """Find the lost fields of a list whose items have separate owners."""
    members = [orjson.loads(element[2:]) for element in owned_fields if element.startswith("v:")]
    for at, item in enumerate(value):
        if not isinstance(item, dict) and item not in members:
            yield LostField(path=(*place, at), text=f"{path}[={orjson.dumps(item).decode()}]")
    entries = {element: parse_key(element) for element in owned_fields if element.startswith("k:")}
    names = frozenset(name for keys in entries.values() for name in keys)
    items = {at: item for at, item in enumerate(value) if isinstance(item, dict)}
    for at, element in pair_items(items, entries, names=names):
        called = f"{path}{subscript(items[at], names=names)}"
        if element is None:
            yield LostField(path=(*place, at), text=called)
        else:
            yield from find_lost_field(items[at], owned_fields[element], place=(*place, at), path=called)


def pair_items(
    items: Mapping[int, Node], entries: Mapping[str, Node], *, names: frozenset[str]
) -> Iterable[tuple[int, str | None]]:
    """Pair each item's position with its entry, or None if no entry is left. Each entry is used once.

    entries: key fields by element; names: of the key fields. An item may omit keys with a server-side default
    (`protocol`), which then match any value. Items with more keys choose first, and items with defaults get the
    remaining entries.
    """
    free = dict(entries)
    for at in sorted(items, key=lambda at: -sum(name in items[at] for name in names)):
        element = next((element for element, keys in free.items() if fits(items[at], keys)), None)
        free.pop(element or "", None)
        yield at, element


def fits(item: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    """Return whether an entry with these key fields can belong to the item."""
    return all(name not in item or item[name] == value for name, value in keys.items())


def find_first_field(value: Any, *, path: str) -> str | None:
    """Find the first field within `value` that can have an owner, or None if no field can."""
    if isinstance(value, dict):
        named = (find_first_field(inner, path=join(path, key)) for key, inner in value.items())
        return next((field for field in named if field is not None), None)
    return None if value in NOTHING else path


def join(path: str, key: str) -> str:
    """Append a key to `path`, in brackets if it is not a plain word: `metadata.labels[example.com/a]`."""
    if not PLAIN_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def subscript(item: Node, *, names: frozenset[str]) -> str:
    """Name a list item by its key fields, otherwise by its first scalar."""
    keys = [(name, value) for name, value in item.items() if name in names]
    keys = keys or [(name, value) for name, value in item.items() if is_scalar(value)][:1]
    return "[" + ",".join(f"{name}={orjson.dumps(value).decode()}" for name, value in keys) + "]"


def is_scalar(value: Any) -> bool:
    """Return whether a value can be a key of a list."""
    return isinstance(value, str | int | bool)
