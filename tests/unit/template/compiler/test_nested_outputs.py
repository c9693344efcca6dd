"""A sensitive output of a nested Stack is never taken for its value."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hearth.template.blueprint import Definition, EvaluationError, Known, Outcome, StackIdentity
from hearth.template.compiler import compiler
from support.units.templates.typed_kinds import TypedKinds

STACK = StackIdentity(name="shop", namespace="prod", uid="u-1")
INNER: dict[str, Any] = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "spec": {"template": {"resources": {}}}}
OUTPUTS = {"password": "(sensitive)", "host": "db.prod", "note": "not (sensitive) at all"}
CHILDREN: dict[str, Any] = {
    "inner": {"metadata": {"name": "shop-inner"}, "status": {"phase": "CreateComplete", "outputs": OUTPUTS}},
    "each": (
        {"metadata": {"name": "shop-each-0"}, "status": {"outputs": {"host": "a"}}},
        {"metadata": {"name": "shop-each-1"}, "status": {"outputs": {"host": "b", "password": "(sensitive)"}}},
    ),
    "plain": {"metadata": {"name": "p"}, "status": {"outputs": OUTPUTS}},
}


def evaluate(text: str, *, as_output: bool = False) -> Outcome:
    """What the expression gives in a manifest, or as an output."""
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
    found = (blueprint.outputs["out"] if as_output else blueprint.resources["user"].manifest).evaluate(CHILDREN)
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
    """It names the output and the resource; an output of this Stack shows the same placeholder, and nothing around it."""
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
    """In objects and outputs alike."""
    assert evaluate(text) == Known(expected)
    assert evaluate(text, as_output=True) == Known(expected)
