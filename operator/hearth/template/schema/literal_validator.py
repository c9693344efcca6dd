"""Mistakes in a manifest's literals: unknown fields, values of the wrong type, replacements of sensitive values.

`hearth.template.cel.type_checker` validates expressions. Fields that the schema leaves open are not validated. Someone
copied a replacement from a status, a preview or an export; applied, it would overwrite what it stands for.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hearth.model import limits
from hearth.model.errors import Mistake
from hearth.model.text import redaction
from hearth.template.schema import shapes
from hearth.template.schema.json_schema import Effort
from hearth.template.schema.shapes import Shape, Type
from hearth.template.text import error_hints, interpolation

_NAMES = {
    Type.OBJECT: "a map",
    Type.MAP: "a map",
    Type.ARRAY: "a list",
    Type.STRING: "text",
    Type.INTEGER: "an integer",
    Type.NUMBER: "a number",
    Type.BOOLEAN: "true or false",
}
QUOTED = {
    Type.INTEGER: re.compile(r"[+-]?[0-9]{1,18}"),
    Type.NUMBER: re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?"),
    Type.BOOLEAN: re.compile(r"true|false|yes|no|on|off", re.IGNORECASE),
}
"""Texts that are such a value without their quotes."""
OR_ESCAPE = f"write the value or a parameter, or ${{'{redaction.SENSITIVE}'}} if the very word is meant"
PROSE = frozenset({"description", "title"})
"""Fields that people write for people, as schemas have them."""


def check(value: Any, shape: Shape, *, path: str, effort: Effort) -> Iterator[Mistake]:
    """Find the mistakes in `value` at `path`, where `shape` is expected; at most as many as one message lists."""
    for below, message in find_wrong(value, shape, effort)[: limits.MISTAKES]:
        yield Mistake(path=path + below, message=message)


def find_wrong(value: Any, shape: Shape, effort: Effort) -> list[tuple[str, str]]:
    """Find the paths below `value` with a mistake, and the mistake. Paths are written only for mistakes."""
    if shape.type is Type.OPEN or value is None or (isinstance(value, str) and interpolation.has_expressions(value)):
        return []
    if not is_of(value, shape.type):
        return [("", f"must be {name_type(shape)}, found {error_hints.describe(value)}{suggest(value, shape)}")]
    if isinstance(value, dict):
        return find_wrong_entries(value, shape, effort)
    found: list[tuple[str, str]] = []
    if isinstance(value, list) and shape.element.type is not Type.OPEN:
        for at, element in enumerate(value):
            if not (wrong := find_wrong(element, shape.element, effort)):
                continue
            found += [(f"[{at}]{below}", message) for below, message in wrong]
            if len(found) > limits.MISTAKES:
                break
    return found


def find_wrong_entries(value: dict[str, Any], shape: Shape, effort: Effort) -> list[tuple[str, str]]:
    """Find the mistakes in a map."""
    fields = shape.fields if shape.type is Type.OBJECT else None
    found: list[tuple[str, str]] = []
    for key, inner in value.items():
        field = shape.element if fields is None else fields.get(key)
        if field is not None:
            if not (wrong := find_wrong(inner, field, effort)):
                continue
            found += [(error_hints.write_key(str(key)) + below, message) for below, message in wrong]
        elif inner is not None:
            hint = effort.hint(str(key), shape.fields) or "; remove it, or see kubectl explain for its fields"
            message = f"there is no field '{error_hints.shorten(str(key))}' in {shape.name}{hint}"
            found.append((error_hints.write_key(str(key)), message))
        if len(found) > limits.MISTAKES:
            break
    return found


def is_of(value: Any, wanted: Type) -> bool:
    """Return whether a location of that type accepts `value`."""
    match wanted:
        case Type.OBJECT | Type.MAP:
            return isinstance(value, dict)
        case Type.ARRAY:
            return isinstance(value, list)
        case Type.STRING:
            return isinstance(value, str)
        case Type.BOOLEAN:
            return isinstance(value, bool)
        case Type.INTEGER:
            return is_number(value) and float(value).is_integer()
        case Type.NUMBER:
            return is_number(value)
    return True


def is_number(value: Any) -> bool:
    """Return whether `value` is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def suggest(value: Any, shape: Shape) -> str:
    """Suggest the next step, if it is obvious."""
    if shape.type is Type.STRING and isinstance(value, bool | int | float):
        return "; put it in quotes"
    if shape.type is not Type.STRING and isinstance(value, str):
        pattern = QUOTED.get(shape.type)
        return "; remove the quotes" if pattern is not None and pattern.fullmatch(value) else ""
    return ""


def name_type(shape: Shape) -> str:
    """Describe in plain words what a location accepts."""
    return _NAMES.get(shape.type, "anything")


def find_place(shape: Shape, keys: Sequence[str | int]) -> Shape:
    """Find the shape of the location under `keys`; OPEN if it is not known."""
    for key in keys:
        match shape.type:
            case Type.OBJECT:
                shape = shape.fields.get(str(key), shapes.OPEN)
            case Type.MAP | Type.ARRAY:
                shape = shape.element
            case _:
                return shapes.OPEN
    return shape


def find_masked(manifest: Mapping[str, Any], *, path: str) -> Iterator[Mistake]:
    """Find the replacements of sensitive values in a manifest at `path` that stand there as if they were the values."""
    for place in find_masked_paths(manifest, path=path):
        yield Mistake(path=place, message=f"{redaction.MASKED}; {OR_ESCAPE}")


def find_masked_paths(manifest: Mapping[str, Any], *, path: str) -> Iterator[str]:
    """Yield the paths of the replacements in a manifest at `path`; in a Secret also where one is part of a text."""
    is_secret = manifest.get("kind") == "Secret" and manifest.get("apiVersion") == "v1"
    for place, text in find_texts(manifest, path):
        if redaction.is_mask(text) or (
            is_secret and (redaction.has_mask(text) or redaction.has_mask(decode_text(text)))
        ):
            yield place


def find_texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each text in a value with its path, but for prose."""
    match value:
        case str():
            yield path, value
        case list():
            for at, inner in enumerate(value):
                yield from find_texts(inner, f"{path}[{at}]")
        case dict():
            for key, inner in value.items():
                if not (key in PROSE and isinstance(inner, str)):
                    yield from find_texts(inner, path + error_hints.write_key(str(key)))


def decode_text(text: str) -> str:
    """Return what a text is in base 64; "" if it is none."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
