"""A manifest before it enters a template: what goes, and that the rest stays what it is."""

from __future__ import annotations

from typing import Any

import hypothesis
from hypothesis import strategies

from hearth.cli.importer import manifest_cleanup
from hearth.template.blueprint import Definition, Known, StackIdentity
from hearth.template.compiler import compiler
from support.units.templates.typed_kinds import TypedKinds

TEXT = strategies.text(alphabet="${}ab \n'\"")
VALUES = strategies.recursive(
    TEXT | strategies.integers(0, 9) | strategies.booleans(),
    lambda inner: (
        strategies.lists(inner, max_size=3) | strategies.dictionaries(strategies.text("ab"), inner, max_size=3)
    ),
    max_leaves=8,
)


def make(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}} | fields


def test_what_the_server_added_is_left_out() -> None:
    """Only what a user wrote can be applied again."""
    exported = make(
        metadata={
            "name": "a",
            "namespace": "b",
            "uid": "1",
            "resourceVersion": "2",
            "generation": 3,
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "managedFields": [{}],
            "selfLink": "/a",
            "labels": {"app": "a", "hearth.dev/stack-uid": "4"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"},
            "finalizers": ["example.org/kept"],
        },
        spec={"status": "kept", "uid": "kept"},
        status={"phase": "Running"},
    )

    assert manifest_cleanup.clean(exported) == make(
        metadata={
            "name": "a",
            "namespace": "b",
            "labels": {"app": "a"},
            "annotations": {"note": "kept"},
            "finalizers": ["example.org/kept"],
        },
        spec={"status": "kept", "uid": "kept"},
    )


def test_the_original_is_left_as_it_is() -> None:
    """Its reader may need it whole."""
    original = make(status={"a": "${b}"})

    manifest_cleanup.clean(original)

    assert original == make(status={"a": "${b}"})


def test_a_template_within_is_left_to_its_own_stack() -> None:
    """Its expressions are meant; what stands beside it is not."""
    inner = {"resources": {"web": {"manifest": {"data": {"a": "${params.a}"}}}}}
    nested = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "spec": {"template": inner, "parameters": {"a": "${b}"}},
    }

    assert manifest_cleanup.clean(nested)["spec"] == {"template": inner, "parameters": {"a": "$${b}"}}


@hypothesis.given(VALUES)
def test_the_template_gives_the_manifest_back(value: Any) -> None:
    """Shell variables, braces, quotes: nothing in it is taken for an expression."""
    original = make(data=value)
    template = {"resources": {"thing": {"manifest": manifest_cleanup.clean(original)}}}
    identity = StackIdentity(name="shop", namespace="prod", uid="u-1")

    blueprint = compiler.compile_template(
        Definition(template=template, parameters={}), stack=identity, kinds=TypedKinds()
    )

    assert blueprint.resources["thing"].manifest.evaluate({}) == Known(original)
