"""Developers' parameters that reach too far in a definition with an account."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.template.compiler import interpolation_warnings

TEXT = {"type": "string"}


def find(manifest: Any, rules: Any = TEXT, **resource: Any) -> list[str]:
    """The paths of the doubts, below the manifest."""
    template = {"parameters": {"x": rules}, "resources": {"a": {"manifest": manifest, **resource}}}
    found = interpolation_warnings.find_warnings({"account": {"namespace": "n", "name": "a"}, "template": template})
    return [each.partition(": ")[0].removeprefix("spec.template.resources.a.manifest.") for each in found]


def make_pod(**spec: Any) -> Any:
    """A Deployment whose image the developer chooses."""
    container = {"name": "web", "image": "${params.x}", **spec.pop("container", {})}
    return {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [container], **spec}}}}


IMAGE = "spec.template.spec.containers[0].image"


@pytest.mark.parametrize(
    ("manifest", "paths"),
    [
        ({"metadata": {"namespace": "${params.x}"}}, ["metadata.namespace"]),
        ({"metadata": {"namespace": "team-${params.?x.orValue('a')}"}}, ["metadata.namespace"]),
        ({"metadata": {"namespace": "${stack.namespace}", "name": "${params.x}"}}, []),
        ({"kind": "RoleBinding", "roleRef": {"name": "${params.x}"}}, ["roleRef.name"]),
        ({"kind": "RoleBinding", "subjects": [{"name": "${params.x}"}]}, ["subjects[0].name"]),
        ({"kind": "Role", "rules": [{"verbs": ["${params.x}"]}]}, ["rules[0].verbs[0]"]),
        ({"spec": {"volumes": [{"hostPath": {"path": "/a/${params.x}"}}]}}, ["spec.volumes[0].hostPath.path"]),
        (make_pod(serviceAccountName="${params.x}"), [IMAGE, "spec.template.spec.serviceAccountName"]),
        (make_pod(), []),
        (make_pod(serviceAccountName="deployer"), [IMAGE]),
        (make_pod(container={"securityContext": {"privileged": True}}), [IMAGE]),
        (make_pod(hostNetwork=True), [IMAGE]),
        ({"metadata": {"namespace": "${not an expression"}}, []),
        ({"metadata": {"namespace": "${a b}"}}, []),
        ("no manifest", []),
    ],
)
def test_where_a_parameter_is_doubtful(manifest: Any, paths: list[str]) -> None:
    assert find(manifest) == paths


@pytest.mark.parametrize(
    "rules", [{**TEXT, "enum": ["a"]}, {**TEXT, "pattern": "^team-"}, {"type": "integer"}, {"type": "boolean"}]
)
def test_a_parameter_that_cannot_be_any_text_is_not(rules: Any) -> None:
    assert find({"metadata": {"namespace": "${params.x}"}}, rules) == []


def test_the_elements_of_a_collection_are_the_parameter_that_they_come_from() -> None:
    manifest = {"metadata": {"namespace": "${item.name}"}}
    assert find(manifest, forEach="params.x") == ["metadata.namespace"]
    assert find(manifest, forEach="['a', 'b']") == []


def test_without_an_account_a_developer_reaches_nothing_more() -> None:
    template = {"resources": {"a": {"manifest": {"metadata": {"namespace": "${params.x}"}}}}}
    assert list(interpolation_warnings.find_warnings({"template": template})) == []
    assert list(interpolation_warnings.find_warnings({"account": {}, "template": "none"})) == []


def test_what_an_external_object_is_chosen_by_is_named() -> None:
    metadata = {"name": "${params.x}", "namespace": "${params.y}", "labels": {"a": "${params.z}"}}
    selected = {"selector": {"matchLabels": {"a": "${params.w}"}}}
    resources = {
        "a": {"externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}},
        "b": {"externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": selected}},
        "own": {"externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "${stack.name}"}}},
    }
    account = {"namespace": "n", "name": "a"}
    found = interpolation_warnings.find_warnings({"account": account, "template": {"resources": resources}})
    assert [each.partition(",")[0] for each in found] == [
        (
            "spec.template.resources.a.externalRef.metadata.namespace: the parameter y determines the namespace from "
            "which an object is read"
        ),
        "spec.template.resources.a.externalRef.metadata.name: the parameter x determines which object is read",
        (
            "spec.template.resources.b.externalRef.metadata.selector.matchLabels.a: the parameter w determines which "
            "objects are read"
        ),
    ]
