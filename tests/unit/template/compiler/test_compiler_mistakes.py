"""All mistakes of a definition are reported at once, each with its path and the next step."""

from __future__ import annotations

from typing import Any

import pytest

from support.units.templates.invalid_templates import (
    RESOURCES,
    SOUND,
    SPEC,
    A,
    find_mistakes,
    in_deployment,
    in_resource,
)


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        (
            "{replicas: '${params.name}'}",
            ".replicas",
            "must be an integer, `params.name` gives text; make the whole string one expression that gives an integer, e.g. with int()",
        ),
        (
            "{replicas: '${params.count}0'}",
            ".replicas",
            "must be an integer, a string with expressions in it is text; make the whole string one expression that gives an integer, e.g. with int()",
        ),
        (
            "{template: {spec: {containers: [{image: '${params.count}'}]}}}",
            ".template.spec.containers[0].image",
            "must be text, `params.count` gives an integer; convert with string()",
        ),
        (
            "{template: {spec: {containers: '${params.name}'}}}",
            ".template.spec.containers",
            "must be a list, `params.name` gives text; make the whole string one expression that gives a list",
        ),
        (
            "{replicas: '${config.data}'}",
            ".replicas",
            "must be an integer, `config.data` gives a map; make the whole string one expression that gives an integer, e.g. with int()",
        ),
        (
            "{replicas: '${params.cont}'}",
            ".replicas",
            "there is no field 'cont' in params; did you mean 'count'? (at column 8 of `params.cont`)",
        ),
        (
            "{replicas: '${wbe.x}'}",
            ".replicas",
            "the name 'wbe' is not defined; declare it, or write $${ for a literal ${ (at column 1 of `wbe.x`)",
        ),
        (
            "{replicas: '${1 + confg.x}'}",
            ".replicas",
            "the name 'confg' is not defined; did you mean 'config'? (at column 5 of `1 + confg.x`)",
        ),
        (
            "{replicas: '${config.dta.x}'}",
            ".replicas",
            "there is no field 'dta' in ConfigMap; did you mean 'data'? (at column 8 of `config.dta.x`)",
        ),
        (
            "{replicas: '${conditions.nver}'}",
            ".replicas",
            "there is no field 'nver' in conditions; did you mean 'never'? (at column 12 of `conditions.nver`)",
        ),
        (
            "{replicas: '${stack.labels}'}",
            ".replicas",
            "there is no field 'labels' in stack; it has name, namespace and uid (at column 7 of `stack.labels`)",
        ),
        (
            "{replicas: '${1 +}'}",
            ".replicas",
            "the expression ends too early (at column 4 of `1 +`); write $${ for a literal ${",
        ),
        ("{replicas: '${}'}", ".replicas", "the expression is empty (at column 1 of ``); write $${ for a literal ${"),
        (
            "{replicas: '${params.count'}",
            ".replicas",
            "the closing brace after '${params.count' is missing; write $${ for a literal ${",
        ),
        (
            "{selector: {matchLabels: {'${params.name}': x}}}",
            ".selector.matchLabels[${params.name}]",
            "keys cannot contain expressions, only values can; write the whole map as one expression",
        ),
        (
            "{replicas: '${1 / (params.count - 3)}'}",
            ".replicas",
            "`1 / (params.count - 3)` fails: divide by zero; fix the expression or the parameters that it uses",
        ),
        (
            "{template: {spec: {containers: [{image: '${gone.data.k}'}]}}}",
            ".template.spec.containers[0].image",
            "'gone' does not exist because its `when` is false, but `gone.data.k` needs it; read it with `gone.?…` and orValue(…), or add a `when` here as well",
        ),
    ],
    ids=[
        "text for an integer",
        "pieces for an integer",
        "an integer for text",
        "text for a list",
        "a map for an integer",
        "unknown parameter",
        "unknown name",
        "mistyped name",
        "unknown field of another resource",
        "unknown condition",
        "unknown word of the stack",
        "syntax",
        "empty",
        "no end",
        "in a key",
        "cannot be evaluated",
        "absent resource",
    ],
)
def test_expressions(spec: str, path: str, message: str) -> None:
    assert find_mistakes(in_deployment(spec)) == [(SPEC + path, message)]


