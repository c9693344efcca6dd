"""Finds errors in the literal values of a manifest: unknown fields, wrong types, duplicates and redaction placeholders.

Fields that the schema leaves open are not validated. Expressions are validated in
`hearth.template.cel.expression_validator`.

Applying a redaction placeholder, which was copied from a status, a preview or an export, would overwrite the sensitive
value.

The API server merges some lists by key and rejects two elements with the same key, for example two ports with the same
number. These lists are known for built-in kinds even without a schema from the cluster.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from hearth.model import limits
from hearth.model.errors import Mistake
from hearth.model.text import redaction
from hearth.template.schema import shapes
from hearth.template.schema.json_schema import Effort
from hearth.template.schema.shapes import Schema, Shape, Type
from hearth.template.text import error_hints, interpolation, quantity

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
"""Texts that would be values of the type without their quotes."""
OR_ESCAPE = f"write the value or a parameter, or ${{'{redaction.SENSITIVE}'}} if this literal text is intended"
PROSE = frozenset({"description", "title"})
"""Fields with free text, which are common in schemas."""
BUILT_IN: Final = Path(__file__).with_name("keyed_lists.json")
"""The lists of Kubernetes' own kinds, from its published schemas: see `keyed_lists.prune` of the tests."""
SCALAR_TYPES: Final = frozenset({Type.STRING, Type.INTEGER, Type.NUMBER, Type.BOOLEAN})
Identity: TypeAlias = tuple[Any, ...]


def check(value: Any, shape: Shape, *, path: str, effort: Effort) -> Iterator[Mistake]:
    """Find the errors in `value` at `path`, where `shape` is expected; at most as many as one message lists."""
    for below, message in find_wrong(value, shape, effort)[: limits.MISTAKES]:
        yield Mistake(path=path + below, message=message)


def find_wrong(value: Any, shape: Shape, effort: Effort) -> list[tuple[str, str]]:
    """Return the path and the message of each error below `value`. Paths are only built for errors."""
    if shape.notation and (wrong_text := find_wrong_text(value, shape)):
        return [("", wrong_text)]
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


def find_wrong_text(value: Any, shape: Shape) -> str:
    """Explain why a value is not in the required notation. Returns "" if it is, or if it contains expressions."""
    if shape is shapes.QUANTITY:
        if isinstance(value, bool | dict | list) or (
            isinstance(value, str) and not interpolation.has_expressions(value) and not quantity.is_quantity(value)
        ):
            return (
                f"must be a quantity, found {error_hints.describe(value)}; write a number with a unit, e.g. 500m or 2Gi"
            )
        return ""
    if not isinstance(value, str) or interpolation.has_expressions(value):
        return ""
    try:
        base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        # Do not quote the text, because it may be a secret that a user forgot to encode.
        return "must be base64, found a text in another form; encode it, or write it in stringData if this is a Secret"
    return ""


def find_wrong_entries(value: dict[str, Any], shape: Shape, effort: Effort) -> list[tuple[str, str]]:
    """Find the errors in a map."""
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
    """Describe in plain words the values that a location accepts."""
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
    """Find the placeholders that a manifest at `path` contains in place of sensitive values."""
    for place in find_masked_paths(manifest, path=path):
        yield Mistake(path=place, message=f"{redaction.MASKED}; {OR_ESCAPE}")


def find_masked_paths(manifest: Mapping[str, Any], *, path: str) -> Iterator[str]:
    """Yield the paths of placeholders in a manifest at `path`; in a Secret, also of texts that contain one."""
    is_secret = manifest.get("kind") == "Secret" and manifest.get("apiVersion") == "v1"
    for place, text in find_texts(manifest, path):
        if redaction.is_mask(text) or (
            is_secret and (redaction.has_mask(text) or redaction.has_mask(decode_text(text)))
        ):
            yield place


def find_texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each text in a value with its path, except descriptions."""
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
    """Return the decoded text of a base64 value, or "" if it is not base64."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def find_list_shape(known: Shape, api_version: str, kind: str) -> Shape:
    """Find the shape that shows which lists have keys: of Kubernetes' own kind, otherwise the `known` one.

    A definition then has the same errors with and without a cluster, because an API server never removes a key from a
    schema.
    """
    built_in = find_built_in(f"{api_version}/{kind}")
    return known if built_in is shapes.OPEN else built_in


@functools.cache
def read_built_in() -> Mapping[str, Mapping[str, Schema]]:
    """Read the schemas of Kubernetes' own kinds, reduced to their lists."""
    found: Mapping[str, Mapping[str, Schema]] = orjson.loads(BUILT_IN.read_bytes())
    return found


