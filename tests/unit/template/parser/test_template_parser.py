"""A template of the wrong structure gets a report of all its errors."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.template.parser import template_parser
from hearth.template.text import error_hints
from support.units.templates.invalid_templates import RESOURCES, SOUND, SPEC, A, find_mistakes, in_resource

NAME_RULE = "names start with a lower-case letter and have at most 40 letters and digits, e.g. redisMaster"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ([], [("spec.template", "must be a map with resources, found a list")]),
        ("{}", [("spec.template.resources", "is missing; list the resources by name, or {} for none")]),
        ("resources: []", [("spec.template.resources", "must be a map by name, found a list")]),
        (
            in_resource(f"{{{SOUND}}}", "resorces: {}"),
            [("spec.template.resorces", "'resorces' is not known; did you mean 'resources'?")],
        ),
        (
            in_resource(f"{{{SOUND}, namespace: elsewhere}}"),
            [
                (
                    f"{A}.namespace",
                    f"'namespace' is not known; a resource has {error_hints.list_words(template_parser.RESOURCE_WORDS)}",
                )
            ],
        ),
        (
            in_resource(f"{{{SOUND}, dependson: [config]}}"),
            [(f"{A}.dependson", "'dependson' is not known; did you mean 'dependsOn'?")],
        ),
        (
            in_resource(f"{{{SOUND}}}", "outputs: {x: {valeu: 1}, y: 3}"),
            [
                ("spec.template.outputs.x.valeu", "'valeu' is not known; did you mean 'value'?"),
                ("spec.template.outputs.x.value", "is missing; set the value of the output"),
                ("spec.template.outputs.y", "must be a map with a value, found the number 3; write value: … below it"),
            ],
        ),
        (
            in_resource(f"{{{SOUND}, updatePolicy: {{replace: Always, replaceOn: [1], when: x}}}}"),
            [
                (
                    f"{A}.updatePolicy.when",
                    "'when' is not known; an update policy has replace, replaceOn, rolling and maxRemoved",
                ),
                (
                    f"{A}.updatePolicy.replace",
                    "must be one of CreateFirst, DeleteFirst, KeepClaims, Never, found the text 'Always'",
                ),
                (f"{A}.updatePolicy.replaceOn[0]", "must be text, found the number 1"),
            ],
        ),
        (
            in_resource(
                "{manifest: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}, updatePolicy: {replace: CreateFirst}}"
            ),
            [
                (
                    f"{A}.updatePolicy.replace",
                    "cannot be CreateFirst if metadata.name is set; write DeleteFirst, or omit the name",
                )
            ],
        ),
        (in_resource("3"), [(A, "must be a map with a manifest, found the number 3")]),
        (in_resource("{}"), [(f"{A}.manifest", "is missing; set the manifest of the object")]),
        (in_resource("{manifest: []}"), [(f"{A}.manifest", "must be a map, found a list")]),
        (
            in_resource("{manifest: {}}"),
            [
                (f"{A}.manifest.apiVersion", "is missing; write e.g. apiVersion: apps/v1"),
                (f"{A}.manifest.kind", "is missing; write e.g. kind: Deployment"),
            ],
        ),
        (
            in_resource("{manifest: {apiVersion: 1, kind: ConfigMap}}"),
            [(f"{A}.manifest.apiVersion", "must be text, found the number 1")],
        ),
        (
            in_resource(f"{{{SOUND}, dependsOn: config}}"),
            [(f"{A}.dependsOn", "must be a list of names of resources, found the text 'config'")],
        ),
        (in_resource(f"{{{SOUND}, dependsOn: [1]}}"), [(f"{A}.dependsOn[0]", "must be text, found the number 1")]),
    ],
    ids=[
        "no map",
        "no resources",
        "resources as a list",
        "unknown word",
        "a word of manifests",
        "a word in other letters",
        "outputs",
        "an update policy",
        "a stated name cannot be had twice",
        "a resource that is none",
        "no manifest",
        "a manifest that is none",
        "an empty manifest",
        "a version that is a number",
        "dependsOn without a list",
        "dependsOn a number",
    ],
)
def test_structure(template: Any, expected: list[tuple[str, str]]) -> None:
    assert find_mistakes(template) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            f"resources: {{My-Web: {{{SOUND}}}}}",
            [(f"{RESOURCES}.My-Web", f"cannot be the name of a resource; {NAME_RULE}")],
        ),
        (
            f"resources: {{{'a' * 41}: {{{SOUND}}}}}",
            [(f"{RESOURCES}.{'a' * 41}", f"cannot be the name of a resource; {NAME_RULE}")],
        ),
        (f"resources: {{1: {{{SOUND}}}}}", [(f"{RESOURCES}[1]", f"cannot be the name of a resource; {NAME_RULE}")]),
        (
            f"resources: {{params: {{{SOUND}}}}}",
            [(f"{RESOURCES}.params", "'params' is a reserved word of the expression language; rename the resource")],
        ),
        (
            f"resources: {{namespace: {{{SOUND}}}}}",
            [
                (
                    f"{RESOURCES}.namespace",
                    "'namespace' is a reserved word of the expression language; rename the resource",
                )
            ],
        ),
        (
            f"resources: {{math: {{{SOUND}}}}}",
            [(f"{RESOURCES}.math", "'math' is a reserved word of the expression language; rename the resource")],
        ),
        (
            in_resource(f"{{{SOUND}}}", "outputs: {in: {value: 1}}"),
            [("spec.template.outputs.in", "'in' is a reserved word of the expression language; rename the output")],
        ),
    ],
    ids=["capital and dash", "too long", "a number", "ours", "CEL's", "a namespace of functions", "after a dot"],
)
def test_names(template: str, expected: list[tuple[str, str]]) -> None:
    assert find_mistakes(template) == expected


def test_a_parameter_may_be_called_namespace() -> None:
    assert not find_mistakes(f"parameters: {{namespace: {{default: x}}}}\nresources: {{a: {{{SOUND}}}}}")


def test_parameters_as_given() -> None:
    """They are reported as the user wrote them; fields that depend on them are not reported as well."""
    template = f"""