@pytest.mark.parametrize(
    ("resource", "path", "message"),
    [
        (
            "when: config.data.k == 'v'",
            "when",
            "only params, conditions and values can be used here, because it is evaluated before any apply (at column 1 of `config.data.k == 'v'`)",
        ),
        (
            "when: params.count",
            "when",
            "must give true or false, `params.count` gives an integer; add a comparison",
        ),
        ("when: 3", "when", 'must be an expression, found the number 3; write e.g. "params.replicas > 1"'),
        (
            "when: 'x ${params.count > 1}'",
            "when",
            "must be one expression, found 'x ${params.count > 1}'; write it without ${…}",
        ),
        ("when: '${true}${true}'", "when", "must be one expression, found '${true}${true}'; write it without ${…}"),
        (
            "readyWhen: [a.data.k]",
            "readyWhen[0]",
            "must give true or false, `a.data.k` gives text; add a comparison",
        ),
        (
            "readyWhen: [a.dta.k == 'x']",
            "readyWhen[0]",
            "there is no field 'dta' in ConfigMap; did you mean 'data'? (at column 3 of `a.dta.k == 'x'`)",
        ),
        (
            "failedWhen: ['true', zz.x]",
            "failedWhen[1]",
            "the name 'zz' is not defined; declare it, or write $${ for a literal ${ (at column 1 of `zz.x`)",
        ),
        ("dependsOn: [confg]", "dependsOn[0]", "there is no resource 'confg'; did you mean 'config'?"),
        (
            "dependsOn: [config, zz]",
            "dependsOn[1]",
            "there is no resource 'zz'; name a resource of this template, or remove it",
        ),
    ],
)
def test_words_beside_the_manifest(resource: str, path: str, message: str) -> None:
    """Conditions must be booleans; conditions that are evaluated first cannot read other resources."""
    assert (f"{A}.{path}", message) in find_mistakes(in_resource(f"\n    {SOUND}\n    {resource}"))


@pytest.mark.parametrize(
    ("conditions", "path", "message"),
    [
        ({"Ready": {"status": "true"}}, ".Ready", "the operator sets the condition Ready; rename yours"),
        (
            {"low": {"status": "true"}},
            ".low",
            (
                "cannot be the type of a condition; types start with a capital letter and have at most 40 letters and "
                "digits, e.g. Reachable"
            ),
        ),
        ({"A": {}}, ".A.status", "is missing; set an expression that is true or false"),
        (
            {"A": {"status": 1}},
            ".A.status",
            'must be an expression, found the number 1; write e.g. "params.replicas > 1"',
        ),
        (
            {"A": {"status": "size('a')"}},
            ".A.status",
            "must give true or false, `size('a')` gives an integer; add a comparison",
        ),
        ({"A": {"status": "true", "reason": "a b"}}, ".A.reason", "must be one word in CamelCase, found 'a b'"),
        ({"A": {"status": "true", "message": 5}}, ".A.message", "must be text, found the number 5"),
        ({"A": {"status": "true", "x": 5}}, ".A.x", "'x' is not known; a condition has status, reason and message"),
        ({f"A{at}": {"status": "true"} for at in range(21)}, "", "has 21 entries, but at most 20 are allowed"),
    ],
)
def test_conditions_for_the_status(conditions: dict[str, Any], path: str, message: str) -> None:
    found = find_mistakes({"resources": {}, "statusConditions": conditions})
    assert found == [(f"spec.template.statusConditions{path}", message)]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"a": "${a.data.x}"}, ["a → a"]),
        ({"a": "${b.data.x}", "b": "${a.data.x}"}, ["a → b → a"]),
        (
            {"a": "${b.?data.?x}", "b": "${c.data.x}", "c": "${a.data.x}", "d": "${e.data.x}", "e": "${d.data.x}"},
            ["a → b → c → a", "d → e → d"],
        ),
    ],
    ids=["itself", "two", "two cycles"],
)
def test_cycles_are_printed(resources: dict[str, str], expected: list[str]) -> None:
    template = {
        "resources": {
            name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": text}}}
            for name, text in resources.items()
        }
    }
    assert find_mistakes(template) == [
        (f"{RESOURCES}.{cycle[0]}", f"requires itself: {cycle}; remove one of these references or dependsOn entries")
        for cycle in expected
    ]


def test_a_cycle_by_dependson_and_tests() -> None:
    template = in_resource(f"{{{SOUND}, readyWhen: [\"b.data.x == '1'\"]}}", f"  b: {{{SOUND}, dependsOn: [a]}}")
    assert [message for _, message in find_mistakes(template)] == [
        "requires itself: a → b → a; remove one of these references or dependsOn entries"
    ]


def test_a_cycle_of_conditions() -> None:
    """Conditions are evaluated in order of their references, so a cycle is a mistake."""
    template = f"conditions: {{x: conditions.y, y: '!conditions.x', z: conditions.zz}}\nresources: {{a: {{{SOUND}}}}}"
    assert find_mistakes(template) == [
        (
            "spec.template.conditions.z",
            "there is no field 'zz' in conditions; it has x, y and z (at column 12 of `conditions.zz`)",
        ),
        (
            "spec.template.conditions.x",
            "depends on itself: conditions.x → conditions.y → conditions.x; remove one of them",
        ),
    ]


