"""The replacement of a sensitive value is not taken for the value."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.model import errors
from hearth.template.blueprint import Definition, StackIdentity
from hearth.template.compiler import compiler


def find_mistakes(resources: Any, *, given: Any = None, rules: Any = None) -> list[str]:
    """Return the mistakes of a template."""
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
        pytest.param(config(spec={"env": [{"value": "(sensitive)"}]}), "spec.env[0].value", id="deep within"),
        pytest.param(config("Secret", data={"p": encode("(sensitive)")}), "data.p", id="in base 64"),
        pytest.param(config("Secret", data={"p": encode("(sensitive)\n")}), "data.p", id="with a line end"),
        pytest.param(config("Secret", data={"p": encode("user: a\npassword: (sensitive)\n")}), "data.p", id="part, in base 64"),
        pytest.param(config("Secret", data={"p": encode("ab: (sensitive)")}), "data.p", id="part, shifted"),
        pytest.param(config("Secret", stringData={"p": '{"p": "(sensitive)"}'}), "stringData.p", id="JSON in a Secret"),
    ],
)  # fmt: skip
def test_a_mask_in_a_manifest_is_a_mistake(resources: Any, place: str) -> None:
    """With its path, and what to do."""
    (mistake,) = find_mistakes(resources)

    assert mistake.startswith(f"spec.template.resources.a.manifest.{place}: contains the word that stands for")
    assert "or ${'(sensitive)'} if the very word is meant" in mistake


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
    """The message does not have the value."""
    (mistake,) = find_mistakes(config(data={"p": "${params.password}"}), given=value)

    assert mistake.startswith("spec.parameters.password: contains the word that stands for a sensitive value")
    assert mistake.endswith("; set the value itself")
    assert "slaPeriod" not in mistake


def test_a_mask_within_a_sensitive_list_is_a_mistake() -> None:
    """Wherever it is in the value."""
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
        pytest.param(config("Secret", data={"p": "%%%"}), None, None, id="no base 64"),
        pytest.param(config(spec={"description": "(sensitive)"}), None, None, id="a description"),
        pytest.param(config(), "# token (sensitive)\ntoken: x", None, id="a comment in a value"),
        pytest.param(config(), "correct (sensitive) horse", None, id="a passphrase"),
        pytest.param(
            config(), "(sensitive)", {"enum": ["(public)", "(sensitive)"]}, id="a value that is not sensitive"
        ),
    ],
)
def test_the_word_itself_may_be_used(resources: Any, given: Any, rules: Any) -> None:
    """Where it replaces no value."""
    assert find_mistakes(resources, given=given, rules=rules) == []
