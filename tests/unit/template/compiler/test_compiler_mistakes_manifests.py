"""A manifest that its kind would not take is refused beforehand, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from support.units.invalid_templates import META, RESOURCES, SPEC, A, find_mistakes, in_deployment, in_resource


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            in_deployment("{replcas: 3}"),
            [(f"{SPEC}.replcas", "there is no field 'replcas' in DeploymentSpec; did you mean 'replicas'?")],
        ),
        (
            in_deployment("{template: {spec: {containers: [{nam: x}, {image: 3}]}}}"),
            [
                (
                    f"{SPEC}.template.spec.containers[0].nam",
                    "there is no field 'nam' in Container; did you mean 'name'?",
                ),
                (f"{SPEC}.template.spec.containers[1].image", "must be text, found the number 3; put it in quotes"),
            ],
        ),
        (
            in_deployment("{replicas: '3'}"),
            [(f"{SPEC}.replicas", "must be an integer, found the text '3'; take the quotes off")],
        ),
        (in_deployment("{replicas: 1.5}"), [(f"{SPEC}.replicas", "must be an integer, found the number 1.5")]),
        (
            in_deployment("{paused: 'yes'}"),
            [(f"{SPEC}.paused", "must be true or false, found the text 'yes'; take the quotes off")],
        ),
        (in_deployment("{selector: [1]}"), [(f"{SPEC}.selector", "must be a map, found a list")]),
        (
            in_deployment("{selector: {matchLabels: {app: true}}}"),
            [(f"{SPEC}.selector.matchLabels.app", "must be text, found true; put it in quotes")],
        ),
        (
            in_deployment("{}", "{labels: {app.kubernetes.io/name: 3}}"),
            [(f"{META}.labels[app.kubernetes.io/name]", "must be text, found the number 3; put it in quotes")],
        ),
        (
            in_deployment("{zz: 3}"),
            [
                (
                    f"{SPEC}.zz",
                    "there is no field 'zz' in DeploymentSpec; take it out, or see kubectl explain for its fields",
                )
            ],
        ),
        (
            in_deployment("{}", "{generateName: x-}"),
            [
                (
                    f"{META}.generateName",
                    "would give a new object with every apply; state name, or leave it out for a name made by Hearth",
                )
            ],
        ),
        (
            in_deployment("{}", "{managedFields: [], uid: x}"),
            [
                (f"{META}.managedFields", "is written by the API server only; take it out"),
                (f"{META}.uid", "is written by the API server only; take it out"),
            ],
        ),
        (
            in_deployment("{}", "{labels: {hearth.dev/stack: x}}"),
            [(f"{META}.labels[hearth.dev/stack]", "is written by Hearth itself; take it out")],
        ),
        (in_deployment("{}", "[]"), [(META, "must be a map, found a list")]),
        (
            in_resource("{manifest: {apiVersion: apps/v1, kind: Deployment, status: {readyReplicas: 1}}}"),
            [(f"{A}.manifest.status", "is written by the kind's own controller, never by a template; take it out")],
        ),
        (
            in_resource("{manifest: {apiVersion: v1, kind: Namespace, metadata: {namespace: x}}}"),
            [(f"{META}.namespace", "Namespace is of cluster scope and has no namespace; take it out")],
        ),
        (
            in_resource("{manifest: {apiVersion: apps/v1, kind: ControllerRevision, revision: 1}}"),
            [
                (
                    f"{A}.manifest.kind",
                    "ControllerRevision is how revisions of Stacks are stored; take the resource out",
                )
            ],
        ),
    ],
    ids=[
        "unknown field",
        "deep in a list",
        "a number in quotes",
        "no whole number",
        "a truth in quotes",
        "a list for a map",
        "a label that is no text",
        "a key with a slash",
        "nothing alike",
        "generateName",
        "fields of the server",
        "marks of Hearth",
        "metadata that are none",
        "status",
        "namespace of a cluster-wide object",
        "how revisions are stored",
    ],
)
def test_literal_manifests(template: str, expected: list[tuple[str, str]]) -> None:
    """As far as the kind's schema is known and closed."""
    assert find_mistakes(template) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "{strategy: {maxSurge: 1}}",
        "{strategy: {maxSurge: 25%}}",
        "{replicas: 3.0}",
        "{replicas: null}",
        "{template: {spec: {containers: [{resources: {limits: {cpu: 1, memory: 1Gi}}}]}}}",
        "{replicas: '${params.count}'}",
        "{replicas: '${int(params.name)}'}",
        "{strategy: {maxSurge: '${params.name}%'}}",
        "{selector: {matchLabels: '${config.data}'}}",
    ],
)
def test_what_is_no_mistake(spec: str) -> None:
    """Where a field takes more than one form, or only its value tells."""
    template = in_deployment(spec)
    # A name that is a number, so that it can be converted.
    assert not find_mistakes(template, {"name": "3"})


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"a": {"name": "x"}, "b": {"name": "x"}}, [("b", "configmap/x", "a")]),
        (
            {"a": {"name": "x"}, "b": {"name": "${params.x}"}, "c": {"name": "x", "namespace": "prod"}},
            [("b", "configmap/x", "a"), ("c", "configmap/x", "a")],
        ),
        ({"a": {"name": "x"}, "b": {"name": "x", "namespace": "other"}}, []),
        ({"a": {"name": "x"}, "b": {"name": "${a.data.x}"}}, []),
        ({"aBC": {}, "aBc": {}}, [("aBc", "configmap/shop-a-bc", "aBC")]),
        ({"web": {}, "b": {"name": "shop-web"}}, [("b", "configmap/shop-web", "web")]),
    ],
    ids=[
        "one name",
        "by parameter or own namespace",
        "elsewhere",
        "not known yet",
        "made names that coincide",
        "a made name pinned by another",
    ],
)
def test_two_resources_for_one_object(resources: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    """The later one is told of the earlier."""
    template = {
        "parameters": {"x": {"default": "x"}},
        "resources": {
            name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}
            for name, metadata in resources.items()
        },
    }
    assert find_mistakes(template) == [
        (
            f"{RESOURCES}.{name}.manifest.metadata.name",
            f"names {ref}, as the resource '{owner}' does; give one of them another name",
        )
        for name, ref, owner in expected
    ]


def test_kinds_depend_on_parameters_only() -> None:
    """Since everything else is told by the kind."""
    found = find_mistakes(in_resource('{manifest: {apiVersion: v1, kind: "${config.data.k}"}}'))
    rule = "apiVersion and kind may use params only, since the kind must be known beforehand"
    assert found == [(f"{A}.manifest.kind", f"{rule} (at column 1 of `config.data.k`)")]
