"""Converts kro's SimpleSchema, for example `integer | default=3 minimum=1`, to JSON Schema rules.

Source: kro's documentation, "SimpleSchema".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import yaml

from hearth.model import value_class
from hearth.model.child import Object
from hearth.template.text import error_hints, kubectl_yaml

TYPES: Final = {"string": "string", "integer": "integer", "boolean": "boolean", "float": "number", "object": "object"}
MARKER: Final = re.compile(
    # A quote or bracket that is never closed reaches to the end, so that no text is scanned again and again.
    r"""\b(?P<word>\w{1,64})=(?P<value>"(?:\\.?|[^"\\])*(?:"|$)|'(?:\\.?|[^'\\])*(?:'|$)|\[[^\]]*(?:\]|$)|\{[^}]*(?:\}|$)|[^\s|]+)""",
    re.DOTALL,
)
MAP: Final = "map[string]"
LIST: Final = "[]"
FIELDS: Final = 20_000
"""Maximum number of fields in a schema."""
DEPTH: Final = 32
"""Levels of a schema: lists, maps and types within one another."""
Path: TypeAlias = tuple[str, ...]
BETWEEN: Final = " |\t\n"
"""Separators of markers."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SchemaField:
    """One field."""

    rules: Object
    column: str = ""
    """The heading of its column in lists; "" for none."""
    is_required: bool = False
    unknown: tuple[str, ...] = ()
    """Parts of the schema without an equivalent, each with its path from the field."""


@dataclass(slots=True)
class SchemaReader:
    """Reads the fields of one schema, within a limit: types within types may expand to any number of fields."""

    types: Mapping[str, Any]
    """The types that the schema names."""
    needed: Collection[Path] = ()
    """The fields that an expression needs."""
    left: int = FIELDS
    """Fields that may still be read."""

    def read(self, stated: Any, path: Path = (), *, depth: int = 0) -> SchemaField:
        """Return the rules of a field: a text with a type and markers, or a map of fields."""
        self.left -= 1
        if depth > DEPTH or self.left <= 0:
            return SchemaField(rules={}, unknown=(": describes too many fields, or contains itself",))
        if isinstance(stated, dict):
            return self._read_map(stated, path, depth=depth + 1)
        if not isinstance(stated, str):
            return SchemaField(rules={}, unknown=(f": {error_hints.describe(stated)} is not a type",))
        type_, _, rest = stated.partition("|")
        inner = self._read_type(type_.strip(), path, depth=depth + 1)
        markers = read_markers(rest, inner.rules.get("type"))
        return replace(markers, rules={**inner.rules, **markers.rules}, unknown=inner.unknown + markers.unknown)

    def _read_type(self, type_: str, path: Path, *, depth: int) -> SchemaField:
        if type_ in TYPES:
            return SchemaField(rules={"type": TYPES[type_]})
        if type_.startswith(LIST):
            items = self.read(type_.removeprefix(LIST), depth=depth)
            return SchemaField(rules={"type": "array", "items": without_default(items.rules)}, unknown=items.unknown)
        if type_.startswith(MAP):
            values = self.read(type_.removeprefix(MAP), depth=depth)
            rules = {"type": "object", "additionalProperties": without_default(values.rules)}
            return SchemaField(rules=rules, unknown=values.unknown)
        if type_ not in self.types:
            return SchemaField(rules={}, unknown=(f": {error_hints.shorten(type_)} is not a type",))
        return self.read(self.types[type_], path, depth=depth)

    def _read_map(self, stated: Mapping[str, Any], path: Path, *, depth: int) -> SchemaField:
        fields = {str(name): self.read(each, (*path, str(name)), depth=depth) for name, each in stated.items()}
        required = [
            name
            for name, each in fields.items()
            if "default" not in each.rules and (each.is_required or (*path, name) in self.needed)
        ]
        rules: Object = {"type": "object", "properties": {name: each.rules for name, each in fields.items()}}
        if required:
            rules["required"] = required
        elif any("default" in each.rules for each in fields.values()):
            # The map may be omitted, because defaults fill all of its fields.
            rules["default"] = {}
        return SchemaField(rules=rules, unknown=tuple(describe_inner(fields)))


def read_markers(text: str, type_: Any) -> SchemaField:
    """Return the rules for the markers after a type. type_: the JSON Schema type."""
    rules: Object = {}
    unknown: list[str] = []
    is_required, column, after = False, "", 0
    for found in MARKER.finditer(text):
        if text[after : found.start()].strip(BETWEEN):
            break
        after = found.end()
        word, value = found["word"], found["value"]
        if word == "required":
            is_required = unquote(value) == "true"
        elif word == "printColumn":
            column = unquote(value)
        elif word in READERS:
            rules[word] = READERS[word](value, type_)
        else:
            unknown.append(f": {error_hints.shorten(f'{word}={value}')}")
    if rest := text[after:].strip(BETWEEN):
        unknown.append(f": {error_hints.quote(rest)} is not a marker; quote values that contain spaces")
    return SchemaField(rules=rules, column=column, is_required=is_required, unknown=tuple(unknown))


def without_default(rules: Object) -> Object:
    """Return the rules of an element, which has no default."""
    return {word: each for word, each in rules.items() if word != "default"}


def describe_inner(fields: Mapping[str, SchemaField]) -> Iterator[str]:
    """Yield the parts of a map without an equivalent."""
    for name, each in fields.items():
        yield from (f".{name}{unknown}" for unknown in each.unknown)
        if each.column:
            yield f'.{name}: printColumn="{each.column}"'


def unquote(text: str) -> str:
    """Return the text within quotes, or the text itself."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def read_value(text: str, type_: Any) -> Any:
    """Return the value of a marker, of that type."""
    if type_ == "string":
        return unquote(text)
    try:
        return next(kubectl_yaml.parse_documents(unquote(text))).value
    except (yaml.YAMLError, StopIteration):
        return text


READERS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "default": read_value,
    "enum": lambda text, type_: [read_value(each.strip(), type_) for each in unquote(text).split(",")],
    "uniqueItems": lambda text, _: unquote(text) == "true",
    **dict.fromkeys(("description", "pattern"), lambda text, _: unquote(text)),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"),
        lambda text, _: read_value(unquote(text), "number"),
    ),
}
"""By marker, the function that returns the JSON Schema value. Its second argument is the type of the field."""
