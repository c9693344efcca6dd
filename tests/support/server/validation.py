"""What a structural schema says of an object: the small part of validation that tests need.

A mistake is said in three ways, as the real server does: by an apply (500 without reason), and by a create or an
update (400 for unknown fields, 422 for wrong values).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from support.server import api_errors

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
    """A field that the schema does not have."""
    is_mistyped: bool = False
    cause: api_errors.Cause
    in_patch: str
    """How an apply words it."""


def find_misfits(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[Misfit]:
    """Every place of `value` that does not fit."""
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
    """Where a value of the right type is not allowed."""
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
    """Where the fields of a map are unknown, missing, or wrong themselves."""
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