parameters: {{replicas: {{type: integer}}, name: {{type: string}}, broken: {{typ: x}}}}
conditions: {{big: "params.replicas > 5"}}
resources: {{a: {{when: conditions.big, {SOUND[:-1]}, data: {{x: "${{params.name}} ${{params.broken}}"}}}}}}}}
"""
    assert [path for path, _ in find_mistakes(template, {"replicas": "many", "nam": "x", "broken": 1})] == [
        "spec.template.parameters.broken.typ",
        "spec.parameters.replicas",
        "spec.parameters.name",
        "spec.parameters.nam",
    ]
    assert find_mistakes(template, [1])[-1] == ("spec.parameters", "must be a map by name, found a list")


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        (2**70, "", "is an integer of more than 64 bits; write it as text"),
        ([{1: "x"}], "[0]", "has the key 1, which is not text; put it in quotes"),
        ({"a": {1, 2}}, ".a", "is set, which JSON cannot represent; write it as text"),
        (
            "${" + "[" * 50 + "]" * 50 + "}",
            "",
            f"Expression recursion limit exceeded. limit: 32 (at column 1 of `{'[' * 50 + ']' * 50}`)",
        ),
    ],
    ids=["a huge integer", "a key that is a number", "no JSON", "a deep expression"],
)
def test_what_cannot_be_written(value: Any, path: str, message: str) -> None:
    manifest = {"apiVersion": "some.dev/v1", "kind": "Some", "spec": value}
    found = find_mistakes({"resources": {"a": {"manifest": manifest}}, "outputs": {"x": {"value": value}}, "zz": 1})
    assert (f"{SPEC}{path}", message) in found
    assert (f"spec.template.outputs.x.value{path}", message) in found
    assert found[0][0] == "spec.template.zz"


def test_what_is_nested_without_end_is_refused() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep, None]
    manifest = {"apiVersion": "some.dev/v1", "kind": "Some", "spec": deep}
    assert find_mistakes({"resources": {"a": {"manifest": manifest}}}) == [
        ("spec.template", "is nested too deeply; Kubernetes rejects such an object")
    ]
