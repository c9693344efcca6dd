"""Parameters are checked against their rules, and all errors are reported at once."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hearth.model import chunked_work
from hearth.template.schema import parameters
from hearth.template.schema.json_schema import Effort
from hearth.template.schema.shapes import Type


def resolve(rules: dict[str, Any], given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values, and the mistakes as text."""
    values, mistakes = chunked_work.finish(
        parameters.resolve(rules, given, path="spec.parameters", template_path="spec.template")
    )
    return values, [str(mistake) for mistake in mistakes]


@pytest.mark.parametrize(
    ("rules", "given", "expected"),
    [
        pytest.param({"type": "integer", "default": 2}, {}, 2, id="the default"),
        pytest.param({"type": "integer", "default": 2}, {"x": 5}, 5, id="given"),
        pytest.param({"type": "integer"}, {"x": 5.0}, 5, id="a whole number is an integer"),
        pytest.param({"type": "number"}, {"x": 5}, 5.0, id="an integer is a number"),
        pytest.param({}, {"x": [1]}, [1], id="no rules"),
        pytest.param({"type": "boolean", "default": False}, {}, False, id="a default that is false"),
        pytest.param({"type": ["string", "null"], "default": None}, {}, None, id="a default of null"),
        pytest.param(
            {"type": "object", "properties": {"r": {"type": "number"}}},
            {"x": {"r": 1, "s": 1}},
            {"r": 1.0, "s": 1},
            id="numbers within a map",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "number"}}, {"x": [1, 2.5]}, [1.0, 2.5], id="numbers within a list"
        ),
    ],
)
def test_values(rules: dict[str, Any], given: dict[str, Any], expected: Any) -> None:
    values, mistakes = resolve({"x": rules}, given)
    assert (values, mistakes) == ({"x": expected}, [])
    assert type(values["x"]) is type(expected)


INGRESS = {
    "type": "object",
    "properties": {"on": {"type": "boolean", "default": False}, "share": {"type": "number", "default": 1}},
}


@pytest.mark.parametrize(
    ("rules", "given", "expected"),
    [
        ({**INGRESS, "default": {}}, {}, {"on": False, "share": 1.0}),
        (INGRESS, {"x": {"on": True}}, {"on": True, "share": 1.0}),
        ({**INGRESS, "required": ["on"]}, {"x": {}}, {"on": False, "share": 1.0}),
        ({"items": INGRESS}, {"x": [{}, {"on": True}]}, [{"on": False, "share": 1.0}, {"on": True, "share": 1.0}]),
        ({"additionalProperties": INGRESS}, {"x": {"a": {}}}, {"a": {"on": False, "share": 1.0}}),
        ({"properties": {"web": INGRESS}}, {"x": {}}, {}),
        ({"properties": {"web": {**INGRESS, "default": {}}}}, {"x": {}}, {"web": {"on": False, "share": 1.0}}),
        (INGRESS, {"x": {"on": True, "share": 2, "more": 1}}, {"on": True, "share": 2.0, "more": 1}),
    ],
)
def test_defaults_within_a_value(rules: dict[str, Any], given: dict[str, Any], expected: Any) -> None:
    """A property with a default may be missing from a map; the given value is not changed."""
    before = copy.deepcopy((rules, given))
    assert resolve({"x": rules}, given) == ({"x": expected}, [])
    assert (rules, given) == before


def test_many_large_defaults_within_a_value_are_refused() -> None:
    rules = {"items": {"properties": {"a": {"default": ["x"] * 10_000}}}}
    values, mistakes = resolve({"x": rules}, {"x": [{}] * 10_000})
    assert not values
    assert mistakes == [f"spec.parameters.x: {parameters.EXHAUSTED}"]


def test_a_wrong_default_within_rules_is_named() -> None:
    rules = {"properties": {"a": {"type": "object", "properties": {"b": {"type": "integer", "default": "x"}}}}}
    found = chunked_work.finish(parameters.check_rules("x", rules, path="p", effort=Effort()))
    assert [str(each) for each in found] == [
        "p.properties.a.properties.b.default: must be of type integer, found the text 'x'"
    ]


