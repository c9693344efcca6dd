"""Sensitive values that an export omits, and the parameters that an import creates for them.

The export omits the whole field, so that no program can apply a placeholder. An annotation of the object lists each
field and its parameter.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import orjson

from hearth.cli.importer import resource_naming
from hearth.model import names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.errors import Mistake
from hearth.model.text import redaction
from hearth.template.text import error_hints

FieldPath: TypeAlias = tuple[str | int, ...]
ANNOTATION: Final = f"{names.GROUP}/withheld"
"""JSON: a list of `{path, parameter, type}`."""
FIXED: Final[tuple[FieldPath, ...]] = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
"""Fields that no expression may set; an object's name is not secret anyway."""
TYPES: Final = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WithheldValue:
    """One field without its value."""

    path: FieldPath
    parameter: str
    type: str
    """Of JSON Schema."""

    def __str__(self) -> str:
        """Return the field as messages name it: `data[config.yaml]`."""
        steps = (f"[{step}]" if isinstance(step, int) else error_hints.write_key(step) for step in self.path)
        return "".join(steps).removeprefix(".")


def withhold(shown: Object, raw: Object, *, resource: str) -> tuple[Object, list[WithheldValue]]:
    """Return the manifest without the fields whose values were replaced, and these fields.

    raw: the same object with all values, which determine their types. resource: the prefix of the parameter names.
    """
    kept: Object = copy.deepcopy(shown)
    for path in FIXED:
        if find(kept, path) == redaction.SENSITIVE:
            put(kept, path, find(raw, path))
    paths = list(find_replaced(kept))
    # In reverse order, so that earlier indexes stay valid.
    for path in reversed(paths):
        take(kept, path)
    parameters = resource_naming.number([name_parameter(resource, path) for path in paths])
    withheld = [
        WithheldValue(path=path, parameter=parameter, type=TYPES.get(type(find(raw, path)), "string"))
        for path, parameter in zip(paths, parameters, strict=True)
    ]
    return annotate(kept, withheld), withheld


def name_parameter(resource: str, path: FieldPath) -> str:
    """Return `webPassword` for the field `password` of the resource `web`."""
    last = next((step for step in reversed(path) if isinstance(step, str)), "")
    return resource_naming.fit(
        resource_naming.camel(resource) or resource_naming.UNNAMED, resource_naming.camel(last, first_upper=True)
    )


def find_replaced(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the paths of the fields that cannot be written.

    If part of a list or map has no name, yield the whole list or map.
    """
    match value:
        case dict():
            for key, inner in value.items():
                if is_replaced(inner):
                    yield (*path, key)
                else:
                    yield from find_replaced(inner, (*path, key))
        case list():
            for at, inner in enumerate(value):
                yield from find_replaced(inner, (*path, at))


def is_replaced(value: Any) -> bool:
    """Return whether a field has no value that could be applied."""
    match value:
        case str():
            return value == redaction.SENSITIVE
        case list():
            return any(not isinstance(each, dict) and is_replaced(each) for each in value)
        case dict():
            return any(redaction.ELLIPSIS in key for key in value)
    return False


def annotate(manifest: Object, withheld: Iterable[WithheldValue]) -> Object:
    """Return the manifest with the record of its withheld values."""
    record = [{"path": each.path, "parameter": each.parameter, "type": each.type} for each in withheld]
    if not record:
        return manifest
    metadata = {**object_fields.mapping(manifest, "metadata")}
    annotations = {**object_fields.mapping(metadata, "annotations"), ANNOTATION: orjson.dumps(record).decode()}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def read(manifest: Mapping[str, Any], *, place: str) -> Iterator[WithheldValue | Mistake]:
    """Yield the withheld values of a manifest, from its annotation; a Mistake for an invalid entry."""
    text = object_fields.find(manifest, "metadata", "annotations", ANNOTATION)
    if text is None:
        return
    try:
        entries = orjson.loads(text)
        found = [parse(entry) for entry in entries]
    except (orjson.JSONDecodeError, TypeError, KeyError, ValueError):
        message = f"the annotation {ANNOTATION} is damaged; export the object again"
        yield Mistake(path=place, message=message)
        return
    for each in found:
        if isinstance(find(manifest, each.path[:-1]), dict) and each.path not in FIXED:
            yield each
        else:
            message = f"has no place for {each}, which the annotation {ANNOTATION} names; export the object again"
            yield Mistake(path=place, message=message)


def parse(entry: Any) -> WithheldValue:
    """Return one entry of the annotation. Raises ValueError, KeyError or TypeError."""
    path, parameter = tuple(entry["path"]), entry["parameter"]
    is_path = bool(path) and isinstance(path[-1], str) and all(type(step) in (str, int) for step in path)
    if not is_path or not names.RESOURCE_NAME.fullmatch(parameter) or entry["type"] not in (*TYPES.values(), "string"):
        raise ValueError
    return WithheldValue(path=path, parameter=parameter, type=entry["type"])


def find(value: Any, path: FieldPath) -> Any:
    """Return the value at a path, None without one."""
    for step in path:
        is_there = (
            isinstance(value, dict) if isinstance(step, str) else isinstance(value, list) and 0 <= step < len(value)
        )
        if not is_there:
            return None
        value = value.get(step) if isinstance(step, str) else value[step]
    return value


def put(value: Object, path: FieldPath, new: Any) -> None:
    """Set the field at a path. Missing maps on the path are created; lists must exist."""
    holder: Any = value
    for step in path[:-1]:
        holder = holder.setdefault(step, {}) if isinstance(step, str) else holder[step]
    holder[path[-1]] = new


def take(value: Object, path: FieldPath) -> None:
    """Remove the field at a path that exists."""
    del find(value, path[:-1])[path[-1]]
