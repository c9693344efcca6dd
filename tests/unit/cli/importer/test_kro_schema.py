"""Fields of kro's SimpleSchema as rules of JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.importer.kro_schema import SchemaReader

TYPES = {
    "Person": {"name": "string | required=true", "role": "Role"},
    "Role": {"title": 'string | default="boss"'},
    "Endless": {"inner": "Endless"},
}
ROLE = {"type": "object", "properties": {"title": {"type": "string", "default": "boss"}}}


@pytest.mark.parametrize(
    ("stated", "rules"),
    [
        ("string", {"type": "string"}),
        ("float", {"type": "number"}),
        ("integer | default=3 minimum=1 maximum=9", {"type": "integer", "default": 3, "minimum": 1, "maximum": 9}),
        ("integer | default=3 | minimum=1", {"type": "integer", "default": 3, "minimum": 1}),
        ("string | default=default", {"type": "string", "default": "default"}),
        ('string | default=""', {"type": "string", "default": ""}),
        ('string | default="8080"', {"type": "string", "default": "8080"}),
        ("boolean | default=true", {"type": "boolean", "default": True}),
        ('string | enum="a, b" default="a"', {"type": "string", "enum": ["a", "b"], "default": "a"}),
        ('integer | enum="1,2"', {"type": "integer", "enum": [1, 2]}),
        (
            'string | pattern="^[\\\\w.-]+$" description="An \\"address\\" | of mail"',
            {"type": "string", "pattern": "^[\\w.-]+$", "description": 'An "address" | of mail'},
        ),
        ('string | minLength=2 maxLength="4"', {"type": "string", "minLength": 2, "maxLength": 4}),
        ("[]string", {"type": "array", "items": {"type": "string"}}),
        (
            "[]integer | default=[80, 443] uniqueItems=true minItems=1",
            {"type": "array", "items": {"type": "integer"}, "default": [80, 443], "uniqueItems": True, "minItems": 1},
        ),
        (
            "map[string][]string",
            {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        ),
        ("object", {"type": "object"}),
        ("Role", {**ROLE, "default": {}}),
        ("[]Role", {"type": "array", "items": ROLE}),
        (
            {"person": "Person"},
            {
                "type": "object",
                "properties": {
                    "person": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "role": {**ROLE, "default": {}}},
                        "required": ["name"],
                    }
                },
            },
        ),
    ],
)
def test_a_field(stated: Any, rules: Any) -> None:
    """A map whose fields have defaults may be left out, as in kro."""
    found = SchemaReader(TYPES).read(stated)
    assert (found.rules, found.unknown) == (rules, ())


@pytest.mark.parametrize(
    ("stated", "unknown"),
    [
        ("string | immutable=true", [": immutable=true"]),
        ("text", [": text is no type"]),
        ("[]text", [": text is no type"]),
        ("string | default=a and more", [": and more"]),
        ({"a": {"b": "string | immutable=true"}}, [".a.b: immutable=true"]),
        ({"a": 'string | printColumn="A"'}, ['.a: printColumn="A"']),
        (3, [": 3 is no type"]),
    ],
)
def test_what_has_no_counterpart_is_named(stated: Any, unknown: list[str]) -> None:
    assert list(SchemaReader(TYPES).read(stated).unknown) == unknown


def test_a_column_and_a_required_field_are_told() -> None:
    found = SchemaReader({}).read('string | required=true printColumn="Image"')
    assert (found.column, found.is_required) == ("Image", True)


def test_types_that_stand_for_any_number_of_fields_end() -> None:
    """A file of 20 lines could stand for a billion fields."""
    doubling = {f"T{level}": {"a": f"T{level + 1}", "b": f"T{level + 1}"} for level in range(60)}
    assert any("too many fields" in each for each in SchemaReader(doubling, left=1_000).read("T0").unknown)
    assert any("contains itself" in each for each in SchemaReader(TYPES, left=100).read("Endless").unknown)
