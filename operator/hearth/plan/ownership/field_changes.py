"""Finds the fields that differ between two states of an object, for display."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import orjson

from hearth.model import names, value_class
from hearth.model.child import Object
from hearth.plan.ownership import applied_fields

FieldPath: TypeAlias = tuple[str, ...]
"""Keys, and items of lists as `[name=web]` or `[0]`."""
SORTED: Final = orjson.OPT_SORT_KEYS
ORDER: Final = "[order]"
"""The last key of the path to the order of a list, whose values are the names of the items."""
ASSIGNED: Final = frozenset(
    {"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink", "generateName"}
)
"""Fields of the metadata that the API server assigns."""
RECORDED: Final = (
    *(
        names.KUBECTL_LAST_APPLIED,
        "deprecated.daemonset.template.generation",
        "deployment.kubernetes.io/",
        "pv.kubernetes.io/",
    ),
    *("endpoints.kubernetes.io/last-change-trigger-time", "control-plane.alpha.kubernetes.io/leader"),
)
"""Annotations, or their prefixes, that programs of Kubernetes use as records. No manifest sets them."""
ALLOCATED: Final = frozenset({"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})
"""Fields of a Service whose values the API server allocates. A dry run allocates other values than the later write."""
NOT_ALLOCATED: Final = "(known after the API server allocates it)"


@value_class.dataclass(frozen=True, slots=True)
class Absent:
    """No value at all."""


ABSENT: Final = Absent()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One changed field."""

    path: FieldPath
    old: Any
    """ABSENT if the field is new."""
    new: Any
    """ABSENT if the field is removed."""

    @property
    def text(self) -> str:
        """Return the path as text: `spec.containers[name=web].image`."""
        return write_path(self.path)


def write_path(path: FieldPath) -> str:
    """Return a path as text."""
    text = ""
    for key in path:
        if key.startswith("["):
            text += key
        elif "." in key or "/" in key:
            text += f'["{key}"]'
        else:
            text += f".{key}" if text else key
    return text


def find_changes(before: Object, after: Object, *, is_stored: bool = True) -> list[FieldChange]:
    """Return the changed fields, without the status and the records of the API server and Hearth.

    is_stored: whether both are as the API server would store them, so that an empty map differs from a missing one.
    """
    return list(_compare(prune(before), prune(after), (), is_stored=is_stored))


def prune(raw: Mapping[str, Any]) -> Object:
    """Return the object without its status and the records of the API server and Hearth."""
    metadata = {key: value for key, value in raw["metadata"].items() if key not in ASSIGNED}
    for part in ("labels", "annotations"):
        kept = {
            key: value
            for key, value in (metadata.get(part) or {}).items()
            if not names.is_ours(key) and not key.startswith(RECORDED)
        }
        metadata[part] = kept
    return {**{key: value for key, value in raw.items() if key != "status"}, "metadata": metadata}


def find_leaves(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield all values without values below them, with the paths that `find_changes` uses."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from find_leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for name, inner in zip(name_items(value), value, strict=True):
            yield from find_leaves(inner, (*path, name))
    else:
        yield path, value


def _compare(old: Any, new: Any, path: FieldPath, *, is_stored: bool) -> Iterator[FieldChange]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            below = (*path, str(key))
            yield from _compare(old.get(key, ABSENT), new.get(key, ABSENT), below, is_stored=is_stored)
    elif isinstance(old, list) and isinstance(new, list) and old and new:
        before, after = (dict(zip(name_items(items), items, strict=True)) for items in (old, new))
        for name in [*before, *(name for name in after if name not in before)]:
            below = (*path, name)
            yield from _compare(before.get(name, ABSENT), after.get(name, ABSENT), below, is_stored=is_stored)
        if [*after] != [*(name for name in before if name in after), *(name for name in after if name not in before)]:
            order = ([name[1:-1] for name in names_] for names_ in (before, after))
            yield FieldChange(path=(*path, ORDER), old=next(order), new=next(order))
    elif not is_same(old, new) and (is_stored or not (is_empty(old) and is_empty(new))):
        yield FieldChange(path=path, old=old, new=new)


def is_same(old: Any, new: Any) -> bool:
    """Return whether the values are equal and have the same types: in JSON, `true` is not 1."""
    if isinstance(old, Absent) or isinstance(new, Absent):
        return bool(old == new)
    return bool(old == new) and (old is new or orjson.dumps(old, option=SORTED) == orjson.dumps(new, option=SORTED))


def is_empty(value: Any) -> bool:
    """Return whether the API server may store the value as an absent one."""
    return isinstance(value, Absent) or value is None or value == {} or value == []


def name_items(items: list[Any]) -> list[str]:
    """Name the items of a list: by their key field, otherwise by their position."""
    if items and all(isinstance(item, dict) for item in items):
        return [f"[{name}]" for name in applied_fields.name_items(items)]
    return [f"[{at}]" for at in range(len(items))]


def hide_allocated(after: Object, sources: Iterable[Object]) -> Object:
    """Return a Service with a placeholder for each allocated value that none of the sources has. Other kinds are returned
    unchanged.

    sources: the object before the write, and the applied manifest.
    """
    if (after.get("apiVersion"), after.get("kind")) != ("v1", "Service"):
        return after
    known = [pair for source in sources for pair in find_pairs(source)]
    concealed: Object = replace_unknown(after, known)
    return concealed


def find_pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the allocated fields within."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else ((("", each) for each in value) if isinstance(value, list) else ())
    )
    for key, each in inner:
        if key in ALLOCATED:
            yield key, each
        else:
            yield from find_pairs(each)


def replace_unknown(value: Any, known: list[tuple[str, Any]]) -> Any:
    """Return the value with a placeholder for each allocated value that is not known."""
    if isinstance(value, list):
        return [replace_unknown(each, known) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: (each if (key, each) in known else NOT_ALLOCATED) if key in ALLOCATED else replace_unknown(each, known)
        for key, each in value.items()
    }