@functools.lru_cache(maxsize=256)
def find_built_in(kind: str) -> Shape:
    """Find the shape of a built-in kind, e.g. `apps/v1/Deployment`; OPEN for other kinds."""
    content = read_built_in()
    name = content["kinds"].get(kind)
    definitions = content["definitions"]
    if name is None:
        return shapes.OPEN
    return shapes.make_shape({"$ref": name}, find=definitions.get, memory={}, name=kind.rpartition("/")[2])


def find_repeated(value: Any, shape: Shape, *, shows_values: bool = True) -> list[tuple[str, str]]:
    """Return the path and a description of each element below `value` that repeats an earlier element.

    At most as many as one message lists. An element with an expression in its key, or with null there, is not compared.
    shows_values: whether a message may contain values.
    """
    found: list[tuple[str, str]] = []
    for each in walk_lists(value, shape, shows_values=shows_values):
        found.append(each)
        if len(found) > limits.MISTAKES:
            break
    return found


def walk_lists(value: Any, shape: Shape, *, shows_values: bool, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the path and a description of each repeated element in a value."""
    if shape is shapes.OPEN or depth > limits.JSON_DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, dict | list):
                for below, message in walk_lists(
                    inner, shape.find_entry(str(key)), shows_values=shows_values, depth=depth + 1
                ):
                    yield error_hints.write_key(str(key)) + below, message
    elif isinstance(value, list):
        yield from compare_elements(value, shape, shows_values=shows_values)
        for at, inner in enumerate(value):
            if isinstance(inner, dict | list):
                for below, message in walk_lists(inner, shape.element, shows_values=shows_values, depth=depth + 1):
                    yield f"[{at}]{below}", message


def compare_elements(elements: list[Any], shape: Shape, *, shows_values: bool) -> Iterator[tuple[str, str]]:
    """Yield the position of each element of one list that repeats an earlier one."""
    keys = shape.list_keys
    if keys is None:
        return
    seen: dict[Identity, int] = {}
    for at, element in enumerate(elements):
        identity = identify(element, keys, shape.element)
        if identity is None:
            continue
        first = seen.setdefault(identity, at)
        if first != at:
            yield f"[{at}]", explain_repetition(first, keys, identity, shows_values=shows_values)


def identify(element: Any, keys: tuple[str, ...], shape: Shape) -> Identity | None:
    """Return the identity of an element, or None if it is unknown, or if the API server rejects the element anyway."""
    if not keys:
        return (normalize(element),) if is_known_scalar(element) else None
    if not isinstance(element, dict):
        return None
    values = [element[key] if key in element else shape.find_default(key) for key in keys]
    return tuple(map(normalize, values)) if all(map(is_known_scalar, values)) else None


def is_known_scalar(value: Any) -> bool:
    """Return whether a value is a scalar without an expression."""
    if isinstance(value, str):
        return not interpolation.has_expressions(value)
    return isinstance(value, bool | int | float)


def normalize(value: Any) -> Any:
    """Return a value that compares as in JSON, where true does not equal 1."""
    return ("boolean", value) if isinstance(value, bool) else value


def explain_repetition(first: int, keys: tuple[str, ...], identity: Identity, *, shows_values: bool) -> str:
    """Describe a repeated element. first: the position of the element that it repeats."""
    values = [each[1] if isinstance(each, tuple) else each for each in identity]
    if not keys:
        what = f" ({error_hints.describe(values[0])})" if shows_values else ""
        return f"repeats the element [{first}]{what}; remove one of them"
    pairs = zip(keys, values, strict=True)
    stated = [f"{key} {error_hints.shorten(str(value))}" if shows_values else key for key, value in pairs]
    named = error_hints.list_words(stated)
    return f"has the same {named} as the element [{first}]; change or remove one of them"


def may_repeat(shape: Shape, keys: tuple[str | int, ...], *, is_whole: bool) -> bool:
    """Return whether the value of an expression at that path can make an element repeat another one.

    is_whole: whether the value may be a map or a list.
    """
    place = shape
    for at, key in enumerate(keys):
        list_keys = place.list_keys
        if list_keys is not None:
            rest = keys[at + 1 :]
            if not rest or (len(rest) == 1 and rest[0] in list_keys):
                return True
        if place is shapes.OPEN:
            return False
        place = place.element if isinstance(key, int) else place.find_entry(key)
    return is_whole and place is not shapes.OPEN and place.type not in SCALAR_TYPES
