"""Literal values of Secrets in templates: warned of, and hidden."""

from __future__ import annotations

from typing import Any

from hearth.template.compiler import secret_literals

SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "data": {"password": "aHVudGVy", "tls.crt": "LS0t", "empty": ""},
    "stringData": {"token": "${params.token}", "key": "hunter"},
}


def test_each_secret_with_literal_values_is_named_also_in_nested_stacks() -> None:
    nested = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "spec": {"template": {"resources": {"b": {"manifest": SECRET}}}},
    }
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    found = list(
        secret_literals.find_warnings(
            {"resources": {"a": {"manifest": SECRET}, "c": {"manifest": config}, "in": {"manifest": nested}}}
        )
    )
    assert [each.partition(",")[0] for each in found] == [
        "spec.template.resources.a.manifest.data: has the literal value of password",
        "spec.template.resources.a.manifest.stringData: has the literal value of key",
        "spec.template.resources.in.manifest.spec.template.resources.b.manifest.data: has the literal value of password",
        "spec.template.resources.in.manifest.spec.template.resources.b.manifest.stringData: has the literal value of key",
    ]


def test_a_template_of_any_shape_has_no_such_value() -> None:
    templates: list[Any] = [
        None,
        [],
        {"resources": []},
        {"resources": {"a": None}},
        {"resources": {"a": {"manifest": 1}}},
    ]
    for template in templates:
        assert list(secret_literals.find_warnings(template)) == []


def test_hidden_values_leave_expressions_and_other_kinds() -> None:
    hidden = secret_literals.hide({"resources": {"a": {"manifest": SECRET}, "b": {"data": {"x": "y"}}}})
    assert hidden["resources"]["b"] == {"data": {"x": "y"}}
    assert hidden["resources"]["a"]["manifest"]["stringData"] == {"token": "${params.token}", "key": "(sensitive)"}
    assert "hunter" not in str(hidden)
    assert "aHVudGVy" not in str(hidden)


def test_an_escaped_expression_is_a_literal_value() -> None:
    secret = {**SECRET, "data": {}, "stringData": {"all": "a$${b", "some": "$${a}${params.b}"}}
    template = {"resources": {"a": {"manifest": secret}}}
    (warning,) = secret_literals.find_warnings(template)
    assert "has the literal value of all," in warning
    assert secret_literals.hide(secret)["stringData"] == {"all": "(sensitive)", "some": "$${a}${params.b}"}
