"""The CustomResourceDefinition that parameters generate, and parameters that it cannot express."""

from typing import Any

import pytest

from hearth.model import chunked_work
from hearth.template.instances import instance_form, instance_schema
from hearth.template.instances.instance_form import InstanceForm

ANYTHING = {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}


def make_spec(**rules: Any) -> dict[str, Any]:
    return {
        "group": "platform.example",
        "names": {"kind": "Site", "plural": "sites"},
        "versions": [{"name": "v1alpha1"}],
        "template": {"parameters": rules, "resources": {}, "outputs": {"url": {"value": "x"}}},
    }


@pytest.mark.parametrize(
    ("rules", "schema"),
    [
        ({"type": "string", "default": "a"}, {"description": 'Default: "a".', "type": "string"}),
        (
            {"type": "string", "description": "Name.", "default": ""},
            {"description": 'Name. Default: "".', "type": "string"},
        ),
        ({}, ANYTHING),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["integer", "string"]}, {"x-kubernetes-int-or-string": True}),
        ({"type": ["integer", "number"]}, {"type": "number"}),
        ({"const": 3, "type": "integer"}, {"type": "integer", "enum": [3]}),
        (
            {"type": "integer", "exclusiveMinimum": 1, "minimum": 0},
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
        ),
        ({"type": "integer", "exclusiveMaximum": 9, "maximum": 5}, {"type": "integer", "maximum": 5}),
        ({"type": "string", "format": "email"}, {"type": "string", "format": "email"}),
        ({"type": "string", "format": "color"}, {"type": "string"}),
        ({"type": "array"}, {"type": "array", "items": ANYTHING}),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
        ({"type": "object"}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (
            {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
            {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
        ),
    ],
)
def test_rules_become_a_structural_schema(rules: dict[str, Any], schema: dict[str, Any]) -> None:
    assert [*instance_schema.find_unsayable(rules, "p")] == []
    assert instance_schema.convert(rules) == schema


@pytest.mark.parametrize(
    ("rules", "path"),
    [
        ({"type": ["string", "array"]}, ".type"),
        ({"oneOf": [{"type": "string"}]}, ".oneOf"),
        ({"properties": {"a": {"not": {}}}}, ".properties.a.not"),
        ({"items": {"anyOf": [{}]}}, ".items.anyOf"),
        ({"type": "array", "items": {"type": "object"}, "uniqueItems": True}, ".uniqueItems"),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, ".additionalProperties"),
        ({"properties": {"a": False}}, ".properties.a"),
    ],
)
def test_what_cannot_be_said_is_a_mistake_with_its_path(rules: dict[str, Any], path: str) -> None:
    (mistake,) = instance_schema.find_mistakes(make_spec(one=rules))

    assert mistake.path == f"spec.template.parameters.one{path}"


def test_parameters_without_a_default_are_required_and_none_has_one() -> None:
    schema = instance_schema.make_schema(make_spec(name={"type": "string"}, size={"type": "integer", "default": 3}), {})

    assert schema["properties"]["spec"]["required"] == ["name"]
    assert "default" not in schema["properties"]["spec"]["properties"]["size"]
    assert schema["required"] == ["spec"]


def test_a_sensitive_parameter_is_only_named() -> None:
    schema = instance_schema.make_schema(make_spec(password={"type": "string", "sensitive": True}), {})

    found = schema["properties"]["spec"]["properties"]["password"]
    assert [*found["properties"]] == found["required"] == ["secretKeyRef"]


def test_options_are_those_that_may_be_stated() -> None:
    spec = {**make_spec(), "final": ["timeout"], "options": ["adoptionPolicy"]}

    options = instance_schema.make_options(spec)["properties"]

    assert {"paused", "rollback", "definitionRevision", "adoptionPolicy"} <= options.keys()
    assert not {"timeout", "serviceAccountName", "kubeConfig", "deletionPolicy"} & options.keys()


def test_all_mistakes_are_found_at_once() -> None:
    spec = {
        **make_spec(stack={"type": "string"}),
        "names": {"kind": "Stack", "plural": "stacks"},
        "columns": [{"name": "A", "output": "urll"}, {"name": "B", "parameter": "none"}],
        "scale": {"parameter": "stack"},
    }

    found = [each.path for each in instance_schema.find_mistakes(spec)]

    assert found == [
        "spec.names.kind",
        "spec.template.parameters.stack",
        "spec.columns[0].output",
        "spec.columns[1].parameter",
        "spec.scale.parameter",
    ]


PARAMETERS: dict[str, Any] = {
    "name": {"type": "string"},
    "size": {"type": "integer", "default": 2},
    "share": {"type": "number"},
    "either": {"type": ["integer", "string"]},
    "password": {"type": "string", "sensitive": True},
}


def make_output_template(value: Any) -> dict[str, Any]:
    return {
        "parameters": PARAMETERS,
        "conditions": {"big": "params.size > 5", "long": "size(params.password) > 5", "same": "!conditions.long"},
        "values": {
            "label": "'site-' + params.name",
            "again": "values.label",
            "double": "params.size * 2",
            "login": "'user:' + params.password",
            "copy": "values.login",
        },
        "outputs": {"it": {"value": value}},
    }


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("fixed", "string"),
        (3, "integer"),
        (True, "boolean"),
        ("http://${page.status.address}", "string"),
        ("${params.name}${params.name}", "string"),
        ("${params.name}", "string"),
        ("${params.size + 1}", "integer"),
        ("${params.size > 1}", "boolean"),
        ("${conditions.big}", "boolean"),
        ("${values.again}", "string"),
        ("${values.double}", "integer"),
        ("${string(page.status.port)}", "string"),
        ("${page.metadata.name}", "string"),
        ("$${params.size}", "string"),
        # Only the evaluation shows these.
        ("${params.share}", ""),
        ("${params.either}", ""),
        ("${params.password}", ""),
        # They have a placeholder in the status.
        ("${conditions.long}", ""),
        ("${conditions.same}", ""),
        ("${values.login}", ""),
        ("${values.copy}", ""),
        ("${page.status.port}", ""),
        ("${page.metadata.labels}", ""),
        (1.5, ""),
        ({"a": "b"}, ""),
        (None, ""),
    ],
)
def test_type_of_an_output(value: Any, type_: str) -> None:
    found = chunked_work.finish(instance_form.find_output_types(make_output_template(value)))
    assert found.get("it", "") == type_


def test_types_of_outputs_are_found_in_pieces() -> None:
    values = {f"v{number}": f"params.size + {number}" for number in range(20)}
    outputs = {f"o{number}": {"value": f"${{values.v{number} + {number}}}"} for number in range(20)}
    template = {"parameters": {"size": {"type": "integer"}}, "values": values, "outputs": outputs}

    pieces = instance_form.make_form_in_pieces("sites.platform.example", 1, {"template": template})
    count = sum(1 for _ in pieces)

    assert count >= len(values) + len(outputs)


def test_revisions_that_disagree_leave_it_open() -> None:
    def make(template: dict[str, Any]) -> InstanceForm:
        return instance_form.make_form("sites.platform.example", 1, {"template": template})

    number, text = make(make_output_template(3)), make(make_output_template("x"))
    assert instance_schema.find_common_types([number, make({"outputs": {}}), number]) == {"it": "integer"}
    assert instance_schema.find_common_types([number, text]) == {}
    assert instance_schema.find_common_types([number, text, number]) == {}
