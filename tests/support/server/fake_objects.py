"""What single objects become by a write, and which are refused: rules of the API server as plain functions.

Must not know of stores or of who watches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.server import api_errors, field_sets, managed_fields, validation
from support.server.fake_kinds import ServedKind


def copy(raw: Any) -> Any:
    """A deep copy of JSON data."""
    return orjson.loads(orjson.dumps(raw))


def is_in(raw: Object, *, namespace: str) -> bool:
    """Whether an object lives in that namespace."""
    return bool(raw["metadata"].get("namespace") == namespace)


def check(served: ServedKind, live: Object | None, wanted: Object) -> None:
    """Refuse an object that its schema, or a change that the kind's own rules do not allow."""
    misfits = list(validation.find_misfits(validated_part(wanted), served.schema or {}))
    unknown = [misfit.path for misfit in misfits if misfit.is_unknown]
    if unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise api_errors.bad_request(f"strict decoding error: {listed}")
    causes = [misfit.cause for misfit in misfits] or ([] if live is None else served.guard(live, wanted))
    if served.has_rules and any(misfit.is_mistyped for misfit in misfits):
        causes.append(api_errors.RULES_NOT_RUN)
    if causes:
        raise api_errors.invalid(served.kind, wanted["metadata"]["name"], causes)


def check_patch(served: ServedKind, manifest: Object, namespace: str, name: str) -> None:
    """Refuse an apply whose body does not have the types of the schema."""
    for misfit in validation.find_misfits(validated_part(manifest), served.schema or {}):
        if misfit.in_patch:
            raise api_errors.unreadable_patch(served.kind, namespace, name, misfit.in_patch)


def check_nulls(served: ServedKind, manifest: Object, wanted: Object, *, live: Object | None, manager: str) -> None:
    """Refuse a map of a custom kind whose last key was dropped, and which anyone states as empty: it would become null."""
    if not served.shape.is_custom:
        return
    others = [entry for entry in managed_fields.parse(live) if entry.name != manager] if live is not None else []
    kept = {key for key in live or () if any((f"f:{key}",) in entry.fields for entry in others)}
    kept |= {key for key, value in validated_part(manifest).items() if value == {}}
    emptied = sorted(kept - wanted.keys())
    causes = [validation.mistyped(key, "object", None).cause for key in emptied]
    if causes:
        rest = [api_errors.RULES_NOT_RUN] if served.has_rules else []
        raise api_errors.invalid(served.kind, wanted["metadata"]["name"], [*causes, *rest])


def validated_part(raw: Mapping[str, Any]) -> Object:
    """What of an object its kind's schema speaks of."""
    return {key: value for key, value in raw.items() if key not in {"apiVersion", "kind", "metadata"}}


def check_preconditions(kind: Kind, live: Object | None, stated: Mapping[str, Any]) -> None:
    """Refuse an apply that states another uid or resourceVersion than the object's."""
    name, uid = stated["name"], stated.get("uid")
    if live is None:
        if uid is not None:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise api_errors.conflict(kind, name, why)
        return
    version = stated.get("resourceVersion")
    if version not in (None, "0", live["metadata"]["resourceVersion"]):
        raise api_errors.stale(kind, name)
    if uid not in (None, live["metadata"]["uid"]):
        cause = api_errors.cause("metadata.uid", f'Invalid value: "{uid}": field is immutable')
        # Twice, as real servers do.
        raise api_errors.invalid(kind, name, [cause, cause])


EMPTY_IS_NONE = frozenset({"labels", "annotations", "finalizers", "ownerReferences"})
"""Fields of the metadata that are not there when nothing is in them."""


def keep_system_fields(live: Object, wanted: Object, served: ServedKind) -> Object:
    """`wanted` with what only the server writes taken from `live`."""
    kept = field_sets.UNOWNED_METADATA & live["metadata"].keys()
    metadata = {key: value for key, value in wanted["metadata"].items() if key not in field_sets.UNOWNED_METADATA}
    metadata |= {key: live["metadata"][key] for key in kept}
    metadata = {key: value for key, value in metadata.items() if value or key not in EMPTY_IS_NONE}
    if not served.shape.has_status:
        return {**wanted, "metadata": metadata}
    rest = {key: value for key, value in wanted.items() if key != "status"}
    status = {"status": live["status"]} if "status" in live else {}
    return {**rest, "metadata": metadata, **status}


def with_managed_fields(raw: Object, entries: list[Object]) -> Object:
    """The object with these entries, as a user states them. An empty one clears them all."""
    return {**raw, "metadata": {**raw["metadata"], "managedFields": [entry for entry in entries if entry]}}


def merge_patch(value: Any, patch: Any) -> Any:
    """RFC 7386: maps are merged, null takes a key away, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, inner in patch.items():
        if inner is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), inner)
    return merged


def fill(raw: Object, served: ServedKind, live: Object | None = None) -> Object:
    """The object with what the server gives its spec where that does not say so itself. live: the old one."""
    filled = {**raw, "spec": {**served.fills, **(raw.get("spec") or {})}} if served.fills else raw
    return served.complete(live, filled)


def is_same(live: Object, wanted: Object) -> bool:
    """Whether a write changes nothing, times of field managers apart."""
    return stripped(live) == stripped(wanted)


def stripped(raw: Object) -> Object:
    """An object without what a write that changes nothing may differ in."""
    entries = [{**entry, "time": ""} for entry in raw["metadata"].get("managedFields", ())]
    return {**raw, "metadata": {**raw["metadata"], "managedFields": entries}}


def has_new_generation(live: Object, wanted: Object, served: ServedKind) -> bool:
    """Whether a change is one of what is wanted, rather than of metadata or status."""
    skipped = {"metadata", "status"} if served.shape.has_status else {"metadata"}
    return any(live.get(key) != wanted.get(key) for key in (live.keys() | wanted.keys()) - skipped)
