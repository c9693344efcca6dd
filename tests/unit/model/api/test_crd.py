"""The schema that the models generate, without a server; `integration/api/test_crd.py` tests it on a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from hearth.model.api import crd
from support.server import fake_kinds

UNDESCRIBED = {"apiVersion", "kind", "metadata"}
"""The object metadata, which the API server describes."""


class Inner(pydantic.BaseModel):
    """An inner
    value.
    """

    size: int = pydantic.Field(ge=1)


class Outer(pydantic.BaseModel):
    """An outer value."""

    inner: Inner
    chosen: Inner | None = pydantic.Field(default=None, description="Its own words.")
    flag: bool = True
    anything: Any = None
    open: dict[str, Any]
    typed: dict[str, Inner]
    several: list[int] | None = None


@pytest.fixture
def properties() -> dict[str, Any]:
    converted: dict[str, Any] = crd.make_structural_schema(Outer)["properties"]
    return converted


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every node of a structural schema with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from walk(schema[word], f"{path}[]")


ROOTS = {
    definition["spec"]["names"]["kind"]: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for definition in fake_kinds.make_crds()
}


@pytest.fixture(params=ROOTS)
def root_schema(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The root schema of each kind."""
    schema: dict[str, Any] = ROOTS[request.param]
    return schema


def test_references_are_put_in_place(properties: dict[str, Any]) -> None:
    assert properties["inner"] == {
        "description": "An inner value.",
        "type": "object",
        "required": ["size"],
        "properties": {"size": {"type": "integer", "minimum": 1}},
    }


def test_a_field_describes_itself_better_than_its_type_does(properties: dict[str, Any]) -> None:
    assert properties["chosen"]["description"] == "Its own words."


def test_an_optional_field_is_one_that_is_not_required(properties: dict[str, Any]) -> None:
    assert properties["several"] == {"type": "array", "items": {"type": "integer"}}
    assert "several" not in crd.make_structural_schema(Outer)["required"]


def test_a_caller_may_change_the_schema(properties: dict[str, Any]) -> None:
    properties["inner"]["properties"]["more"] = {"type": "string"}
    assert list(crd.make_structural_schema(Outer)["properties"]["inner"]["properties"]) == ["size"]


def test_a_default_is_kept_and_null_is_none(properties: dict[str, Any]) -> None:
    assert properties["flag"] == {"type": "boolean", "default": True}
    assert "default" not in properties["anything"]


def test_anything_means_anything(properties: dict[str, Any]) -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}

    assert properties["anything"] == anything
    assert properties["open"] == {"type": "object", "additionalProperties": anything}


def test_a_map_describes_its_values(properties: dict[str, Any]) -> None:
    assert properties["typed"]["additionalProperties"]["properties"] == {"size": {"type": "integer", "minimum": 1}}


def test_paragraphs_are_kept_and_lines_are_joined() -> None:
    assert crd.unwrap("One\n    two.\n\n    Three\n    four.") == "One two.\n\nThree four."


def test_every_field_is_described(root_schema: dict[str, Any]) -> None:
    silent = [
        path
        for path, node in walk(root_schema)
        if "description" not in node and not path.endswith("[]") and path.removeprefix(".") not in UNDESCRIBED
    ]

    assert silent == []


def test_every_description_is_a_sentence(root_schema: dict[str, Any]) -> None:
    bad = [
        (path, node["description"])
        for path, node in walk(root_schema)
        if "description" in node and not re.fullmatch(r"[A-Z`].*\.", node["description"], re.DOTALL)
    ]

    assert bad == []


def test_no_list_of_the_status_can_grow_without_a_limit(root_schema: dict[str, Any]) -> None:
    endless = [
        path
        for path, node in walk(root_schema["properties"].get("status", {}))
        if node.get("type") == "array" and "maxItems" not in node
    ]

    assert endless == ([".conditions"] if "status" in root_schema["properties"] else [])


def test_no_word_that_a_structural_schema_does_not_know_is_left(root_schema: dict[str, Any]) -> None:
    forbidden = {"title", "$ref", "anyOf", "$defs", "const"}

    assert [path for path, node in walk(root_schema) if forbidden & node.keys()] == []
