"""Sensitive values are followed to everything that is made of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from hearth.model import errors
from hearth.template.blueprint import Blueprint, Definition, EvaluationError, Known, Origin, StackIdentity
from hearth.template.compiler import compiler
from support.units.templates.typed_kinds import TypedKinds

STACK = StackIdentity(name="shop", namespace="prod", uid="u-1")
KINDS = TypedKinds()
ORIGIN = Origin(kind="Secret", name="db", key="given", place="spec.parametersFrom[0] (secret/db key given)")
TEMPLATE = """
parameters:
  password: {type: string, sensitive: true}
  given: {type: string}
  public: {type: string, sensitive: false}
  plain: {type: string, default: x}
conditions: {strong: "size(params.password) > 3", same: "conditions.strong", big: "params.plain == 'x'"}
resources:
  secret: {manifest: {apiVersion: v1, kind: Secret, stringData: {a: b}}}
  holder: {manifest: {apiVersion: u.dev/v1, kind: Thing, spec: {list: ["${params.password}"], open: "${params.plain}"}}}
  user: {manifest: {apiVersion: u.dev/v1, kind: Thing, spec: {taken: "${holder.spec.list[0]}"}}}
  open: {manifest: {apiVersion: u.dev/v1, kind: Thing, spec: {a: "${holder.spec.open}"}}}
outputs:
  out: {value: %s}
"""
CHILDREN: dict[str, Any] = {
    "secret": {"data": {"a": "b"}, "metadata": {"name": "s"}},
    "holder": {"spec": {"list": ["sesame"], "open": "x"}, "metadata": {"name": "h"}},
    "user": {"spec": {"taken": "sesame"}},
    "open": {"spec": {"a": "x"}},
}


def compile_output(value: Any) -> Blueprint:
    """The blueprint of the template with one output."""
    values = {"password": "sesame-open", "given": "from-secret", "public": "known"}
    origins = {"given": ORIGIN, "public": ORIGIN}
    definition = Definition(template=yaml.safe_load(TEMPLATE % json.dumps(value)), parameters=values, origins=origins)
    return compiler.compile_template(definition, stack=STACK, kinds=KINDS)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("${params.password}", "(sensitive)", id="the parameter itself"),
        pytest.param({"a": ["x ${params.password}"]}, "(sensitive)", id="deep within a value"),
        pytest.param("${params.given}", "(sensitive)", id="what a Secret gives"),
        pytest.param("${params.public}", "known", id="what a Secret gives and the template calls open"),
        pytest.param("${params}", "(sensitive)", id="all parameters at once"),
        pytest.param("${conditions.same}", "(sensitive)", id="a condition that another tests a parameter for"),
        pytest.param("${conditions.big}", True, id="another condition"),
        pytest.param("${secret.data.a}", "(sensitive)", id="data of a Secret"),
        pytest.param("${secret.metadata.name}", "s", id="the name of a Secret"),
        pytest.param("${secret}", "(sensitive)", id="a Secret as a whole"),
        pytest.param("${holder.spec.list[0]}", "(sensitive)", id="a field that was made of it"),
        pytest.param("${holder.spec}", "(sensitive)", id="what holds that field"),
        pytest.param("${holder.spec.open}", "x", id="the field beside it"),
        pytest.param("${user.spec.taken}", "(sensitive)", id="a field of a field"),
        pytest.param("${open.spec.a}", "x", id="a field of an open field"),
    ],
)
def test_outputs(value: Any, expected: Any) -> None:
    """All that is made of a sensitive value shows that there is one, and no more."""
    outcome = compile_output(value).outputs["out"].evaluate(CHILDREN)
    assert outcome == Known(expected)


def test_only_objects_with_sensitive_values_are_guarded() -> None:
    """The others' refusals are reported in full."""
    resources = compile_output("x").resources
    assert {name for name, each in resources.items() if each.hidden is not None} == {"secret", "holder", "user"}


def test_what_is_computed_is_hidden_too() -> None:
    """Unless it is so short that it might be a word of any sentence."""
    hidden = compile_output(
        "${base64.encode(bytes(params.password))} ${size(params.given) > 1 ? 'yes' : 'no'}"
    ).sensitive_texts
    assert hidden == {"sesame-open", "from-secret", "c2VzYW1lLW9wZW4="}


