"""The result of a write on a single object, or its rejection: rules of the API server as plain functions.

Supports the small part of structural schemas that tests need. As on the real server, mistakes are reported in three
ways: by an apply (500 without reason), and by a create or an update (400 for unknown fields, 422 for wrong values).
Supports only quotas that count objects: `spec.hard: {count/probes.testing.hearth.dev: 2}`. Storage and watches are in
`fake_server`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.server import api_errors, field_sets, managed_fields
from support.server.fake_kinds import ServedKind

TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
WORDS: Mapping[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """One place where an object does not fit its schema."""

    path: str
    is_unknown: bool = False
    """Whether the schema does not have the field."""
    is_mistyped: bool = False
    cause: api_errors.Cause
    in_patch: str
    """The message of the error for an apply."""


def copy(raw: Any) -> Any:
    """A deep copy of JSON data."""
    return orjson.loads(orjson.dumps(raw))


def is_in(raw: Object, *, namespace: str) -> bool:
    """Whether an object lives in that namespace."""
    return bool(raw["metadata"].get("namespace") == namespace)


def check(served: ServedKind, live: Object | None, wanted: Object) -> None:
    """Refuse an object that violates its schema, or a change that the kind's own rules do not allow."""
    misfits = list(find_misfits(validated_part(wanted), served.schema or {}))
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
    for misfit in find_misfits(validated_part(manifest), served.schema or {}):
        if misfit.in_patch:
            raise api_errors.unreadable_patch(served.kind, namespace, name, misfit.in_patch)


def check_nulls(served: ServedKind, manifest: Object, wanted: Object, *, live: Object | None, manager: str) -> None:
    """Reject an empty map that lost its last key in a custom kind: it would become null."""
    if not served.shape.is_custom:
        return
    others = [entry for entry in managed_fields.parse(live) if entry.name != manager] if live is not None else []
    kept = {key for key in live or () if any((f"f:{key}",) in entry.fields for entry in others)}
    kept |= {key for key, value in validated_part(manifest).items() if value == {}}
    emptied = sorted(kept - wanted.keys())
    causes = [mistyped(key, "object", None).cause for key in emptied]
    if causes:
        rest = [api_errors.RULES_NOT_RUN] if served.has_rules else []
        raise api_errors.invalid(served.kind, wanted["metadata"]["name"], [*causes, *rest])


def validated_part(raw: Mapping[str, Any]) -> Object:
    """The part of an object that its kind's schema describes."""
    return {key: value for key, value in raw.items() if key not in {"apiVersion", "kind", "metadata"}}


def check_preconditions(kind: Kind, live: Object | None, stated: Mapping[str, Any]) -> None:
    """Reject an apply with a uid or resourceVersion other than the object's."""
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
        # Report the error twice, as real servers do.
        raise api_errors.invalid(kind, name, [cause, cause])


EMPTY_IS_NONE = frozenset({"labels", "annotations", "finalizers", "ownerReferences"})
"""Metadata fields that are dropped when empty."""


def keep_system_fields(live: Object, wanted: Object, served: ServedKind) -> Object:
    """`wanted` with the fields that only the server writes, copied from `live`."""
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
    """The object with these managedFields entries from a user. An empty entry clears them all."""
    return {**raw, "metadata": {**raw["metadata"], "managedFields": [entry for entry in entries if entry]}}


def merge_patch(value: Any, patch: Any) -> Any:
    """RFC 7386: maps are merged, null removes a key, and other values replace."""
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
    """The object with the server's defaults for its spec. live: the old object."""
    filled = {**raw, "spec": {**served.fills, **(raw.get("spec") or {})}} if served.fills else raw
    return served.complete(live, filled)


def is_same(live: Object, wanted: Object) -> bool:
    """Whether a write changes nothing, except times of field managers."""
    return stripped(live) == stripped(wanted)


