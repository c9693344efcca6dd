"""Converts parameters of HOT to parameters of a Stack: types, constraints and values.

Anything without an equivalent is reported. Source: Heat's template guide, "Parameters section".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from hearth.cli.importer.heat import heat_values
from hearth.cli.importer.heat.heat_values import CSV, Expression, Lost
from hearth.model import object_fields, value_class
from hearth.model.child import Object
from hearth.template.text import error_hints, patterns

TYPES: Final[Mapping[str, str]] = {
    "string": "string",
    "number": "integer",
    "boolean": "boolean",
    "comma_delimited_list": CSV,
    "json": "",
}
"""The type of an expression that reads a parameter, by the parameter's type in Heat."""
FIELDS: Final = frozenset(
    {"type", "label", "description", "default", "hidden", "constraints", "immutable", "tags", "custom_constraint"}
)
LENGTHS: Final[Mapping[str, str]] = {"string": "Length", CSV: "Items", "": "Properties"}
IMPORTED: Final = frozenset(
    {
        *(
            "nova.flavor",
            "nova.keypair",
            "nova.server",
            "glance.image",
            "neutron.network",
            "neutron.subnet",
            "neutron.port",
        ),
        *("neutron.router", "neutron.security_group", "cinder.volume", "cinder.vtype"),
        *(
            "keystone.project",
            "keystone.domain",
            "keystone.role",
            "keystone.user",
            "keystone.group",
            "keystone.service",
        ),
    }
)
"""Custom constraints that need no check: the parameter's object is imported, and everything waits until it exists."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HeatParameter:
    """One parameter as a Stack declares it."""

    rules: Object
    type: str
    """Type of an expression that reads it."""
    is_hidden: bool
    default: Any = None
    """Value of a hidden parameter that gets no other one. The template omits it, because no revision may contain it."""
    lost: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Custom constraints that need no check."""


def convert_parameter(stated: Mapping[str, Any], *, group: str, default: Any, value: Any) -> HeatParameter:
    """Return a parameter. group: label and description of its parameter group; default, value: of environments."""
    stated_type = str(stated.get("type"))
    type_ = TYPES.get(stated_type, "")
    default = stated.get("default") if default is None else default
    if stated_type == "number" and any(map(is_fraction, [default, value, *list_bounds(stated)])):
        type_ = "number"
    lost = [f"{error_hints.shorten(word)} has no equivalent" for word in stated if word not in FIELDS]
    lost += (
        [] if stated_type in TYPES else [f"the type {error_hints.describe(stated.get('type'))} does not exist in Heat"]
    )
    lost += ["immutable has no equivalent"] if stated.get("immutable") in (True, "true") else []
    rules, held = convert_constraints(object_fields.entries(stated, "constraints"), type_, lost)
    if description := describe(stated, group):
        rules["description"] = description
    try:
        default = None if default is None else convert_value(default, type_)
    except Lost as reason:
        lost.append(f"the default {reason}")
        default = None
    is_hidden = stated.get("hidden") in (True, "true")
    if is_hidden:
        rules["sensitive"] = True
    elif default is not None:
        rules["default"] = default
    return HeatParameter(
        rules=rules,
        type=type_,
        is_hidden=is_hidden,
        default=default if is_hidden else None,
        lost=tuple(lost),
        held=held,
    )


def describe(stated: Mapping[str, Any], group: str) -> str:
    """Return all texts that describe a parameter, as one."""
    constraints = object_fields.entries(stated, "constraints")
    texts = [group, stated.get("label"), stated.get("description"), *(each.get("description") for each in constraints)]
    found = [" ".join(each.split()).rstrip(".") for each in texts if isinstance(each, str) and each.strip()]
    return ". ".join(dict.fromkeys(found))


