"""Lint of a Stack's file reports the errors outside the template that the API server would report."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views.files import file_schema, stack_lint


def make(**changes: Any) -> dict[str, Any]:
    """A sound Stack, with changes."""
    sound = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop"},
        "spec": {"template": {"resources": {}}},
    }
    return {**sound, **changes}


def find(manifest: dict[str, Any]) -> dict[str, str]:
    """The messages by path."""
    return {mistake.path: mistake.message for mistake in file_schema.find_mistakes(manifest)}


def test_a_sound_stack_has_no_mistake() -> None:
    spec = {
        "template": {"anything": 1},
        "parameters": {"a": [1]},
        "paused": True,
        "timeout": "10m",
        "retry": {"limit": 3},
    }
    assert find(make(spec=spec)) == {}


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        ({"tempalte": {}}, "spec.tempalte", "is not a field; did you mean 'template'?"),
        ({"template_ref": {"name": "a"}}, "spec.template_ref", "is not a field; did you mean 'templateRef'?"),
        ({"paused": "yes"}, "spec.paused", "must be a boolean, found the text 'yes'"),
        ({"retry": {"limit": "3"}}, "spec.retry.limit", "must be an integer, found the text '3'"),
        ({"retry": {"maxBackof": "3s"}}, "spec.retry.maxBackof", "is not a field; did you mean 'maxBackoff'?"),
        ({"deletionPolicy": "Keep"}, "spec.deletionPolicy", "must be 'Delete' or 'Abandon', found the text 'Keep'"),
        ({"parametersFrom": [{"secretRef": 5}]}, "spec.parametersFrom[0].secretRef", "found the number 5"),
    ],
)
def test_each_mistake_names_its_field(spec: dict[str, Any], path: str, words: str) -> None:
    assert words in find(make(spec={"template": {}, **spec}))[path]


def test_version_name_and_other_parts_are_checked() -> None:
    manifest = make(apiVersion="hearth.dev/v1", metadata={"name": "X_y"}, sepc={})

    assert find(manifest) == {
        "apiVersion": "must be hearth.dev/v1alpha1, found 'hearth.dev/v1'",
        "metadata.name": "must start with a letter and contain only lower-case letters, digits and '-', found 'X_y'",
        "sepc": "is not a field; did you mean 'spec'?",
    }


def test_nested_stacks_are_found_at_any_depth() -> None:
    inner = make(spec={"template": {"resources": {}}})
    middle = make(
        spec={
            "parameters": {"size": "${params.size}", "word": "w"},
            "template": {"parameters": {"size": {"type": "integer"}}, "resources": {"in": {"manifest": inner}}},
        }
    )
    outer = make(
        spec={"template": {"resources": {"mid": {"manifest": middle}, "other": {"manifest": {"kind": "Stack"}}}}}
    )

    found = list(stack_lint.find_nested(outer))

    assert [(path, is_known) for path, _, is_known in found] == [
        ("spec.template.resources.mid.manifest.spec.template", False),
        ("spec.template.resources.mid.manifest.spec.template.resources.in.manifest.spec.template", True),
    ]
    assert found[0][1]["spec"]["parameters"] == {"size": 1, "word": "w"}
