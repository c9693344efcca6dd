"""Finds the exact fields that the API server refused to change, with their old and new values.

The API server often reports only a parent field, for example `spec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from hearth.model import kinds, value_class
from hearth.plan.resource import data_kinds, replaced_fields
from hearth.template.text import quantity

NAMED_AT_MOST: Final = 5
"""Maximum fields that a message names."""
VALUE_LENGTH: Final = 60
"""Characters of a value that a message shows."""
ABSENT: Final = object()
GUARDED_KINDS: Final = frozenset({"Secret"})
CHANGEABLE: Final[Mapping[str, frozenset[str]]] = {
    data_kinds.STATEFUL_SET: frozenset(
        {
            *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"),
            "persistentVolumeClaimRetentionPolicy",
        }
    ),
    "PersistentVolumeClaim": frozenset({"resources", "volumeAttributesClassName"}),
}
"""By `Kind.group`: the mutable fields of the spec. The API server does not mean them when it rejects a change of
`spec`."""


@value_class.dataclass(frozen=True, slots=True)
class Leaf:
    """A field that differs."""

    path: tuple[str, ...]
    before: Any
    after: Any
    """ABSENT if it is removed."""


def describe(
    fields: Sequence[str], wanted: Mapping[str, Any], live: Mapping[str, Any], *, is_guarded: bool
) -> tuple[str, ...]:
    """Return the rejected fields as precisely as possible: `spec.serviceName (a → b)`.

    fields: as the API server names them; wanted: the object after the change, with its defaults; is_guarded: whether
    some values are sensitive, so that only sizes are shown.
    """
    group = str(wanted.get("apiVersion", "")).rpartition("/")[0]
    key = kinds.make_key(group, str(wanted.get("kind", "")))
    is_guarded = is_guarded or key in GUARDED_KINDS
    found: list[str] = []
    for field in fields:
        leaves = [leaf for leaf in find_leaves(field, wanted, live) if not is_changeable(leaf, field, key)]
        certain = [leaf for leaf in leaves if not may_be_default(leaf)]
        found += [write(leaf, is_guarded=is_guarded) for leaf in certain or leaves] or [field]
    unique = list(dict.fromkeys(found))
    more = [f"{len(unique) - NAMED_AT_MOST} more"] if len(unique) > NAMED_AT_MOST else []
    return (*unique[:NAMED_AT_MOST], *more)


def find_leaves(field: str, wanted: Mapping[str, Any], live: Mapping[str, Any]) -> list[Leaf]:
    """Return the leaves of a rejected field that differ; a list within its path counts as a whole."""
    path = tuple(field.partition("[")[0].split("."))
    after = replaced_fields.read(wanted, path)
    return list(_compare(ABSENT if after is None else after, replaced_fields.read(live, path), path))


def is_changeable(leaf: Leaf, field: str, kind: str) -> bool:
    """Whether the API server accepts changes of the leaf, so that the rejection must be about another field."""
    return field == "spec" and leaf.path[1:2] != () and leaf.path[1] in CHANGEABLE.get(kind, frozenset())


def may_be_default(leaf: Leaf) -> bool:
    """Return whether the leaf is only missing in a list item, so that its live value may be a default."""
    return leaf.after is ABSENT and any(key.startswith("[") for key in leaf.path)


def _compare(wanted: Any, live: Any, path: tuple[str, ...]) -> Iterator[Leaf]:
    if isinstance(wanted, dict) and isinstance(live, dict):
        for key in [*wanted, *(key for key in live if key not in wanted)]:
            yield from _compare(wanted.get(key, ABSENT), live.get(key), (*path, key))
    elif isinstance(wanted, list) and isinstance(live, list):
        present, named = name_items(live), name_items(wanted)
        for name in [*named, *(name for name in present if name not in named)]:
            yield from _compare(named.get(name, ABSENT), present.get(name), (*path, name))
    elif not replaced_fields.is_same(wanted, live) and not (is_empty(wanted) and is_empty(live)):
        yield Leaf(path, live, wanted)


def name_items(items: list[Any]) -> dict[str, Any]:
    """Return the items by their identity within a path: their name, otherwise their position."""
    found = {f"[{find_name(item)}]": item for item in items if find_name(item)}
    return found if len(found) == len(items) else {f"[{at}]": item for at, item in enumerate(items)}


def find_name(item: Any) -> str:
    """Return the name of a list item, or "" if it has none."""
    if not isinstance(item, dict):
        return ""
    metadata = item.get("metadata")
    named = item.get("name") or (metadata.get("name") if isinstance(metadata, dict) else None)
    return named if isinstance(named, str) else ""


def is_empty(value: Any) -> bool:
    """Return whether the API server may store the value as absent."""
    return value is ABSENT or value is None or value == {} or value == []


def write(leaf: Leaf, *, is_guarded: bool) -> str:
    """Return a field for users, with its values if they may be shown."""
    path = ""
    for key in leaf.path:
        path += key if key.startswith("[") else f'["{key}"]' if "." in key or "/" in key else f".{key}"
    path = path.removeprefix(".")
    if leaf.after is ABSENT:
        return f"{path} (removed)"
    if is_guarded and not is_size(leaf):
        return path
    return f"{path} ({show(leaf.before)} → {show(leaf.after)})"


def is_size(leaf: Leaf) -> bool:
    """Return whether the field is a requested size of storage, which is never secret."""
    values = (leaf.before, leaf.after)
    return leaf.path[-2:] == ("requests", "storage") and all(quantity.is_quantity(str(each)) for each in values)


def show(value: Any) -> str:
    """Return a value as text, cut to a readable length."""
    if value is None:
        return "none"
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= VALUE_LENGTH else f"{text[:VALUE_LENGTH]}…"
