"""Predicts an apply from `managedFields`, and finds the parts of a live object that make the API server reject it.

There are two obstacles. Server-side apply sets a map to null when its last applied key is removed, and a schema may
reject null. Where it accepts null, the object differs from the manifest. Server-side apply also keeps list items of
other field managers, which may conflict with the applied items, for example two ports with the same name.

`hearth.engine.writes.apply_preparation` tries the prediction in a dry run and removes the obstacle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from hearth.model import child, limits, value_class
from hearth.model.child import Child, Object
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.field_ownership import Node

FieldsPath: TypeAlias = tuple[str, ...]
"""A path in the notation of `fieldsV1`: `("f:spec", "f:ports", 'k:{"port":80}')`."""
UNTOUCHED = frozenset({"apiVersion", "kind", "metadata", "status"})
"""Top-level fields that cannot contain an obstacle."""
TEXT_MAPS = ("labels", "annotations")
COMPARED_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


@value_class.dataclass(frozen=True, slots=True)
class Owners:
    """The owners of one level of an object."""

    ours: Node | None
    """The operator's entry at this level, None if it owns nothing there."""
    others: tuple[Node, ...] = ()
    """The entries of the others that own something there."""

    def at(self, element: str) -> Owners:
        """Return the owners one level below."""
        ours = self.ours.get(element) if self.ours is not None else None
        return Owners(ours, tuple(other[element] for other in self.others if element in other))

    @property
    def is_only_ours(self) -> bool:
        """Return whether an apply that omits this level removes it, together with its unowned default values."""
        return self.ours is not None and not self.others

    @property
    def is_whole(self) -> bool:
        """Return whether all owners own this level as a whole."""
        nodes = self._nodes()
        return bool(nodes) and all(node.keys() <= {"."} for node in nodes)

    @property
    def is_unowned(self) -> bool:
        """Return whether no manager owns anything at this level or below."""
        return not self._nodes()

    @property
    def is_owned_whole(self) -> bool:
        """Return whether any manager owns this level as a whole."""
        return any(not node for node in self._nodes())

    def list_items(self) -> Iterator[str]:
        """Return the elements that name items of a keyed list."""
        for node in self._nodes():
            yield from (element for element in node if element.startswith("k:"))

    def _nodes(self) -> tuple[Node, ...]:
        return (self.ours, *self.others) if self.ours is not None else self.others


@dataclass(slots=True)
class Prediction:
    """The prediction of one apply."""

    dropped: Collection[FieldsPath] = ()
    """List items of other managers to leave out."""
    foreign: dict[FieldsPath, None] = field(default_factory=dict)
    """List items of other managers next to applied ones, including the items in `dropped`."""

    def merge(self, stated: Any, live: Any, owners: Owners, *, path: FieldsPath) -> Any:
        """Return the value at `path` after the apply."""
        if isinstance(stated, dict) and isinstance(live, dict) and not owners.is_whole:
            return self._merge_map(stated, live, owners, path=path)
        if isinstance(stated, list) and isinstance(live, list) and not owners.is_whole:
            elements = dict.fromkeys(owners.list_items())
            if elements and len(live) <= limits.COMPARED_ITEMS and len(stated) <= limits.COMPARED_ITEMS:
                return self._merge_list(stated, live, owners, elements, path=path)
        return stated

    def _merge_map(self, stated: Node, live: Node, owners: Owners, *, path: FieldsPath) -> Object:
        merged: Object = {}
        for key, value in live.items():
            below = owners.at(f"f:{key}")
            if stated.get(key) is not None:
                merged[key] = self.merge(stated[key], value, below, path=(*path, f"f:{key}"))
            elif not below.is_only_ours:
                merged[key] = value
        added = {key: value for key, value in stated.items() if key not in live and value is not None}
        return {**merged, **added}

    def _merge_list(
        self, stated: Sequence[Any], live: Sequence[Any], owners: Owners, elements: Collection[str], *, path: FieldsPath
    ) -> list[Any]:
        merged: list[Any] = []
        meant: dict[int, Any] = {}
        for item in live:
            element = next((each for each in elements if is_named(item, each)), "")
            at = next(
                (at for at, each in enumerate(stated) if element and at not in meant and is_meant(each, element)), None
            )
            below = owners.at(element)
            if at is not None:
                meant[at] = self.merge(stated[at], item, below, path=(*path, element))
                merged.append(meant[at])
            elif not (element and below.is_only_ours):
                if element and below.ours is None:
                    self.foreign[(*path, element)] = None
                if (*path, element) not in self.dropped:
                    merged.append(item)
        if len(merged) == len(meant):
            # Without items of others, the order is the one of the manifest.
            return [meant.get(at, each) for at, each in enumerate(stated)]
        return merged + [each for at, each in enumerate(stated) if at not in meant]


