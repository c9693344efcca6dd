"""Whether everything that a manifest states is still ours: drift, told by field ownership alone.

Compares no values, so that defaults, other spellings and mutating webhooks never look like drift. Works on the slim
`hearth.model.child.Ownership`; must not know the live object, nor who took what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from hearth.model import field_paths
from hearth.model.child import FieldOwnership, Path, parse_key
from hearth.model.field_paths import ElementPath

Node: TypeAlias = Mapping[str, Any]
"""One level of `fieldsV1`."""

UNOWNED = frozenset({"apiVersion", "kind", "status"})
"""Top-level fields that never show up in `managedFields` of the object itself."""
UNOWNED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "selfLink",
    }
)
GRANULAR: frozenset[ElementPath] = frozenset({("metadata", "labels"), ("metadata", "annotations")})
"""Maps below the first level whose keys have owners of their own for every kind."""
NOTHING: tuple[object, ...] = (None, [])
"""Stated values that nobody can own, so that they cannot be lost; maps without any other value are nothing, too."""
WHOLE_ENTRY = "metadata.managedFields"
"""What is said to be lost where our entry is gone and the manifest states nothing else that could be named."""
PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LostField:
    """One stated field, or all that lies below it, that is not ours any longer."""

    path: ElementPath
    text: str
    """As the API server writes paths: `spec.template.spec.containers[name="web"].image`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftFinding:
    """What of a manifest is not ours, by what is done about it."""

    tolerated: tuple[LostField, ...] = ()
    """What others keep: no apply states it."""
    to_repair: tuple[LostField, ...] = ()
    """What the next apply states, and thereby takes back."""
    altered: tuple[LostField, ...] = ()
    """What is ours and was changed all the same, and is only to be told; the next apply for another reason states it."""


def find_first_lost(manifest: Mapping[str, Any], ownership: FieldOwnership | None) -> str | None:
    """The first field that `manifest` states and we do not own any longer, or None while all are ours.

    As the API server writes paths: `spec.template.spec.containers[name="web"].image`. Without an entry of ours all is
    lost. What is lost already in the answer of our own apply is not drift; that is for the caller to know.
    """
    lost = next(find_all_lost(manifest, ownership), None)
    if lost is None:
        return WHOLE_ENTRY if ownership is None else None
    is_item = isinstance(lost.path[-1], int)
    return lost.text if is_item else find_first_field(field_paths.read(manifest, lost.path), path=lost.text)


def find_all_lost(manifest: Mapping[str, Any], ownership: FieldOwnership | None) -> Iterator[LostField]:
    """Everything that `manifest` states and we do not own any longer.

    A map of which nothing is ours counts as one, since it may have one owner as a whole; but not those that never do.
    """
    ours = read_fields(ownership) if ownership is not None else {}
    for key, value in manifest.items():
        if key == "metadata" and isinstance(value, dict):
            owned = ours.get("f:metadata")
            for name, inner in value.items():
                if name not in UNOWNED_METADATA:
                    node = owned.get(f"f:{name}") if owned is not None else None
                    yield from find_lost_field(inner, node, place=(key, name), path=join(key, name))
        elif key not in UNOWNED:
            yield from find_lost_field(value, ours.get(f"f:{key}"), place=(key,), path=join("", key))


def read_fields(ownership: FieldOwnership) -> Node:
    """Our `fieldsV1`, where leaves that were maps once cannot be taken for maps that are owned whole."""
    ours: Node = orjson.loads(ownership.fields)
    for path in ownership.collapsed:
        mark_collapsed(ours, path)
    return ours


def mark_collapsed(ours: Node, path: Path) -> None:
    """Give the leaf at `path` a child that no field matches, so that all which is stated below it is lost."""
    for element in path:
        ours = ours[element]
    if isinstance(ours, dict):
        ours["collapsed"] = {}


