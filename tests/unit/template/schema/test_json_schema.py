"""Validation of values: according to draft 2020-12, in linear time, for all rules and values."""

from __future__ import annotations

import time
from typing import Any

import hypothesis
import jsonschema
import pytest
from hypothesis import strategies

from hearth.model import chunked_work
from hearth.template.schema import json_schema
from hearth.template.schema import parameters as parameters_module
from hearth.template.schema.json_schema import Effort

SCALARS = (
    strategies.none()
    | strategies.booleans()
    | strategies.integers(-3, 3)
    | strategies.sampled_from([0.0, 1.0, 1.5, -2.5, 1e300, 0.1])
    | strategies.text(alphabet="ab.", max_size=3)
)
NAMES = strategies.sampled_from(["a", "b", "c"])
VALUES = strategies.recursive(
    SCALARS,
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
NUMBERS = strategies.sampled_from([-1, 0, 1, 2, 0.5, 1.0])
COUNTS = strategies.integers(0, 3)


def make_rules(inner: strategies.SearchStrategy[Any]) -> strategies.SearchStrategy[Any]:
    """Rules that hold others."""
    return strategies.fixed_dictionaries(
        {},
        optional={
            "type": strategies.sampled_from(json_schema.TYPES)
            | strategies.lists(strategies.sampled_from(json_schema.TYPES), min_size=1, max_size=2, unique=True),
            "enum": strategies.lists(VALUES, max_size=3),
            "const": VALUES,
            **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
            "multipleOf": strategies.sampled_from([1, 2, 0.5, 0.1, 1e-3]),
            **dict.fromkeys(
                ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), COUNTS
            ),
            "pattern": strategies.sampled_from(["^a", "b$", "a+b?", "^$", "[^.]"]),
            "uniqueItems": strategies.booleans(),
            "required": strategies.lists(NAMES, max_size=2, unique=True),
            "properties": strategies.dictionaries(NAMES, inner, max_size=2),
            **dict.fromkeys(("items", "not"), inner),
            "additionalProperties": inner | strategies.just(False),
            **dict.fromkeys(("allOf", "anyOf", "oneOf"), strategies.lists(inner, min_size=1, max_size=2)),
        },
    )


# The reference implementation is inconsistent in its messages about `false`.
RULES = strategies.recursive(make_rules(strategies.just(True)), make_rules, max_leaves=6)


def find_faults(rules: Any, value: Any) -> list[json_schema.Fault]:
    """All errors of a value."""
    return [fault for fault in json_schema.find_faults(rules, value, json_schema.Budget()) if fault is not None]


@hypothesis.given(RULES, VALUES)
@hypothesis.settings(max_examples=100, deadline=None)
def test_it_says_what_the_reference_says(rules: Any, value: Any) -> None:
    assert [wrong for wrong in json_schema.find_wrong_rules(rules, Effort()) if wrong is not None] == []
    reference = jsonschema.Draft202012Validator(rules)
    expected = {(tuple(error.absolute_path), str(error.validator)) for error in reference.iter_errors(value)}
    assert {(fault.keys, fault.word) for fault in find_faults(rules, value)} == expected


