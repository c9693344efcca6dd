"""Sensitivity is tracked through all derived values, and the placeholder is never used as a value."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

import pytest
import yaml

from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.model import child, errors
from hearth.model.kinds import Kind
from hearth.model.object_list import ObjectList
from hearth.template.blueprint import Blueprint, Definition, EvaluationError, Known, Origin, Outcome, StackIdentity
from hearth.template.compiler import compiler, sensitivity
from support.units.templates.typed_kinds import TypedKinds

STACK = StackIdentity(name="shop", namespace="prod", uid="u-1")
KINDS = TypedKinds()
STACK_KIND = Kind(group="hearth.dev", version="v1alpha1", name="Stack", plural="stacks", namespaced=True)
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
    ("condition", "field"),
    [
        pytest.param({"status": "params.password == 'x'"}, "status", id="a test of a parameter"),
        pytest.param({"status": "conditions.same"}, "status", id="a condition that it decided"),
        pytest.param({"status": "size(user.spec.taken) > 3"}, "status", id="a field derived from it"),
        pytest.param({"status": "true", "reason": "${secret.data.a}"}, "reason", id="the data of a Secret"),
        pytest.param({"status": "true", "message": "x ${params.given}"}, "message", id="a parameter from a Secret"),
    ],
)
def test_conditions_for_the_status_read_no_sensitive_value(condition: dict[str, str], field: str) -> None:
    template = {**yaml.safe_load(TEMPLATE % "1"), "statusConditions": {"Safe": condition}}
    values = {"password": "sesame-open", "given": "from-secret", "public": "known"}
    definition = Definition(template=template, parameters=values, origins={"given": ORIGIN, "public": ORIGIN})

    with pytest.raises(errors.InvalidDefinition) as caught:
        compiler.compile_template(definition, stack=STACK, kinds=KINDS)

    (mistake,) = caught.value.mistakes
    assert mistake.path == f"spec.template.statusConditions.Safe.{field}"
    assert "everyone who can read the Stack sees its conditions" in mistake.message


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
    outcome = compile_output(value).outputs["out"].evaluate(CHILDREN)
    assert outcome == Known(expected)


def test_only_objects_with_sensitive_values_are_guarded() -> None:
    resources = compile_output("x").resources
    assert {name for name, each in resources.items() if each.hidden is not None} == {"secret", "holder", "user"}


def test_what_is_computed_is_hidden_too() -> None:
    hidden = compile_output(
        "${base64.encode(bytes(params.password))} ${size(params.given) > 1 ? 'yes' : 'no'}"
    ).sensitive_texts
    assert hidden == {"sesame-open", "from-secret", "c2VzYW1lLW9wZW4="}


def test_nothing_prints_a_value() -> None:
    blueprint = compile_output("${params.password} ${holder.spec.open}")
    definition = Definition(template={}, parameters={"password": "sesame-open"})
    assert "sesame" not in repr([blueprint, definition])


def test_an_expression_that_fails_later_tells_no_value() -> None:
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
            "spec.template.parameters.p.properties.a.sensitive: 'sensitive' is not a parameter rule",
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
            "and spec.parameters of a nested Stack is readable by every reader of Stacks; "
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
    definition = Definition(template=yaml.safe_load(template), parameters={"p": "sesame"})
    with pytest.raises(errors.InvalidDefinition) as caught:
        compiler.compile_template(definition, stack=STACK, kinds=KINDS)
    assert expected in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_a_nested_stack_may_read_the_secret_itself() -> None:
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


# ---------------------------------------------------------------- masked outputs of nested Stacks

INNER: dict[str, Any] = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "spec": {"template": {"resources": {}}}}
OUTPUTS = {"password": "(sensitive)", "host": "db.prod", "note": "not (sensitive) at all"}
NESTED_CHILDREN: dict[str, Any] = {
    "inner": {"metadata": {"name": "shop-inner"}, "status": {"phase": "CreateComplete", "outputs": OUTPUTS}},
    "each": ObjectList(
        [
            {"metadata": {"name": "shop-each-0"}, "status": {"outputs": {"host": "a"}}},
            {"metadata": {"name": "shop-each-1"}, "status": {"outputs": {"host": "b", "password": "(sensitive)"}}},
        ]
    ),
    "plain": {"metadata": {"name": "p"}, "status": {"outputs": OUTPUTS}},
}


def evaluate(text: str, *, as_output: bool = False) -> Outcome:
    """The value of the expression in a manifest, or as an output."""
    plain = {"manifest": {"apiVersion": "u.dev/v1", "kind": "Thing"}}
    template = {
        "resources": {
            "inner": {"manifest": INNER},
            "each": {"forEach": "[0, 1]", "manifest": INNER},
            "plain": plain,
            "user": {"manifest": {**plain["manifest"], "spec": {"any": text}}},
        },
        "outputs": {"out": {"value": text}},
    }
    definition = Definition(template=yaml.safe_load(yaml.safe_dump(template)), parameters={}, origins={})
    blueprint = compiler.compile_template(definition, stack=STACK, kinds=TypedKinds())
    found = (blueprint.outputs["out"] if as_output else blueprint.resources["user"].manifest).evaluate(NESTED_CHILDREN)
    return Known(found.value["spec"].get("any")) if isinstance(found, Known) and not as_output else found


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("${inner.status.outputs.password}", id="as it is"),
        pytest.param("${inner.status.outputs['password']}", id="by a key"),
        pytest.param("${inner.status.outputs.?password.orValue('')}", id="if there is one"),
        pytest.param("postgres://u:${inner.status.outputs.password}@db", id="within a text"),
        pytest.param("${base64.encode(bytes(inner.status.outputs.password))}", id="encoded"),
        pytest.param("${int(inner.status.outputs.password)}", id="where the placeholder makes it fail"),
        pytest.param("${inner.status.outputs.password.user}", id="below it"),
        pytest.param("${inner.status.outputs}", id="with all others"),
        pytest.param("${inner.status}", id="with the status"),
        pytest.param("${inner.status.outputs.map(name, inner.status.outputs[name])}", id="by a computed key"),
        pytest.param("${each.map(one, one.status.outputs.?password.orValue(''))}", id="of one of several"),
    ],
)
def test_a_sensitive_output_is_an_error(text: str) -> None:
    found = evaluate(text)
    assert isinstance(found, EvaluationError)
    assert "the output 'password' of '" in found.message
    assert "spec.parametersFrom" in found.message
    assert found.path == "spec.template.resources.user.manifest.spec.any"
    assert evaluate(text, as_output=True) == Known("(sensitive)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("${inner.status.outputs.host}", "db.prod", id="another output"),
        pytest.param("${inner.status.outputs.note}", "not (sensitive) at all", id="a text that mentions the word"),
        pytest.param("${has(inner.status.outputs.password)}", True, id="whether there is one"),
        pytest.param("${inner.status.outputs.size()}", 3, id="how many there are"),
        pytest.param("${each.map(one, one.status.outputs.host)}", ["a", "b"], id="another one of several"),
        pytest.param("${inner.status.phase}", "CreateComplete", id="another field"),
        pytest.param("${plain.status.outputs.password}", "(sensitive)", id="a field of another kind"),
    ],
)
def test_what_is_not_sensitive_has_its_value(text: str, expected: Any) -> None:
    assert evaluate(text) == Known(expected)
    assert evaluate(text, as_output=True) == Known(expected)


def make_nested(outputs: dict[str, str]) -> child.Child:
    """A nested Stack whose fields cannot be unpacked."""
    metadata = {"name": "a", "namespace": "prod", "uid": "u-2", "resourceVersion": "1"}
    made = child.parse_child({"metadata": metadata, "status": {"outputs": outputs}}, kind=STACK_KIND, paths=())
    return dataclasses.replace(made, packed_fields=b"unreadable")


@pytest.mark.parametrize(
    ("outputs", "path", "expected"),
    [
        pytest.param({"a": "x", "b": "(sensitive)"}, ("b",), "b", id="read by its name"),
        pytest.param({"a": "x", "b": "(sensitive)"}, ("a",), "", id="another one"),
        pytest.param({"a": "x", "ab": "(sensitive)"}, ("a",), "", id="part of a name"),
        pytest.param({"a": "x", "b": "(sensitive)"}, (), "b", id="with all others"),
        pytest.param({"a": "x"}, (), "", id="none is sensitive"),
        pytest.param({f"sensitive-{number}": "(sensitive)" for number in range(999)}, ("a",), "a", id="too many"),
    ],
)
def test_sensitive_outputs_of_many_stacks_are_found_without_unpacking_them(
    outputs: dict[str, str], path: tuple[str, ...], expected: str
) -> None:
    objects = ObjectList([make_nested({"c": "y"}), make_nested(outputs)])

    found = sensitivity.find_sensitive_output(objects, {(*sensitivity.OUTPUTS, *path)}, or_any=True)

    assert found == expected


# ---------------------------------------------------------------- masks are not mistaken for values


def find_mistakes(resources: Any, *, given: Any = None, rules: Any = None) -> list[str]:
    declared = {"password": rules or {"type": "string", "sensitive": True}} if given is not None else {}
    template = {"parameters": declared, "resources": resources}
    parameters = {"password": given} if given is not None else {}
    try:
        compiler.compile_template(
            Definition(template=template, parameters=parameters),
            stack=StackIdentity(name="shop", namespace="default", uid="u"),
            kinds=FolderKinds(None),
        )
    except errors.InvalidDefinition as error:
        return [f"{each.path}: {each.message}" for each in error.mistakes]
    return []


def config(kind: str = "ConfigMap", **fields: Any) -> Any:
    return {"a": {"manifest": {"apiVersion": "v1", "kind": kind, **fields}}}


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("resources", "place"),
    [
        pytest.param(config(data={"p": "(sensitive)"}), "data.p", id="a text"),
        pytest.param(config(data={"p": "(sensitive)", "x": "${stack.name}"}), "data.p", id="beside an expression"),
        pytest.param(config(data={"p": "(sensitive)", "x": None}), "data.p", id="beside nothing"),
        pytest.param(config("Probe", spec={"env": [{"value": "(sensitive)"}]}), "spec.env[0].value", id="deep within"),
        pytest.param(config("Secret", data={"p": encode("(sensitive)")}), "data.p", id="in base 64"),
        pytest.param(config("Secret", data={"p": encode("(sensitive)\n")}), "data.p", id="with a line end"),
        pytest.param(config("Secret", data={"p": encode("user: a\npassword: (sensitive)\n")}), "data.p", id="part, in base 64"),
        pytest.param(config("Secret", data={"p": encode("ab: (sensitive)")}), "data.p", id="part, shifted"),
        pytest.param(config("Secret", stringData={"p": '{"p": "(sensitive)"}'}), "stringData.p", id="JSON in a Secret"),
    ],
)  # fmt: skip
def test_a_mask_in_a_manifest_is_a_mistake(resources: Any, place: str) -> None:
    (mistake,) = find_mistakes(resources)

    assert mistake.startswith(f"spec.template.resources.a.manifest.{place}: contains the placeholder that people see")
    assert "or ${'(sensitive)'} if this literal text is intended" in mistake


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("(sensitive)", id="whole"),
        pytest.param(" (sensitive)\n", id="with space around it"),
        pytest.param("KHNlbnNpdGl2ZSk=", id="in base 64"),
        pytest.param("postgres://shop:(sensitive)@db/shop", id="part of a URL"),
        pytest.param("--password=(sensitive)", id="an option"),
        pytest.param("slaPeriod: 12h\npassword: (sensitive)\n", id="YAML"),
        pytest.param('{"a": "(sensitive)"}', id="JSON"),
    ],
)
def test_a_mask_as_a_sensitive_value_is_a_mistake(value: str) -> None:
    (mistake,) = find_mistakes(config(data={"p": "${params.password}"}), given=value)

    assert mistake.startswith(
        "spec.parameters.password: contains the placeholder that people see instead of a sensitive value"
    )
    assert mistake.endswith("; set the value itself")
    assert "slaPeriod" not in mistake


def test_a_mask_within_a_sensitive_list_is_a_mistake() -> None:
    found = find_mistakes(config(), given=[{"a": "(sensitive)"}], rules={"type": "array", "sensitive": True})

    assert [each.partition(": ")[0] for each in found] == ["spec.parameters.password"]


@pytest.mark.parametrize(
    ("resources", "given", "rules"),
    [
        pytest.param(config(data={"p": "${'(sensitive)'}"}), None, None, id="the very word"),
        pytest.param(config(data={"p": "a field (sensitive) of the form"}), None, None, id="in a sentence"),
        pytest.param(
            config("Secret", stringData={"p": "# key (sensitive)\nkey: x"}), None, None, id="a comment in a Secret"
        ),
        pytest.param(config("Probe", data={"p": "%%%"}), None, None, id="no base 64"),
        pytest.param(config("Probe", spec={"description": "(sensitive)"}), None, None, id="a description"),
        pytest.param(config(), "# token (sensitive)\ntoken: x", None, id="a comment in a value"),
        pytest.param(config(), "correct (sensitive) horse", None, id="a passphrase"),
        pytest.param(
            config(), "(sensitive)", {"enum": ["(public)", "(sensitive)"]}, id="a value that is not sensitive"
        ),
    ],
)
def test_the_word_itself_may_be_used(resources: Any, given: Any, rules: Any) -> None:
    assert find_mistakes(resources, given=given, rules=rules) == []