def stripped(raw: Object) -> Object:
    """An object without the fields that may differ in a write that changes nothing."""
    entries = [{**entry, "time": ""} for entry in raw["metadata"].get("managedFields", ())]
    return {**raw, "metadata": {**raw["metadata"], "managedFields": entries}}


def has_new_generation(live: Object, wanted: Object, served: ServedKind) -> bool:
    """Whether a change affects the desired state, rather than metadata or status."""
    skipped = {"metadata", "status"} if served.shape.has_status else {"metadata"}
    return any(live.get(key) != wanted.get(key) for key in (live.keys() | wanted.keys()) - skipped)


def check_quotas(quotas: Iterable[Object], kind: Kind, name: str, *, used: int) -> None:
    """Refuse another object of that kind if a quota is full. used: the number of existing objects."""
    key = find_quota_key(kind)
    for quota in quotas:
        hard = read_quota(quota)
        if key in hard and used >= int(hard[key]):
            counts = f"requested: {key}=1, used: {key}={used}, limited: {key}={hard[key]}"
            raise api_errors.forbidden(kind, name, f"exceeded quota: {quota['metadata']['name']}, {counts}")


def count_quota(quota: Object, used: dict[str, int]) -> Object:
    """The status of a quota, given the number of objects by key."""
    hard = read_quota(quota)
    return {"hard": hard, "used": {key: str(used.get(key, 0)) for key in hard}}


def find_quota_key(kind: Kind) -> str:
    """The key for the number of objects of a kind in a quota."""
    return f"count/{api_errors.resource_name(kind)}"


def read_quota(quota: Object) -> dict[str, Any]:
    """The limits of a quota."""
    return dict((quota.get("spec") or {}).get("hard") or {})


def find_misfits(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[Misfit]:
    """Every place of `value` that violates the schema."""
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield mistyped(path, "integer,string", value)
        return
    wanted = schema.get("type")
    if wanted and (not isinstance(value, TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean")):
        yield mistyped(path, wanted, value)
        return
    yield from find_value_misfits(value, schema, path)
    if isinstance(value, dict):
        yield from find_field_misfits(value, schema, path)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_misfits(item, schema.get("items", {}), f"{path}[{index}]")


def find_value_misfits(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Misfit]:
    """Places where a value of the right type is not allowed."""
    if "minimum" in schema and value < schema["minimum"]:
        limit = schema["minimum"]
        message = f"Invalid value: {value}: {path} in body should be greater than or equal to {limit}"
        yield Misfit(path=path, cause=api_errors.cause(path, message), in_patch="")
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(f'"{each}"' for each in schema["enum"])
        message = f'Unsupported value: "{value}": supported values: {allowed}'
        cause = api_errors.cause(path, message, reason="FieldValueNotSupported")
        yield Misfit(path=path, cause=cause, in_patch="")


def find_field_misfits(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[Misfit]:
    """Places where the fields of a map are unknown, missing or invalid."""
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            where = f"{path}.{name}".lstrip(".")
            yield Misfit(
                path=where, cause=api_errors.cause(where, "Required value", reason="FieldValueRequired"), in_patch=""
            )
    for name, inner in value.items():
        where = f"{path}.{name}".lstrip(".")
        if name in properties:
            yield from find_misfits(inner, properties[name], where)
        elif "additionalProperties" in schema:
            yield from find_misfits(inner, schema["additionalProperties"], where)
        elif properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
            in_patch = f".{where}: field not declared in schema"
            yield Misfit(path=where, is_unknown=True, cause=api_errors.cause(where, "unknown field"), in_patch=in_patch)


def mistyped(path: str, wanted: str, value: Any) -> Misfit:
    """A value of another type than the schema's."""
    found = "null" if value is None else WORDS.get(type(value), "object")
    message = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return Misfit(
        path=path,
        is_mistyped=True,
        cause=api_errors.cause(path, message, reason="FieldValueTypeInvalid"),
        in_patch=f".{path}: expected {wanted}, got &value.valueUnstructured{{Value:{value!r}}}",
    )
