"""Names and other metadata that no object can have are refused, at the latest once their expressions have a value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hearth.template.parser import object_metadata
from support.units.templates.invalid_templates import META, find_mistakes, in_deployment

UNTYPED = "parameters: {p: {}}\nresources: {a: {manifest: {apiVersion: apps/v1, kind: Deployment, metadata: %s}}}"
IN_QUOTES = "put it in quotes, or write string(…) in the expression"


@pytest.mark.parametrize(
    ("metadata", "value", "expected"),
    [
        pytest.param(
            '{name: "${params.p}"}',
            500,
            (f"{META}.name", f"must be text, found the number 500; {IN_QUOTES}"),
            id="a name that is a number",
        ),
        pytest.param(
            '{namespace: "${params.p}"}',
            True,
            (f"{META}.namespace", f"must be text, found true; {IN_QUOTES}"),
            id="a namespace that is a boolean",
        ),
        pytest.param(
            '{name: "${params.p}/scale"}',
            "web",
            (
                f"{META}.name",
                "must not be . or .., or contain /, % or control characters, found the text 'web/scale'; rename it",
            ),
            id="a subresource",
        ),
        pytest.param(
            '{labels: {a: "${params.p}"}}',
            3,
            (f"{META}.labels.a", f"must be text, found a number; {IN_QUOTES}"),
            id="a label that is a number",
        ),
        pytest.param(
            '{annotations: "${params.p}"}',
            ["x"],
            (f"{META}.annotations", "must be a map of texts, found a list"),
            id="annotations that are a list",
        ),
    ],
)
def test_metadata_that_no_object_can_have_are_a_mistake(metadata: str, value: Any, expected: tuple[str, str]) -> None:
    assert find_mistakes(UNTYPED % metadata, {"p": value}) == [expected]


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", ".", "..", "", "a\tb", "a" * 254])
def test_a_name_that_leads_elsewhere_is_refused_as_it_is_written(name: str) -> None:
    assert [path for path, _ in find_mistakes(in_deployment("{}", json.dumps({"name": name})))] == [f"{META}.name"]


@pytest.mark.parametrize("namespace", ["../../secrets", "x/services/foo/proxy", "Team", "a.b", "-a", "a" * 64])
def test_a_namespace_that_cannot_be_is_refused(namespace: str) -> None:
    found = find_mistakes(in_deployment("{}", json.dumps({"namespace": namespace})))
    assert [path for path, _ in found] == [f"{META}.namespace"]


def test_a_sensitive_value_in_a_name_is_not_quoted() -> None:
    template = UNTYPED.replace("p: {}", "p: {sensitive: true}") % '{name: "${params.p}"}'
    found = find_mistakes(template, {"p": 47110815})
    assert [path for path, _ in found] == [f"{META}.name"]
    assert "47110815" not in str(found)


@pytest.mark.parametrize(
    "metadata", [None, {}, {"name": "system:a.B_c", "namespace": "team-1", "labels": {"a": "b"}, "annotations": None}]
)
def test_what_an_object_can_have_is_no_mistake(metadata: Any) -> None:
    assert not list(object_metadata.find_mistakes(metadata, path=""))
