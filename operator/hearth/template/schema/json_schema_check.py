"""Validation of a parameter's rules: the supported JSON Schema keywords, and the values of each.

An allow-list: no keyword refers to another schema or fetches one. Must not know parameter values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from hearth.template.schema import json_schema
from hearth.template.schema.effort import Effort
from hearth.template.text import error_hints, patterns

Found: TypeAlias = tuple[str, str]
"""The path below the rules, and the mistake there."""
Wrong: TypeAlias = Iterator[Found | None]
"""All mistakes, and None after each nested schema, as a pause."""

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
SENSITIVE = "sensitive"
"""The only keyword of Hearth. It applies to a parameter as a whole, so it is valid only at the top level."""
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
_SCHEMAS = ("additionalProperties", "items", "not")
_KNOWN = "type, default, enum, minimum, pattern, items, properties …"


def find_wrong(rules: Any, effort: Effort, *, path: str = "") -> Wrong:
    """Find the mistakes in the rules under `path` and in nested ones. Raises json_schema.Exhausted."""
    if isinstance(rules, bool):
        return
    if not isinstance(rules, dict):
        yield path, f"must be of type object or boolean, found {error_hints.describe(rules)}"
        return
    for word, value in rules.items():
        if word == SENSITIVE and not path:
            continue
        place = path + error_hints.write_key(str(word))
        check = _CHECKS.get(word)
        if check is None:
            hint = effort.hint(str(word), WORDS if path else WORDS | {SENSITIVE})
            known = "" if hint else f"; known are {_KNOWN}"
            yield place, f"'{error_hints.shorten(str(word))}' is not a rule of a parameter{hint or known}"
        else:
            yield from ((place + where, message) for where, message in check(value, effort))
        yield from find_wrong_within(word, value, effort, place)
    effort.budget.spend()
    yield None


def find_wrong_within(word: str, value: Any, effort: Effort, path: str) -> Wrong:
    """Find the mistakes in the rules under a keyword that contains schemas."""
    if word in _SCHEMAS:
        yield from find_wrong(value, effort, path=path)
    elif word == "properties" and isinstance(value, dict):
        for name, inner in value.items():
            yield from find_wrong(inner, effort, path=path + error_hints.write_key(str(name)))
    elif word in _SCHEMA_LISTS and isinstance(value, list):
        for at, inner in enumerate(value):
            yield from find_wrong(inner, effort, path=f"{path}[{at}]")


_Check: TypeAlias = Callable[[Any, Effort], Iterator[Found]]


def _anything(_: Any, __: Effort) -> Iterator[Found]:
    return iter(())


def _of(*types: str) -> _Check:
    def check(value: Any, _: Effort) -> Iterator[Found]:
        if not any(json_schema.is_of(value, each) for each in types):
            yield "", f"must be of type {' or '.join(types)}, found {error_hints.describe(value)}"

    return check


def _count(value: Any, _: Effort) -> Iterator[Found]:
    if not json_schema.is_of(value, "integer"):
        yield "", f"must be of type integer, found {error_hints.describe(value)}"
    elif value < 0:
        yield "", f"must be at least 0, found {error_hints.describe(value)}"


def _factor(value: Any, _: Effort) -> Iterator[Found]:
    if not json_schema.is_of(value, "number"):
        yield "", f"must be of type number, found {error_hints.describe(value)}"
    elif value <= 0:
        yield "", f"must be above 0, found {error_hints.describe(value)}"


def _type(value: Any, effort: Effort) -> Iterator[Found]:
    stated = value if isinstance(value, list) else [value]
    for each in stated:
        if not isinstance(each, str):
            yield "", f"must be one of {', '.join(TYPES)}, found {error_hints.describe(each)}"
        elif each not in TYPES:
            hint = effort.hint(each, TYPES) or f"; one of {', '.join(TYPES)}"
            yield "", f"there is no type '{error_hints.shorten(each)}'{hint}"
    if not stated:
        yield "", "must have at least 1 entries, found 0"


def _texts(value: Any, _: Effort) -> Iterator[Found]:
    if not isinstance(value, list):
        yield "", f"must be of type array, found {error_hints.describe(value)}"
        return
    for at, each in enumerate(value):
        if not isinstance(each, str):
            yield f"[{at}]", f"must be of type string, found {error_hints.describe(each)}"


def _schemas(value: Any, _: Effort) -> Iterator[Found]:
    if not isinstance(value, list):
        yield "", f"must be of type array, found {error_hints.describe(value)}"
    elif not value:
        yield "", "must have at least 1 entries, found 0"


def _pattern(value: Any, effort: Effort) -> Iterator[Found]:
    if not isinstance(value, str):
        yield "", f"must be of type string, found {error_hints.describe(value)}"
        return
    try:
        effort.budget.spend(patterns.find_cost_of_making(patterns.compile_pattern(value)))
    except patterns.Unsupported as error:
        yield "", f"is not a valid regular expression: {error}; found {error_hints.quote(value)}"


_CHECKS: Mapping[str, _Check] = {
    **dict.fromkeys(("const", "default", *_SCHEMAS), _anything),
    **dict.fromkeys(("description", "format", "title"), _of("string")),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _of("number")),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        _count,
    ),
    **dict.fromkeys(("enum", "examples"), _of("array")),
    **dict.fromkeys(_SCHEMA_LISTS, _schemas),
    "multipleOf": _factor,
    "pattern": _pattern,
    "properties": _of("object"),
    "required": _texts,
    "type": _type,
    "uniqueItems": _of("boolean"),
}
WORDS = frozenset(_CHECKS)