@pytest.mark.parametrize(
    ("rules", "value", "expected"),
    [
        ({"type": "integer"}, "three", "spec.parameters.x: must be of type integer, found the text 'three'"),
        ({"type": "integer"}, True, "spec.parameters.x: must be of type integer, found true"),
        ({"type": "integer"}, None, "spec.parameters.x: must be of type integer, found null"),
        ({"enum": ["a", "b"]}, "c", "spec.parameters.x: must be one of 'a', 'b', found the text 'c'"),
        ({"minimum": 1}, 0, "spec.parameters.x: must be at least 1, found the number 0"),
        ({"maximum": 1}, 2, "spec.parameters.x: must be at most 1, found the number 2"),
        ({"pattern": "^a"}, "b", "spec.parameters.x: must match '^a', found the text 'b'"),
        ({"minLength": 2}, "b", "spec.parameters.x: must have at least 2 characters, found 1"),
        ({"maxItems": 0}, [1], "spec.parameters.x: must have at most 0 entries, found 1"),
        ({"items": {"type": "string"}}, ["a", 1], "spec.parameters.x[1]: must be of type string, found the number 1"),
        (
            {"properties": {"a": {"type": "string"}}},
            {"a": 1},
            "spec.parameters.x.a: must be of type string, found the number 1",
        ),
        ({"required": ["a"]}, {}, "spec.parameters.x: 'a' is a required property"),
    ],
)
def test_wrong_values(rules: dict[str, Any], value: Any, expected: str) -> None:
    """The message has the expected type, the value found, and the path of the rule."""
    assert resolve({"x": rules}, {"x": value})[1] == [
        f"{expected}; change it, or the rule in spec.template.parameters.x"
    ]


def test_an_integer_of_more_than_64_bits_is_refused() -> None:
    assert resolve({"x": {}}, {"x": 2**63})[1] == [
        f"spec.parameters.x: must be a 64-bit integer, found the number {2**63}; write it as text"
    ]


def test_everything_is_named_at_once() -> None:
    rules = {"name": {"type": "string"}, "replicas": {"type": "integer"}}
    assert resolve(rules, {"replicas": "x", "nam": "y", "zz": 1})[1] == [
        "spec.parameters.name: is missing; set it, or a default in spec.template.parameters.name.default",
        (
            "spec.parameters.replicas: must be of type integer, found the text 'x'; "
            "change it, or the rule in spec.template.parameters.replicas"
        ),
        "spec.parameters.nam: is not declared in spec.template.parameters; did you mean 'name'?",
        "spec.parameters.zz: is not declared in spec.template.parameters; remove it, or declare it there",
    ]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("string", ["p.x: must be a map of rules, found the text 'string'; write e.g. x: {type: string, default: …}"]),
        ({"tpye": "string"}, ["p.x.tpye: 'tpye' is not a parameter rule; did you mean 'type'?"]),
        (
            {"deprecated": True},
            [
                (
                    "p.x.deprecated: 'deprecated' is not a parameter rule; known rules: type, default, enum, minimum, "
                    "pattern, items, properties …"
                )
            ],
        ),
        (
            {"type": "int"},
            ["p.x.type: there is no type 'int'; one of array, boolean, integer, null, number, object, string"],
        ),
        ({"type": "strin"}, ["p.x.type: there is no type 'strin'; did you mean 'string'?"]),
        ({"minimum": "1"}, ["p.x.minimum: must be of type number, found the text '1'"]),
        ({"pattern": "("}, ["p.x.pattern: is not a valid regular expression: missing ): (; found '('"]),
        ({"type": "integer", "default": "x"}, ["p.x.default: must be of type integer, found the text 'x'"]),
        (
            {"properties": {"a": {"typ": 1}}},
            ["p.x.properties.a.typ: 'typ' is not a parameter rule; did you mean 'type'?"],
        ),
        ({"items": {"typ": 1}}, ["p.x.items.typ: 'typ' is not a parameter rule; did you mean 'type'?"]),
    ],
    ids=[
        "no rules",
        "unknown word",
        "a word of later",
        "unknown type",
        "mistyped type",
        "a rule of the wrong type",
        "no regular expression",
        "a default against its own rules",
        "within properties",
        "within items",
    ],
)
def test_wrong_rules(rules: Any, expected: list[str]) -> None:
    mistakes = chunked_work.finish(parameters.check_rules("x", rules, path="p.x", effort=Effort()))
    assert [str(mistake) for mistake in mistakes] == expected


def test_the_form_of_params_knows_what_was_declared() -> None:
    shape = parameters.find_shape({"a": {"type": "integer"}, "b": {"type": ["string", "null"]}, "c": {}})
    assert {name: field.type for name, field in shape.fields.items()} == {
        "a": Type.INTEGER,
        "b": Type.OPEN,
        "c": Type.OPEN,
    }
    assert parameters.find_shape({"a": {}}) is parameters.find_shape({"a": {}})
    assert parameters.find_shape({}).type is Type.OBJECT