def test_nothing_prints_a_value() -> None:
    """As a traceback or a debugger would."""
    blueprint = compile_output("${params.password} ${holder.spec.open}")
    definition = Definition(template={}, parameters={"password": "sesame-open"})
    assert "sesame" not in repr([blueprint, definition])


def test_an_expression_that_fails_later_tells_no_value() -> None:
    """CEL's own words may quote what it came upon."""
    output = compile_output("${int(user.spec.taken)}").outputs["out"]
    outcome = output.evaluate({"user": {"spec": {"taken": "sesame"}}})
    assert isinstance(outcome, EvaluationError)
    assert outcome.message == "`int(user.spec.taken)` fails; the cause is not shown because it reads a sensitive value"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param(
            "parameters: {p: {sensitive: true, default: a}}\nresources: {}",
            "spec.template.parameters.p.default: would be stored",
            id="a default would be stored",
        ),
        pytest.param(
            "parameters: {p: {sensitive: 'yes please'}}\nresources: {}",
            "spec.template.parameters.p.sensitive: must be true or false",
            id="neither true nor false",
        ),
        pytest.param(
            "parameters: {p: {type: object, properties: {a: {sensitive: true}}}}\nresources: {}",
            "spec.template.parameters.p.properties.a.sensitive: 'sensitive' is not a rule",
            id="only a parameter as a whole",
        ),
        pytest.param(
            "parameters: {p: {sensitive: true}}\nresources: {a: {manifest: {apiVersion: v1, kind: '${params.p}'}}}",
            "spec.template.resources.a.manifest.kind: uses the sensitive parameter 'p'",
            id="a kind",
        ),
        pytest.param(
            "parameters: {p: {sensitive: true}}\n"
            "resources: {a: {manifest: {apiVersion: u.dev/v1, kind: T, metadata: '${{\"name\": params.p}}'}}}",
            "spec.template.resources.a.manifest.metadata: uses the sensitive parameter 'p'",
            id="a name within a whole",
        ),
        pytest.param(
            "parameters: {p: {sensitive: true}}\n"
            "resources: {a: {manifest: {apiVersion: hearth.dev/v1alpha1, kind: Stack, "
            "spec: {parameters: {q: 'x ${params.p}'}}}}}",
            "spec.template.resources.a.manifest.spec.parameters.q: uses the sensitive parameter 'p', "
            "and spec.parameters of a nested Stack is readable by everyone who can read Stacks; "
            "put the value into a Secret, and reference it in the nested Stack's spec.parametersFrom",
            id="a parameter of a nested Stack",
        ),
        pytest.param(
            "parameters: {p: {sensitive: true}}\nresources:\n"
            "  s: {manifest: {apiVersion: v1, kind: Secret, stringData: {a: '${params.p}'}}}\n"
            "  a: {manifest: {apiVersion: hearth.dev/v1alpha1, kind: Stack, spec: {parameters: '${s.data}'}}}",
            "spec.template.resources.a.manifest.spec.parameters: uses something sensitive, and spec.parameters of",
            id="all parameters of a nested Stack, from a Secret",
        ),
        pytest.param(
            "parameters: {p: {sensitive: true}}\n"
            "resources: {a: {manifest: {apiVersion: u.dev/v1, kind: T}, when: params.p}}",
            "`params.p` gives something else",
            id="a test that is none",
        ),
    ],
)
def test_mistakes(template: str, expected: str) -> None:
    """They name the place and the next step, never the value."""
    definition = Definition(template=yaml.safe_load(template), parameters={"p": "sesame"})
    with pytest.raises(errors.InvalidDefinition) as caught:
        compiler.compile_template(definition, stack=STACK, kinds=KINDS)
    assert expected in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_a_nested_stack_may_read_the_secret_itself() -> None:
    """Its parameter is then sensitive by itself, and the name of a Secret is not."""
    template = {
        "parameters": {"p": {"sensitive": True}},
        "resources": {
            "s": {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"q": "${params.p}"}}},
            "a": {
                "manifest": {
                    "apiVersion": "hearth.dev/v1alpha1",
                    "kind": "Stack",
                    "spec": {"parametersFrom": [{"secretRef": {"name": "${s.metadata.name}"}}]},
                }
            },
        },
    }
    definition = Definition(template=template, parameters={"p": "sesame"})

    blueprint = compiler.compile_template(definition, stack=STACK, kinds=TypedKinds(has_schemas=False))

    assert blueprint.resources["a"].requires == ("s",)
