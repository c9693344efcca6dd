"""Whether everything that a manifest states is still ours: drift, told by field ownership alone.

Compares no values, so that defaults, other spellings and mutating webhooks never look like drift. Works on the slim
`hearth.model.child.Ownership`; must not know the live object, nor who took what.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from hearth.model.child import Ownership, Path, parse_key

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
NOTHING: tuple[object, ...] = (None, [])
"""Stated values that nobody can own, so that they cannot be lost; maps without any other value are nothing, too."""
WHOLE_ENTRY = "metadata.managedFields"
"""What is said to be lost where our entry is gone and the manifest states nothing else that could be named."""
DIGEST_SIZE = 16
"""Bytes; a chance equality would hide a drift, and is out of the question at 128 bits."""
PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def digest(ownership: Ownership | None) -> bytes:
    """Equal for equal ownership: what was found whole once, for the same manifest, needs no second walk."""
    if ownership is None:
        return b""
    found = hashlib.blake2b(ownership.fields, digest_size=DIGEST_SIZE)
    for path in ownership.collapsed:
        found.update("\0".join(path).encode() + b"\1")
    return found.digest()


def find_lost(manifest: Mapping[str, Any], ownership: Ownership | None) -> str | None:
    """The first field that `manifest` states and we do not own any longer, or None while all are ours.

    As the API server writes paths: `spec.template.spec.containers[name="web"].image`. Without an entry of ours all is
    lost. What is lost already in the answer of our own apply is not drift; that is for the caller to know.
    """
    ours = read_fields(ownership) if ownership is not None else {}
    stated = {key: value for key, value in manifest.items() if key not in UNOWNED}
    if isinstance(stated.get("metadata"), dict):
        stated["metadata"] = {key: value for key, value in stated["metadata"].items() if key not in UNOWNED_METADATA}
    lost = find_lost_in_map(stated, ours, path="")
    return WHOLE_ENTRY if lost is None and ownership is None else lost


def read_fields(ownership: Ownership) -> Node:
    """Our `fieldsV1`, where leaves that were maps once cannot be taken for maps that are owned whole."""
    fields: Node = orjson.loads(ownership.fields)
    for path in ownership.collapsed:
        mark_collapsed(fields, path)
    return fields


def mark_collapsed(fields: Node, path: Path) -> None:
    """Give the leaf at `path` a child that no field matches, so that all which is stated below it is lost."""
    for element in path:
        fields = fields[element]
    if isinstance(fields, dict):
        fields["collapsed"] = {}


def find_lost_field(value: Any, ours: Node | None, *, path: str) -> str | None:
    """The first lost field at or below `path`."""
    if ours is None:
        return find_first_field(value, path=path)
    if is_leaf(ours):
        return None
    if isinstance(value, dict):
        return find_lost_in_map(value, ours, path=path)
    if isinstance(value, list):
        return find_lost_in_list(value, ours, path=path)
    return path


def is_leaf(ours: Node) -> bool:
    """Whether we own all that is at this level, as one."""
    return not ours or ours.keys() == {"."}


def find_lost_in_map(value: Mapping[str, Any], ours: Node, *, path: str) -> str | None:
    """The first lost field of a map whose keys have owners of their own."""
    for key, inner in value.items():
        lost = find_lost_field(inner, ours.get(f"f:{key}"), path=join(path, key))
        if lost is not None:
            return lost
    return None


def find_lost_in_list(value: Sequence[Any], ours: Node, *, path: str) -> str | None:
    """The first lost item, or field of an item, of a list whose items have owners of their own."""
    members = [orjson.loads(element[2:]) for element in ours if element.startswith("v:")]
    for item in value:
        if not isinstance(item, dict) and item not in members:
            return f"{path}[={orjson.dumps(item).decode()}]"
    entries = {element: parse_key(element) for element in ours if element.startswith("k:")}
    names = frozenset(name for keys in entries.values() for name in keys)
    for item, element in pair_items([item for item in value if isinstance(item, dict)], entries, names=names):
        if element is None:
            return f"{path}{subscript(item, names=names)}"
        lost = find_lost_field(item, ours[element], path=f"{path}{subscript(item, names=names)}")
        if lost is not None:
            return lost
    return None


def pair_items(
    items: Sequence[Node], entries: Mapping[str, Node], *, names: frozenset[str]
) -> Iterable[tuple[Node, str | None]]:
    """Each item with the entry that is its own, None where there is none left; no entry serves twice.

    entries: by element its key fields; names: those of the key fields. An item may leave out keys that the server
    defaults (`protocol`), which then match anything. Items that state more keys choose first: what they leave over can
    only be the default's.
    """
    free = dict(entries)
    for item in sorted(items, key=lambda item: -sum(name in item for name in names)):
        element = next((element for element, keys in free.items() if fits(item, keys)), None)
        free.pop(element or "", None)
        yield item, element


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
