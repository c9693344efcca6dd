"""The table of resource types (`heat_types.yaml`), and the conversion of properties to the fields of an object.

References, and rules that need code, come from the caller.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from hearth.cli.importer.heat import heat_values
from hearth.cli.importer.heat.heat_values import Expression, Lost, Value
from hearth.model import object_fields, value_class
from hearth.model.child import Object
from hearth.template.text import error_hints

GROUP: Final = "openstack.k-orc.cloud"
VERSION: Final = "v1alpha1"
TABLE: Final = Path(__file__).with_name("heat_types.yaml")
Row = Mapping[str, Any]


@functools.cache
def read_table() -> Mapping[str, Row]:
    """Return the rows by the types of Heat."""
    table: Mapping[str, Row] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return table


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A part of the Heat template that the result does not have."""

    place: str
    reason: str
    value: Any = None
    """The value in the Heat template."""


class PropertyReader(Protocol):
    """Reads the values of properties in one template."""

    def translate(self, value: Any) -> Value:
        """Return a value with its functions as expressions. Raises Lost."""

    def refer(self, value: Any, kind: str) -> Value:
        """Return the name of the object that a value refers to. Raises Lost."""


class FieldMaker:
    """Makes the fields of one object."""

    def __init__(self, reader: PropertyReader, rules_in_code: Mapping[str, Callable[[str, Any, Row], None]]) -> None:
        """rules_in_code: the function for a property and its row, by the word of `use`."""
        self._reader = reader
        self._rules_in_code = rules_in_code
        self.losses: list[Loss] = []

    def make(self, properties: Mapping[str, Any], row: Row, *, place: str) -> Object:
        """Return the fields. row: of the type, or of the elements of a list.

        Raises Lost if nothing can be converted.
        """
        fields: Object = {}
        rules = object_fields.mapping(row, "properties") or object_fields.mapping(row, "each")
        for name, value in properties.items():
            inner = f"{place}.{error_hints.shorten(name)}"
            rule = rules.get(name)
            if rule is None:
                self.losses.append(Loss(place=inner, reason="is not known here", value=value))
                continue
            self._make_property(fields, name, value, {"to": rule} if isinstance(rule, str) else rule, inner)
        for path, value in {**object_fields.mapping(row, "set"), **object_fields.mapping(row, "defaults")}.items():
            if find_path(fields, path) is None:
                put(fields, path, value)
        together = object_fields.texts(row, "together")
        missing = [path for path in together if find_path(fields, path) is None]
        if missing and len(missing) < len(together):
            raise Lost(f"{missing[0]} is missing")
        if missing := [path for path in object_fields.texts(row, "requires") if find_path(fields, path) is None]:
            raise Lost(f"there is no {missing[0]}, which the controller requires")
        return fields

    def _make_property(self, fields: Object, name: str, value: Any, rule: Row, place: str) -> None:
        if "refuse" in rule and not self._is_harmless(value, rule):
            raise Lost(f"{name}: {rule['refuse']}")
        if value is None and "empty" not in rule:
            return
        if "drop" in rule:
            if rule["drop"]:
                self.losses.append(Loss(place=place, reason=rule["drop"], value=value))
            return
        try:
            if "use" in rule:
                self._rules_in_code[rule["use"]](name, value, rule)
            elif "within" in rule:
                inner = self.make(self._take_map(value), {"properties": rule["within"]}, place=place)
                merge_fields(fields, inner)
            else:
                self._put_value(fields, value, rule, place)
        except Lost as reason:
            self.losses.append(Loss(place=place, reason=str(reason), value=value))

    def _is_harmless(self, value: Any, rule: Row) -> bool:
        return value is None or (isinstance(value, str) and value in object_fields.mapping(rule, "values"))

    def _take_map(self, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise Lost(f"must be a map, found {error_hints.describe(value)}")
        if len(value) == 1 and isinstance(found := self._reader.translate(value), Expression):
            raise Lost(f"is a map that is only known at run time: {found.text[:60]}")
        return value

    def _put_value(self, fields: Object, value: Any, rule: Row, place: str) -> None:
        if "to" not in rule:
            return
        if "each" in rule:
            put(fields, rule["to"], self._make_elements(value, rule, place))
            return
        if "ref" in rule:
            is_many = rule.get("many", False)
            put(
                fields,
                rule["to"],
                self._refer_all(value, rule["ref"]) if is_many else self._reader.refer(value, rule["ref"]),
            )
            return
        found = self._reader.translate(value)
        if "empty" in rule and found in (None, ""):
            put_all(fields, rule["empty"])
        elif found is not None:
            put(fields, rule["to"], convert(found, rule))
            put_all(fields, object_fields.mapping(rule, "set"))

    def _make_elements(self, value: Any, rule: Row, place: str) -> list[Object]:
        stated = [value] if rule.get("one") else self._list(value)
        elements: list[Object] = []
        for at, each in enumerate(stated):
            inner = place if rule.get("one") else f"{place}[{at}]"
            try:
                elements.append(self.make(self._take_map(each), {**rule, "set": {}}, place=inner))
            except Lost as reason:
                self.losses.append(Loss(place=inner, reason=str(reason), value=each))
        return elements

    def _refer_all(self, value: Any, kind: str) -> list[Value]:
        return [self._reader.refer(each, kind) for each in self._list(value)]

    def _list(self, value: Any) -> Sequence[Any]:
        if isinstance(value, list):
            return value
        return heat_values.to_list(self._reader.translate(value))


def convert(value: Value, rule: Row) -> Value:
    """Return a value in the type of its field. Raises Lost."""
    if "values" in rule:
        known: Mapping[str, str] = rule["values"]
        if isinstance(value, Expression):
            pairs = list(known.items())
            made = heat_values.quote(pairs[-1][1])
            for word, other in pairs[:-1]:
                made = f"string({value.text}).lowerAscii() == {heat_values.quote(word)} ? {heat_values.quote(other)} : {made}"
            return heat_values.make_expression(made, "string")
        word = heat_values.write_number(value) if isinstance(value, bool) else str(value).lower()
        if word not in known:
            raise Lost(f"{error_hints.describe(value)} is not known here")
        return known[word]
    match rule.get("as", "string"):
        case "integer":
            return heat_values.to_integer(value)
        case "boolean":
            return heat_values.to_boolean(value)
        case "texts":
            is_known = isinstance(value, list | str)
            return [heat_values.to_string(each) for each in heat_values.to_list(value)] if is_known else value
        case "first":
            listed = heat_values.to_list(value)
            return heat_values.to_string(listed[0]) if listed else None
        case [key, inner]:
            return list_pairs(value, key, inner)
        case _:
            return heat_values.to_string(value)


def list_pairs(value: Value, key: str, inner: str) -> Value:
    """Return a map as a list of pairs, with the names of both. Raises Lost."""
    if isinstance(value, Expression):
        text = f"{value.text}.map(each, {{{heat_values.quote(key)}: each, {heat_values.quote(inner)}: string({value.text}[each])}})"
        return heat_values.make_expression(text, "list")
    if not isinstance(value, Mapping):
        raise Lost("is not a map")
    return [{key: name, inner: heat_values.to_string(each)} for name, each in value.items()]


def put(fields: Object, path: str, value: Value) -> None:
    """Set the field at a path."""
    *way, last = path.split(".")
    for step in way:
        fields = fields.setdefault(step, {})
    fields[last] = value


def put_all(fields: Object, values: Mapping[str, Value]) -> None:
    """Set all fields."""
    for path, value in values.items():
        put(fields, path, value)


def find_path(fields: Mapping[str, Any], path: str) -> Value:
    """Return the field at a path, or None."""
    return object_fields.find(fields, *path.split("."))


def merge_fields(fields: Object, others: Mapping[str, Any]) -> None:
    """Add fields, including the fields of inner maps."""
    for name, value in others.items():
        if isinstance(value, dict) and isinstance(fields.get(name), dict):
            merge_fields(fields[name], value)
        else:
            fields[name] = value


def make_manifest(kind: str, fields: Mapping[str, Any], credentials: Object, *, root: str = "spec.resource") -> Object:
    """Return an object of a kind. credentials: of the cloud; empty for a kind without credentials."""
    spec: Object = {"cloudCredentialsRef": credentials} if credentials else {}
    made: Object = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "spec": spec}
    put(made, root, {**spec, **fields} if root == "spec" else dict(fields))
    return made
