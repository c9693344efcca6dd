"""Field ownership after a write: updates an object's `managedFields`.

Works on values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hearth.model.child import Object
from support.server import api_errors, field_sets
from support.server.field_sets import FieldSet, Shape

REPLICAS = ("f:spec", "f:replicas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    name: str
    operation: str
    subresource: str
    api_version: str
    time: str
    fields: FieldSet

    @property
    def identity(self) -> tuple[str, str, str]:
        """The identity of an entry."""
        return self.name, self.operation, self.subresource

    @property
    def title(self) -> str:
        """The name of an entry in the server's conflict messages."""
        part = f" with subresource {self.subresource!r}".replace("'", '"') if self.subresource else ""
        return f'"{self.name}"{part} using {self.api_version}'


def parse(raw: Object) -> list[Manager]:
    """The entries of an object."""
    return [
        Manager(
            name=entry["manager"],
            operation=entry["operation"],
            subresource=entry.get("subresource", ""),
            api_version=entry["apiVersion"],
            time=entry.get("time", ""),
            fields=frozenset(field_sets.from_fields_v1(entry["fieldsV1"])),
        )
        for entry in raw["metadata"].get("managedFields", ())
    ]


def with_entries(raw: Object, entries: list[Manager]) -> Object:
    """The object with these entries; entries that own nothing are left out."""
    written = [
        {
            "manager": entry.name,
            "operation": entry.operation,
            "apiVersion": entry.api_version,
            "time": entry.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": field_sets.to_fields_v1(entry.fields),
            **({"subresource": entry.subresource} if entry.subresource else {}),
        }
        for entry in sorted(entries, key=lambda entry: entry.operation != "Apply")
        if entry.fields
    ]
    return {**raw, "metadata": {**raw["metadata"], "managedFields": written}}


def record_update(live: Object | None, wanted: Object, shape: Shape, *, manager: str, time: str) -> Object:
    """`wanted` with the ownership after an update (PUT, patch, POST): the writer owns the fields it changed."""
    before = {} if live is None else field_sets.flatten(live, shape)
    return record(live, wanted, before, field_sets.flatten(wanted, shape), manager=manager, time=time)


def record_status(live: Object, wanted: Object, shape: Shape, *, manager: str, time: str) -> Object:
    """The same for a write of the status."""
    open_shape = replace(shape, has_status=False)
    before = field_sets.flatten({"status": live.get("status", {})}, open_shape)
    after = field_sets.flatten({"status": wanted["status"]}, open_shape)
    return record(live, wanted, before, after, manager=manager, time=time, subresource="status")


def record_scale(live: Object, wanted: Object, shape: Shape, *, manager: str, time: str) -> Object:
    """The same for a write of the replica count through the subresource `scale`.

    Its JSON omits a count of 0, so that the count then has no owner. Later writes of a count without an owner record no
    writer.
    """
    before, after = field_sets.flatten(live, shape), field_sets.flatten(wanted, shape)
    owned = frozenset().union(*(entry.fields for entry in parse(live)))
    if REPLICAS not in owned:
        return with_entries(wanted, parse(live))
    if not wanted["spec"]["replicas"]:
        after = {path: value for path, value in after.items() if path != REPLICAS}
    return record(live, wanted, before, after, manager=manager, time=time, subresource="scale")


def record(
    live: Object | None,
    wanted: Object,
    before: Mapping[Any, Any],
    after: Mapping[Any, Any],
    *,
    manager: str,
    time: str,
    subresource: str = "",
) -> Object:
    """`wanted` with the entries derived from its leaves before and after."""
    entries = [] if live is None else parse(live)
    changed = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    gone = frozenset(before) - frozenset(after)
    mine = Manager(
        name=manager,
        operation="Update",
        subresource=subresource,
        api_version=wanted["apiVersion"],
        time=time,
        fields=changed,
    )
    if not changed and not gone:
        return with_entries(wanted, entries)
    kept = [replace(entry, fields=entry.fields - gone - changed) for entry in entries]
    own = [entry for entry in kept if entry.identity == mine.identity]
    others = [entry for entry in kept if entry.identity != mine.identity]
    held: FieldSet = frozenset().union(*(entry.fields for entry in own))
    return with_entries(wanted, [*others, replace(mine, fields=changed | held)])