def find_lost_field(value: Any, ours: Node | None, *, place: ElementPath, path: str) -> Iterator[LostField]:
    """What is lost at or below `place`, which messages call `path`."""
    if ours is None:
        if isinstance(value, dict) and (len(place) == 1 or place in GRANULAR):
            yield from find_lost_in_map(value, {}, place=place, path=path)
        elif find_first_field(value, path=path) is not None:
            yield LostField(path=place, text=path)
    elif is_leaf(ours):
        return
    elif isinstance(value, dict):
        yield from find_lost_in_map(value, ours, place=place, path=path)
    elif isinstance(value, list):
        yield from find_lost_in_list(value, ours, place=place, path=path)
    else:
        yield LostField(path=place, text=path)


def is_leaf(ours: Node) -> bool:
    """Whether we own all that is at this level, as one."""
    return not ours or ours.keys() == {"."}


def find_lost_in_map(value: Mapping[str, Any], ours: Node, *, place: ElementPath, path: str) -> Iterator[LostField]:
    """What is lost of a map whose keys have owners of their own."""
    for key, inner in value.items():
        yield from find_lost_field(inner, ours.get(f"f:{key}"), place=(*place, key), path=join(path, key))


def find_lost_in_list(value: Sequence[Any], ours: Node, *, place: ElementPath, path: str) -> Iterator[LostField]:
    """What is lost of a list whose items have owners of their own."""
    members = [orjson.loads(element[2:]) for element in ours if element.startswith("v:")]
    for at, item in enumerate(value):
        if not isinstance(item, dict) and item not in members:
            yield LostField(path=(*place, at), text=f"{path}[={orjson.dumps(item).decode()}]")
    entries = {element: parse_key(element) for element in ours if element.startswith("k:")}
    names = frozenset(name for keys in entries.values() for name in keys)
    items = {at: item for at, item in enumerate(value) if isinstance(item, dict)}
    for at, element in pair_items(items, entries, names=names):
        called = f"{path}{subscript(items[at], names=names)}"
        if element is None:
            yield LostField(path=(*place, at), text=called)
        else:
            yield from find_lost_field(items[at], ours[element], place=(*place, at), path=called)


def pair_items(
    items: Mapping[int, Node], entries: Mapping[str, Node], *, names: frozenset[str]
) -> Iterable[tuple[int, str | None]]:
    """Each item's position with the entry that is its own, None where there is none left; no entry serves twice.

    entries: by element its key fields; names: those of the key fields. An item may leave out keys that the server
    defaults (`protocol`), which then match anything. Items that state more keys choose first: what they leave over can
    only be the default's.
    """
    free = dict(entries)
    for at in sorted(items, key=lambda at: -sum(name in items[at] for name in names)):
        element = next((element for element, keys in free.items() if fits(items[at], keys)), None)
        free.pop(element or "", None)
        yield at, element


def fits(item: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    """Whether an entry with these key fields can be the item's."""
    return all(name not in item or item[name] == value for name, value in keys.items())


def find_first_field(value: Any, *, path: str) -> str | None:
    """The first field within `value` that can have an owner, None where nobody can own any of it."""
    if isinstance(value, dict):
        named = (find_first_field(inner, path=join(path, key)) for key, inner in value.items())
        return next((field for field in named if field is not None), None)
    return None if value in NOTHING else path


def join(path: str, key: str) -> str:
    """`path` and one more key, in brackets where it is no plain word: `metadata.labels[example.com/a]`."""
    if not PLAIN_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def subscript(item: Node, *, names: frozenset[str]) -> str:
    """How a list item is named: by its key fields, else by the first scalar that it states."""
    keys = [(name, value) for name, value in item.items() if name in names]
    keys = keys or [(name, value) for name, value in item.items() if is_scalar(value)][:1]
    return "[" + ",".join(f"{name}={orjson.dumps(value).decode()}" for name, value in keys) + "]"


def is_scalar(value: Any) -> bool:
    """Whether a value can be a key of a list."""
    return isinstance(value, str | int | bool)