def convert_constraints(
    constraints: Sequence[Mapping[str, Any]], type_: str, lost: list[str]
) -> tuple[Object, tuple[str, ...]]:
    """Return the rules of a parameter, and the custom constraints that need no check. Adds to `lost`."""
    rules = make_type(type_)
    held: list[str] = []
    for constraint in constraints:
        for word, stated in constraint.items():
            if word == "custom_constraint" and isinstance(stated, str) and stated in IMPORTED:
                held.append(stated)
            elif word != "description":
                try:
                    for keyword, rule in convert_constraint(word, stated, type_):
                        if keyword in rules and keyword != "items":
                            rules.setdefault("allOf", []).append({keyword: rule})
                        else:
                            rules[keyword] = rule
                except Lost as reason:
                    lost.append(str(reason))
    return rules, tuple(held)


def make_type(type_: str) -> Object:
    """Return the JSON Schema type, or any type if it depends on the values."""
    if type_ == CSV:
        return {"type": "array", "items": {"type": "string"}}
    return {"type": type_} if type_ else {}


def convert_constraint(word: str, stated: Any, type_: str) -> Iterator[tuple[str, Any]]:
    """Yield the keywords of JSON Schema with their values. Raises Lost."""
    match word, stated:
        case "length", dict():
            name = LENGTHS.get(type_, "Length")
            yield from (
                (f"{key}{name}", int(float(stated[key]))) for key in ("min", "max") if is_number(stated.get(key))
            )
        case "range", dict():
            words = (("min", "minimum"), ("max", "maximum"))
            yield from ((keyword, simplify(stated[key])) for key, keyword in words if is_number(stated.get(key)))
        case "modulo", dict() if is_number(stated.get("step")) and stated.get("offset", 0) in (0, "0"):
            yield "multipleOf", simplify(stated["step"])
        case "allowed_values", list() if stated:
            allowed = [convert_value(each, "string" if type_ == CSV else type_) for each in stated]
            yield ("items", {"type": "string", "enum": allowed}) if type_ == CSV else ("enum", allowed)
        case "allowed_pattern", str():
            pattern = f"^(?:{stated})$"
            try:
                patterns.compile_pattern(pattern)
            except patterns.Unsupported as reason:
                raise Lost(f"allowed_pattern {error_hints.shorten(stated)}: {reason}") from reason
            yield "pattern", pattern
        case _:
            raise Lost(
                f"the constraint {error_hints.shorten(word)}: {error_hints.shorten(str(stated))} has no equivalent"
            )


def list_bounds(stated: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the numbers in the constraints of a parameter."""
    for constraint in object_fields.entries(stated, "constraints"):
        yield from object_fields.mapping(constraint, "range").values()
        yield from object_fields.elements(constraint, "allowed_values")


def is_number(value: Any) -> bool:
    """Return whether a value is a number, or a text that is one."""
    try:
        return not isinstance(value, bool) and abs(float(value)) < 2**53
    except (TypeError, ValueError):
        return False


def is_fraction(value: Any) -> bool:
    """Return whether a value is a number that is not whole."""
    return is_number(value) and not float(value).is_integer()


def simplify(value: Any) -> float:
    """Return a number as an integer if it has no fraction."""
    number = float(value)
    return int(number) if number.is_integer() else number


def convert_value(value: Any, type_: str) -> Any:
    """Return a value of an environment or a default in the type of its parameter. Raises Lost."""
    match type_:
        case "string":
            return value if value is None else heat_values.to_string(value)
        case "integer" | "number":
            if not is_number(value):
                raise Lost(f"is not a number: {error_hints.describe(value)}")
            return simplify(value)
        case "boolean":
            return heat_values.to_boolean(value)
        case "csv":
            return [heat_values.to_string(each) for each in heat_values.to_list(value)]
        case _:
            return parse_json(value)


def parse_json(value: Any) -> Any:
    """Return a value of a parameter of type json, which may be written as text. Raises Lost."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value) if value.strip() else {}
    except orjson.JSONDecodeError as error:
        raise Lost("is not JSON") from error


def match_parameter(value: Any, type_: str) -> Any:
    """Return a value with expressions, converted to the type of the parameter that receives it. Raises Lost."""
    if heat_values.is_plain(value):
        return convert_value(value, type_)
    if type_ == "csv" and isinstance(value, Expression) and value.type == "string":
        return heat_values.make_expression(f"{value.text}.split(',')", CSV)
    return heat_values.to_type(value, type_)
