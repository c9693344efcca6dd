"""A template in a ConfigMap: parsed like kubectl does, and errors have a position."""

from __future__ import annotations

import copy
import json

import pytest

from hearth.model import chunked_work, limits
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.template.blueprint import Definition
from hearth.template.compiler import compiler
from hearth.template.text import template_source
from support.units import blueprints


def parse_template(text: str, *, place: str) -> Object:
    """Parse a template without pauses."""
    return chunked_work.finish(template_source.parse_in_pieces(text, place=place))


def test_a_template_is_read() -> None:
    text = "resources: {a: {manifest: {data: {day: 2024-01-01, mode: 0o644}}}}"
    assert parse_template(text, place="(x)") == {
        "resources": {"a": {"manifest": {"data": {"day": "2024-01-01", "mode": 420}}}}
    }


def test_json_with_tables_in_its_texts_is_read_as_json() -> None:
    table = {"resources": {"a": {"manifest": {"data": {"x": "\U0001f600" + "1," * limits.WIRE_VALUES}}}}}
    assert parse_template(json.dumps(table), place="(x)") == table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("resources: {", "is not valid YAML", id="unterminated"),
        pytest.param("", "found 0 documents", id="nothing"),
        pytest.param("a: 1\n---\nb: 2", "found 2 documents", id="two documents"),
        pytest.param("just words", "must contain one mapping", id="no mapping"),
        pytest.param("a: 1\na: 2", "is not valid YAML", id="a key twice"),
    ],
)
def test_what_is_no_template_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        parse_template(text, place="(configmap/shop template.yaml)")
    [mistake] = caught.value.mistakes
    assert mistake.path == "(configmap/shop template.yaml)"
    assert message in mistake.message


def test_a_template_that_many_stacks_name_is_read_once() -> None:
    text = "parameters: {value: {type: string}}\nresources: {a: {manifest: {apiVersion: v1, kind: ConfigMap}}}"
    first = parse_template(text, place="(configmap/shared template.yaml)")
    before = copy.deepcopy(first)

    definition = Definition(template=first, parameters={"value": "one"})
    compiler.compile_template(definition, stack=blueprints.STACK, kinds=blueprints.ServedKinds(blueprints.CONFIG_MAP))

    assert parse_template(text, place="(configmap/shared template.yaml)") is first
    assert first == before