def predict(manifest: Object, live: Object, *, dropped: Collection[FieldsPath] = ()) -> tuple[Object, list[FieldsPath]]:
    """Return the object after an apply of the manifest, without metadata and status, and the foreign list items.

    A foreign item belongs to another manager, in a list that the manifest applies. dropped: foreign items to remove.
    """
    prediction, owners = Prediction(dropped), find_owners(live)
    merged = prediction.merge(strip(manifest), strip(live), owners, path=())
    return merged, list(prediction.foreign)


def predict_alone(manifest: Object, live: Object) -> Object:
    """Return the object after an apply, with type and metadata, as if other managers had no list items."""
    _, foreign = predict(manifest, live)
    merged, _ = predict(manifest, live, dropped=foreign)
    return {**merged, **{key: live[key] for key in ("apiVersion", "kind", "metadata") if key in live}}


def predict_whole(manifest: Object, live: Object) -> tuple[Object, Object]:
    """Return the object after and before an apply of the manifest.

    Both are without status. Of the metadata, they contain only labels and annotations.
    """
    merged, _ = predict(manifest, live)
    owners = find_owners(live).at("f:metadata")
    stated, present = ({part: raw["metadata"].get(part) or {} for part in TEXT_MAPS} for raw in (manifest, live))
    metadata = Prediction().merge(stated, present, owners, path=("f:metadata",))
    return {**merged, "metadata": metadata}, {**strip(live), "metadata": present}


def find_emptied(manifest: Object, live: Object, *, manager: str = "") -> Object:
    """Return the merge patch that removes the maps that an apply would turn into null, or empty if there are none.

    manager: the field manager that applies; "" for the Stack's own.
    """
    patch = find_nulls(strip(manifest), strip(live), find_owners(live, manager=manager))
    return patch if isinstance(patch, dict) else {}


def leaves_null(manifest: Object, present: Child) -> bool:
    """Return whether an apply to the object may succeed and leave null where the manifest sets an empty map.

    Only custom kinds (their groups contain a dot) accept null, in free-form and nullable fields. For other kinds, null
    and an empty map are the same.
    """
    if present.ownership is None or "." not in present.kind.group:
        return False
    stated = strip(manifest)
    # Check for an empty map first. This runs for each change, and few manifests have one.
    return has_empty_map(stated) and has_emptied(stated, orjson.loads(present.ownership.fields))


def has_empty_map(stated: Node) -> bool:
    """Return whether any map within is empty, not counting those in lists."""
    return any(not value or has_empty_map(value) for value in stated.values() if isinstance(value, dict))


def has_emptied(stated: Node, ours: Node) -> bool:
    """Return whether the operator owns anything within a map that is set to be empty."""
    for key, value in stated.items():
        below = ours.get(f"f:{key}")
        if isinstance(value, dict) and below and (has_emptied(value, below) if value else below.keys() != {"."}):
            return True
    return False


def find_nulls(stated: Any, live: Any, owners: Owners) -> Object | list[Any] | None:
    """Return the merge patch of one level: a map of removed keys, a whole list, or None if nothing changes."""
    if isinstance(live, list):
        is_emptied = stated == [] and live and owners.is_only_ours
        return [] if is_emptied else find_nulls_in_items(stated, live, owners)
    if not isinstance(live, dict) or owners.ours is None or owners.is_whole:
        return None
    kept = stated if isinstance(stated, dict) else {}
    gone = [key for key, value in live.items() if kept.get(key) is None and owners.at(f"f:{key}").is_only_ours]
    is_emptied = bool(gone) and len(gone) == len(live)
    # A leaf disappears when it is removed. A map or list becomes null when its members are removed.
    patch: Object = {key: None for key in gone if is_emptied or not owners.at(f"f:{key}").is_whole}
    for key in live.keys() - gone:
        inner = find_nulls(kept.get(key), live[key], owners.at(f"f:{key}"))
        if inner is not None:
            patch[key] = inner
    return patch or None


def find_nulls_in_items(stated: Any, live: Sequence[Any], owners: Owners) -> list[Any] | None:
    """Return the list without the maps in its items that an apply would turn into null, or None if there are none.

    A merge patch replaces lists as a whole, so it contains all items, including items of others.
    """
    elements = dict.fromkeys(owners.list_items())
    if not isinstance(stated, list) or owners.ours is None or not elements or len(live) > limits.COMPARED_ITEMS:
        return None
    items: list[Any] = []
    is_changed = False
    for item in live:
        element = next((each for each in elements if is_named(item, each)), "")
        meant = next((each for each in stated if element and is_meant(each, element)), None)
        patch = find_nulls(meant, item, owners.at(element)) if meant is not None else None
        is_changed = is_changed or isinstance(patch, dict)
        items.append(patched(item, patch) if isinstance(patch, dict) else item)
    return items if is_changed else None