@pytest.mark.parametrize(
    ("rules", "value", "expected"),
    [
        ({"uniqueItems": True}, [1, 2, 1.0], "must not have duplicate entries, found [2] equal to [0]"),
        ({"const": "a"}, "b", "must be the text 'a', found the text 'b'"),
        ({"multipleOf": 2}, 3, "must be a multiple of 2, found the number 3"),
        ({"additionalProperties": False}, {"a": 1}, "'a' is not one of the properties"),
        ({"anyOf": [False]}, 1, "must match one of the 1 rules of anyOf, found the number 1"),
        (
            {"oneOf": [True, True]},
            1,
            "must match exactly one of the 2 rules of oneOf but matches 2, found the number 1",
        ),
        ({"not": {}}, 1, "must not match the rules of not, found the number 1"),
        ({"enum": list(range(100))}, "x", f"{', '.join(f'the number {n}' for n in range(12))} and 88 more, found"),
        ({"pattern": "x" * 1000}, "x" * 100_000, "has 100000 characters, but at most 9"),
    ],
)
def test_messages(rules: Any, value: Any, expected: str) -> None:
    [fault] = find_faults(rules, value)
    assert expected in fault.message
    assert len(fault.message) < 400


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"$ref": "http://127.0.0.1:1/x"}, "[$ref]: '$ref' is not a parameter rule"),
        ({"items": {"$dynamicRef": "#"}}, ".items[$dynamicRef]: '$dynamicRef' is not a parameter rule"),
        ({"patternProperties": {"(a+)+": {}}}, ".patternProperties: 'patternProperties' is not a parameter rule"),
        ({"contains": {}}, ".contains: 'contains' is not a parameter rule"),
        (
            {"properties": {"a": {"pattern": "("}}},
            ".properties.a.pattern: is not a valid regular expression: missing ): (",
        ),
        (
            {"pattern": r"(a)\1"},
            ".pattern: is not a valid regular expression: invalid escape sequence: \\1; RE2 supports neither backref",
        ),
        (
            {"pattern": "(?=a)"},
            ".pattern: is not a valid regular expression: invalid perl operator: (?=; RE2 does not support lookahead",
        ),
        ({"pattern": r"(\pL{30}){30}"}, "pattern too large - compile failed; shorten it"),
        (
            {"pattern": "a" * 5000},
            ".pattern: is not a valid regular expression: has 5000 characters, but at most 4096 are allowed",
        ),
        ({"multipleOf": 0}, ".multipleOf: must be above 0"),
        ({"minItems": -1}, ".minItems: must be at least 0"),
        ({"required": "a"}, ".required: must be of type array, found the text 'a'"),
        ({"required": [1]}, ".required[0]: must be of type string, found the number 1"),
        ({"anyOf": []}, ".anyOf: must have at least 1 entries"),
        ({"properties": {"a": 1}}, ".properties.a: must be of type object or boolean, found the number 1"),
        ({"properties": []}, ".properties: must be of type object, found a list"),
        ({"type": []}, ".type: must have at least 1 entries"),
        ({"type": 1}, ".type: must be one of array, boolean"),
    ],
)
def test_rules_that_cannot_be_used(rules: Any, expected: str) -> None:
    mistakes = chunked_work.finish(parameters_module.check_rules("x", rules, path="", effort=Effort()))
    assert [expected in str(mistake).removeprefix(": ") for mistake in mistakes] == [True], mistakes


BIG = list(range(3000))


@pytest.mark.parametrize(
    ("rules", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 100_000 + "!"),
        ({"pattern": "(a|b)*a(a|b){900}x"}, "ab" * 1_600),
        ({"uniqueItems": True}, [{"a": number} for number in BIG]),
        ({"items": {"enum": BIG}}, BIG),
        ({"items": {"allOf": [{"minimum": 0}] * 300}}, BIG),
        ({"items": {"pattern": "^(a+)+$"}}, ["a" * 30 + "!"] * 3000),
        ({"items": {"items": False}}, [[1] * 100] * 500),
        ({"items": {"anyOf": [{"pattern": f"^{number}a"} for number in range(300)]}}, ["b"] * 100),
    ],
    ids=["evil pattern", "states", "unique", "enum", "all of", "evil patterns", "wrong ones", "many patterns"],
)
def test_no_piece_takes_long(rules: Any, value: Any) -> None:
    """The event loop continues between pieces; a value with too many pieces is rejected."""
    longest = 0.0
    pieces = parameters_module.find_faults(rules, value, json_schema.Budget())
    begun = time.thread_time()
    for _ in pieces:
        longest = max(longest, time.thread_time() - begun)
        begun = time.thread_time()
    assert max(longest, time.thread_time() - begun) < 0.1


def test_what_takes_too_long_is_refused() -> None:
    rules = {"items": {"allOf": [{"items": {"minimum": 0}}] * 3000}}
    [fault] = chunked_work.finish(parameters_module.find_faults(rules, [[1] * 1000] * 10, json_schema.Budget(50_000)))
    assert fault.message == parameters_module.EXHAUSTED