def apply(live: Object | None, manifest: Object, shape: Shape, *, manager: str, force: bool, time: str) -> Object:
    """The result of server-side apply on `live`; rejected if others own changed fields."""
    base = live if live is not None else {"metadata": {}}
    entries = [] if live is None else parse(live) or [attribute(live, shape, time=time)]
    stated = field_sets.field_set(manifest, shape)
    mine = Manager(
        name=manager,
        operation="Apply",
        subresource="",
        api_version=manifest["apiVersion"],
        time=time,
        fields=stated,
    )
    others = [entry for entry in entries if entry.identity != mine.identity]
    last: FieldSet = frozenset().union(*(entry.fields for entry in entries if entry.identity == mine.identity))
    merged = field_sets.merge(base, without_system_fields(manifest, live, shape), shape)
    others = yield_fields(base, merged, others, shape, force=force)
    merged = prune(merged, last - stated, [mine, *others], shape)
    leaves = field_sets.flatten(merged, shape)
    # A map that another manager applied empty stays owned by it while other managers own keys of the map.
    still = frozenset(path[:length] for path in leaves for length in range(1, len(path) + 1))
    others = [replace(entry, fields=narrow(entry, still)) for entry in others]
    return with_entries(merged, [mine, *others])


def attribute(live: Object, shape: Shape, *, time: str) -> Manager:
    """The entry for an object without any: its fields have no known owner."""
    return Manager(
        name="before-first-apply",
        operation="Update",
        subresource="",
        api_version=live["apiVersion"],
        time=time,
        fields=frozenset(field_sets.flatten(live, shape)),
    )


def narrow(entry: Manager, still: FieldSet) -> FieldSet:
    """The fields of an entry that still exist; entries of a subresource are unchanged."""
    return entry.fields if entry.subresource else entry.fields & still


def without_system_fields(manifest: Object, live: Object | None, shape: Shape) -> Object:
    """The manifest without fields that an apply cannot set; a new object keeps its name and namespace."""
    kept = {"name", "namespace"}
    skipped = field_sets.UNOWNED_METADATA - (kept if live is None else frozenset())
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in skipped}
    return {
        key: metadata if key == "metadata" else value
        for key, value in manifest.items()
        if key != "status" or not shape.has_status
    }


def yield_fields(base: Object, merged: Object, others: list[Manager], shape: Shape, *, force: bool) -> list[Manager]:
    """The others' entries without the applied fields; rejected if the apply must not take them."""
    before, after = field_sets.flatten(base, shape), field_sets.flatten(merged, shape)
    changed = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    contested = {entry.title: sorted(entry.fields & changed) for entry in others if entry.fields & changed}
    if contested and not force:
        raise api_errors.owned_by_others(
            {title: [field_sets.dotted(path) for path in paths] for title, paths in contested.items()}
        )
    return [replace(entry, fields=entry.fields - changed) for entry in others]


def prune(merged: Object, dropped: FieldSet, entries: list[Manager], shape: Shape) -> Object:
    """The object without fields that we owned and no longer set, unless another client owns them too."""
    owned: FieldSet = frozenset().union(*(entry.fields for entry in entries))
    held = frozenset(path[:length] for path in owned for length in range(1, len(path) + 1))
    # Remove a map without an owner, together with the defaults in it.
    dropped = frozenset(path[:length] for path in dropped for length in range(1, len(path) + 1))
    gone = dropped - held
    for path in sorted(gone, key=len, reverse=True):
        # A list item that another client partly owns keeps its keys; a removed item loses them.
        if not field_sets.is_key(path):
            merged = field_sets.remove(merged, path, shape)
    return merged