def patched(live: Any, patch: Any) -> Any:
    """Return the value after a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(live) if isinstance(live, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = patched(result.get(key), value)
    return result


def find_owners(live: Object, *, manager: str = "", with_subresources: bool = False) -> Owners:
    """Return the owners of the fields of an object.

    manager: as in `find_emptied`; with_subresources: whether writers of a status or a scale count as well.
    """
    entries = live["metadata"].get("managedFields") or ()
    named = (each for each in entries if each.get("manager") == manager and each.get("operation") == "Apply")
    entry = next(named, None) if manager else child.find_entry(entries)
    others = tuple(
        each.get("fieldsV1") or {}
        for each in entries
        if each is not entry and (with_subresources or not each.get("subresource"))
    )
    return Owners((entry.get("fieldsV1") or {}) if entry is not None else None, others)


def find_owned(live: Object, *, manager: str) -> tuple[str, Node] | None:
    """Return the version of the record of what a manager applied, and the fields; None without a record."""
    entries = live["metadata"].get("managedFields") or ()
    entry = next(
        (each for each in entries if each.get("manager") == manager and each.get("operation") == "Apply"), None
    )
    return (str(entry.get("apiVersion")), entry.get("fieldsV1") or {}) if entry is not None else None


def is_named(item: Any, element: str) -> bool:
    """Return whether the element of `fieldsV1` names this live item. The API server omits keys with an empty text."""
    return isinstance(item, dict) and all(
        item.get(name, "") == value for name, value in child.parse_key(element).items()
    )


def is_meant(stated: Any, element: str) -> bool:
    """Return whether the element names the applied item, which may omit keys with a default."""
    return isinstance(stated, dict) and field_ownership.fits(stated, child.parse_key(element))


def strip(raw: Object) -> Object:
    """Return the part of an object that may contain obstacles."""
    return {key: value for key, value in raw.items() if key not in UNTOUCHED}


def make_patch(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> Object:
    """Make the merge patch from `live` to exactly `wanted`."""
    patch: Object = {key: None for key in live if key not in wanted}
    for key, value in wanted.items():
        found = live.get(key)
        if isinstance(value, dict) and isinstance(found, dict):
            if inner := make_patch(value, found):
                patch[key] = inner
        elif key not in live or value != found:
            patch[key] = value
    return patch


def is_as_predicted(answer: Object, wanted: Object, live: Object) -> bool:
    """Whether the API server changes only those parts of `live` that `wanted` changes."""
    parts = [(answer["metadata"].get(part) or None, live["metadata"].get(part) or None) for part in COMPARED_METADATA]
    return all(one == other for one, other in parts) and is_kept(strip(answer), wanted, strip(live))


def is_kept(answer: Any, wanted: Any, live: Any) -> bool:
    """Whether the answer keeps every part of `live` that `wanted` keeps. New parts may have defaults."""
    if wanted == live:
        return bool(answer == live)
    if isinstance(wanted, dict) and isinstance(live, dict):
        return isinstance(answer, dict) and all(
            is_kept(answer.get(key), wanted.get(key), live.get(key)) for key in {*answer, *live, *wanted}
        )
    if isinstance(wanted, list) and isinstance(live, list) and isinstance(answer, list):
        return len(answer) == len(wanted) and all(item in answer for item in wanted if item in live)
    return True


def hand_over(live: Object, items: Collection[FieldsPath]) -> list[Object]:
    """Return the `managedFields` that make the operator the only owner of these list items.

    The next apply then removes them.
    """
    entries = live["metadata"].get("managedFields") or ()
    entry = child.find_entry(entries)
    handed = []
    for each in entries:
        fields = each.get("fieldsV1") or {}
        for path in items if not each.get("subresource") else ():
            fields = with_item(fields, path) if each is entry else without_item(fields, path)
        if fields:
            handed.append({**each, "fieldsV1": fields})
    return handed


def renew_version(live: Object, version: str) -> list[Object] | None:
    """Return the `managedFields` with this apiVersion in the operator's entries, or None if they have it already.

    The paths stay the same. That is wrong only for a field that has another path in this version.
    """
    entries = live["metadata"].get("managedFields") or ()
    outdated = [each for each in entries if child.is_applied_by_us(each) and each.get("apiVersion") != version]
    if not outdated:
        return None
    return [{**each, "apiVersion": version} if each in outdated else each for each in entries]


def with_item(fields: Node, path: FieldsPath) -> Object:
    """Return the fields with the field or item at `path`. An item is owned with its keys only."""
    first, rest = path[0], path[1:]
    below = fields.get(first) or {}
    if rest:
        return {**fields, first: with_item(below, rest)}
    return {**fields, first: {".": {}, **below} if first.startswith("k:") else below}


def without_item(fields: Node, path: FieldsPath) -> Object:
    """Return the fields without the item at `path` and without levels that become empty."""
    rest = {key: value for key, value in fields.items() if key != path[0]}
    inner = without_item(fields[path[0]], path[1:]) if len(path) > 1 and path[0] in fields else {}
    return {**rest, path[0]: inner} if inner else rest