def test_ten_mistakes_at_once() -> None:
    found = find_mistakes(
        """
parameters:
  replicas: {type: integer, minimun: 1}
  name: {type: string}
conditions: {big: "params.name"}
resources:
  Web: {manifest: {apiVersion: apps/v1, kind: Deployment}}
  config: {manifest: {apiVersion: v1, kind: ConfigMap, data: {a: "${nothing.x}", b: 3}}}
  db: {deletionPolicy: Keep, dependsOn: [dbb], manifest: {apiVersion: apps/v1, kind: Deployment, spec: {replcas: 1}}}
  one: {manifest: {apiVersion: v1, kind: ConfigMap, data: {x: "${two.data.x}"}}}
  two: {manifest: {apiVersion: v1, kind: ConfigMap, data: {x: "${one.data.x}"}}}
  space: {manifest: {apiVersion: v1, kind: Namespace, metadata: {namespace: x}}}
outputs: {ready: {value: "${db.status.readyReplcas}"}}
""",
        {"nmae": "x"},
    )
    assert sorted(path for path, _ in found) == sorted(
        [
            "spec.template.parameters.replicas.minimun",
            "spec.parameters.name",
            "spec.parameters.nmae",
            "spec.template.conditions.big",
            f"{RESOURCES}.Web",
            f"{RESOURCES}.config.manifest.data.a",
            f"{RESOURCES}.config.manifest.data.b",
            f"{RESOURCES}.db.deletionPolicy",
            f"{RESOURCES}.db.dependsOn[0]",
            f"{RESOURCES}.db.manifest.spec.replcas",
            f"{RESOURCES}.one",
            f"{RESOURCES}.space.manifest.metadata.namespace",
            "spec.template.outputs.ready.value",
        ]
    )
    assert len(set(found)) == len(found)


def test_a_reserved_name_is_the_mistake_of_one_template() -> None:
    wrong, right = (f"resources: {{{name}: {{{SOUND}, readyWhen: ['1 < 2 + 3']}}}}" for name in ("string", "config"))
    assert find_mistakes(wrong) == [
        (f"{RESOURCES}.string", "'string' is a reserved word of the expression language; rename the resource")
    ]
    assert find_mistakes(right) == []


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"a": {"name": "x"}, "b": {"name": "x"}}, [("b", "configmap/x", "a")], id="one name"),
        pytest.param(
            {"a": {"name": "x"}, "b": {"name": "${params.x}"}, "c": {"name": "x", "namespace": "prod"}},
            [("b", "configmap/x", "a"), ("c", "configmap/x", "a")],
            id="by parameter or own namespace",
        ),
        pytest.param({"a": {"name": "x"}, "b": {"name": "x", "namespace": "other"}}, [], id="elsewhere"),
        pytest.param({"a": {"name": "x"}, "b": {"name": "${a.data.x}"}}, [], id="not known yet"),
        pytest.param({"aBC": {}, "aBc": {}}, [("aBc", "configmap/shop-a-bc", "aBC")], id="made names that coincide"),
        pytest.param(
            {"web": {}, "b": {"name": "shop-web"}},
            [("b", "configmap/shop-web", "web")],
            id="a made name pinned by another",
        ),
    ],
)
def test_two_resources_for_one_object(resources: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
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
            f"names {ref}, which the resource '{owner}' also names; rename one of them",
        )
        for name, ref, owner in expected
    ]


def test_kinds_depend_on_parameters_only() -> None:
    found = find_mistakes(in_resource('{manifest: {apiVersion: v1, kind: "${config.data.k}"}}'))
    rule = "apiVersion and kind may use only params, because the kind must be known before the apply"
    assert found == [(f"{A}.manifest.kind", f"{rule} (at column 1 of `config.data.k`)")]


def test_no_message_ends_with_a_full_stop_or_repeats_its_path() -> None:
    found = find_mistakes(in_deployment("{replcas: '${wbe.x', paused: x, zz: '${1 +}'}"))
    assert len(found) > 1
    for path, message in found:
        assert not message.endswith(".")
        assert path not in message


@pytest.mark.parametrize(
    ("text", "is_mistake"),
    [
        ("${s.stringData.a}", True),
        ("x-${s.stringData['a']}", True),
        ("${s.?stringData.?a.orValue('')}", False),
        ("${string(base64.decode(s.data.a))}", False),
        ("${config.data.stringData}", False),
    ],
)
def test_the_texts_of_a_secret_cannot_be_read(text: str, is_mistake: bool) -> None:
    secret = "  s: {manifest: {apiVersion: v1, kind: Secret, stringData: {a: b}}}"
    template = in_resource(f'{{manifest: {{apiVersion: v1, kind: ConfigMap, data: {{x: "{text}"}}}}}}', secret)
    found = [message for path, message in find_mistakes(template) if path == f"{A}.manifest.data.x"]
    assert bool(found) == is_mistake
    assert all("string(base64.decode(s.data.key))" in message for message in found)
