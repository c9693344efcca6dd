"""Compiling a definition to a blueprint: its resources, their order, the data they read, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from hearth.model.kinds import Kind
from hearth.template.blueprint import Blueprint, Definition, EvaluationError, Known, Pending, StackIdentity
from hearth.template.compiler import compiler
from hearth.template.parser import template_kinds
from support.units.templates.typed_kinds import TypedKinds

STACK = StackIdentity(name="shop", namespace="prod", uid="u-1")
KINDS = TypedKinds()


def compile_text(template: str, **parameters: Any) -> Blueprint:
    """The blueprint of a template written as YAML."""
    definition = Definition(template=yaml.safe_load(template), parameters=parameters)
    return compiler.compile_template(definition, stack=STACK, kinds=KINDS)


def config(data: str, more: str = "") -> str:
    """A template whose only resource is a ConfigMap with that data."""
    return f"""
parameters:
  name: {{type: string, default: anna}}
  count: {{type: integer, default: 3}}
  ratio: {{type: number, default: 2}}
  free: {{default: {{a: [1, 2], b: x}}}}
  flag: {{type: boolean, default: false}}
conditions: {{many: "params.count > 2", few: "!conditions.many"}}
resources:
  other: {{manifest: {{apiVersion: unknown.dev/v1, kind: Thing, spec: {{}}}}}}
  gone: {{when: conditions.few, manifest: {{apiVersion: unknown.dev/v1, kind: Thing}}}}
  config:
    manifest:
      apiVersion: unknown.dev/v1
      kind: Config
      data: {data}
{more}
"""


def give(data: str, **other: Any) -> Any:
    """The evaluated data of the ConfigMap."""
    outcome = compile_text(config(data)).resources["config"].manifest.evaluate({"other": other})
    assert isinstance(outcome, Known)
    return outcome.value["data"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("{x: '${params.count}'}", {"x": 3}),
        ("{x: null, l: [null, 1], m: {k: null}}", {"l": [1], "m": {}}),
        ("{x: '${params.count} of ${params.name}'}", {"x": "3 of anna"}),
        ("{x: '${params.flag}', y: 'is ${params.flag}'}", {"x": False, "y": "is false"}),
        ("{x: '${params.ratio}', y: '~${params.ratio}', z: '${params.ratio * 1.25}'}", {"x": 2, "y": "~2", "z": 2.5}),
        (
            "{x: '${params.free}', y: 'is ${params.free}'}",
            {"x": {"a": [1, 2], "b": "x"}, "y": 'is {"a":[1,2],"b":"x"}'},
        ),
        ("'${params.free}'", {"a": [1, 2], "b": "x"}),
        ("{x: '${null}', y: null, z: 1}", {"z": 1}),
        ("{x: 'a ${null}', z: 1}", {"z": 1}),
        ("{x: '${params.?free.?zz}', z: '${params.?name}'}", {"z": "anna"}),
        ("{l: [1, null, '${null}', '${params.count}', '${null}', 2]}", {"l": [1, 3, 2]}),
        ("{l: ['${other.a}', '${other.?zz}', x, '${other.?zz}', '${other.a}']}", {"l": [7, "x", 7]}),
        ("{x: '${params.count > 5 ? params.name : null}', z: 1}", {"z": 1}),
        ("{x: '$${params.count}', y: 'a $${b} ${params.count}'}", {"x": "${params.count}", "y": "a ${b} 3"}),
        (
            "{x: '${conditions.many}', y: '${stack.namespace}/${stack.name}/${stack.uid}'}",
            {"x": True, "y": "prod/shop/u-1"},
        ),
        ("{x: '${other.a}', y: '${other.a}-${params.count}-${other.b}'}", {"x": 7, "y": "7-3-eight"}),
        ("{x: '${other.l.map(i, i * params.count)}'}", {"x": [3, 6]}),
        ("{x: '${other.?zz}', y: 'a ${other.?zz}', z: 1}", {"z": 1}),
        ("{x: '${other.m}'}", {"x": {"k": 1}}),
        ("{x: '${gone.?status.?x}', y: '${has(gone.a.b)}'}", {"y": False}),
        ("{x: '${conditions.few ? gone.a : \"no\"}'}", {"x": "no"}),
        ("{x: 'Grüße ${params.name} ⏎'}", {"x": "Grüße anna ⏎"}),
    ],
    ids=[
        "a whole string keeps the type",
        "nulls that are written out are dropped",
        "within text it is text",
        "booleans",
        "whole numbers have no point",
        "lists and maps are compact JSON",
        "a whole map",
        "null drops its key",
        "null within text drops all of it",
        "so does none",
        "and entries of lists",
        "entries of lists, only known later",
        "a choice of null",
        "two dollars are literal",
        "what else has a name",
        "values of another resource",
        "loop variables",
        "none, only known later",
        "nulls within a value",
        "an absent resource has nothing",
        "an absent resource behind a condition",
        "any letters",
    ],
)
def test_what_expressions_give(data: str, expected: Any) -> None:
    """In a manifest, with other = {a: 7, b: eight, l: [1, 2], m: {k: 1, n: null}}."""
    assert give(data, a=7, b="eight", l=[1, 2], m={"k": 1, "n": None}) == expected


TREE = """
parameters: {withCache: {type: boolean, default: true}}
resources:
  web:
    dependsOn: [migrate]
    readyWhen: ["web.status.readyReplicas >= 1", "${has(svc.spec.clusterIP)}"]
    failedWhen: ["web.status.phase == 'Broken'"]
    manifest:
      apiVersion: apps/v1
      kind: Deployment
      spec: {template: {spec: {containers: [{name: web, env: [{name: DB, value: "${db.metadata.name}"}]}]}}}
  svc: {manifest: {apiVersion: v1, kind: Service, metadata: {name: front}, spec: {clusterIP: "${cache.?spec.?clusterIP}"}}}
  db: {manifest: {apiVersion: v1, kind: Service, spec: {}}}
  migrate: {dependsOn: [db, cache], manifest: {apiVersion: batch/v1, kind: Job, spec: {}}}
  cache: {when: params.withCache, manifest: {apiVersion: v1, kind: Service}}
outputs:
  url: {value: "http://${svc.metadata.name}"}
  hosts: {value: ["${svc.status.loadBalancer.ingress[0].ip}"], when: "!params.withCache"}
"""


def test_order_and_requirements() -> None:
    """From references and `dependsOn`, including those in conditions; only direct requirements."""
    resources = compile_text(TREE).resources
    assert {name: found.requires for name, found in resources.items()} == {
        "db": (),
        "cache": (),
        "migrate": ("cache", "db"),
        "svc": ("cache",),
        "web": ("db", "migrate", "svc"),
    }
    assert resources["cache"].dependents == ("migrate", "svc")
    assert [found.index for found in resources.values()] == [0, 1, 2, 3, 4]
    assert list(resources)[-1] == "web"


def test_a_resource_whose_when_is_false_is_not_there() -> None:
    blueprint = compile_text(TREE, withCache=False)
    assert "cache" not in blueprint.resources
    assert blueprint.resources["migrate"].requires == ("db",)
    assert blueprint.resources["svc"].requires == ()
    assert blueprint.resources["svc"].manifest.evaluate({}) == Known(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}, "spec": {}}
    )
    assert "cache" not in blueprint.reads


def test_reads_are_all_that_must_be_kept() -> None:
    assert compile_text(TREE, withCache=False).reads == {
        "db": {("metadata", "name")},
        "web": {("status", "phase"), ("status", "readyReplicas")},
        "svc": {("spec", "clusterIP"), ("metadata", "name"), ("status", "loadBalancer", "ingress")},
    }


def test_what_a_blueprint_says_of_a_resource() -> None:
    resources = compile_text(TREE).resources
    assert (resources["svc"].api_version, resources["svc"].kind) == ("v1", "Service")
    assert [resources[name].is_name_pinned for name in ("svc", "db")] == [True, False]
    assert [resources[name].is_constant for name in ("svc", "db")] == [False, True]
    assert resources["svc"].path == "spec.template.resources.svc"


def test_tests_of_readiness() -> None:
    """True, false, or waiting; `readyWhen` may read the resource itself."""
    ready, linked = compile_text(TREE).resources["web"].ready_when
    assert ready.evaluate({"web": {"status": {"readyReplicas": 1}}}) == Known(True)
    assert ready.evaluate({"web": {"status": {"readyReplicas": 0}}}) == Known(False)
    assert ready.evaluate({"web": {}}) == Pending(missing=("web.status.readyReplicas",))
    assert linked.evaluate({"svc": {}}) == Known(False)


def test_a_test_that_is_no_truth_is_broken() -> None:
    text = config("{}").replace("  config:\n", "  config:\n    readyWhen: [config.a]\n")
    test = compile_text(text).resources["config"].ready_when[0]
    outcome = test.evaluate({"config": {"a": 1}})
    assert isinstance(outcome, EvaluationError)
    assert outcome.path == "spec.template.resources.config.readyWhen[0]"
    assert outcome.message == "must give true or false, `config.a` gives the number 1; add a comparison"


@pytest.mark.parametrize("test", ["params.count > 1", "true", "gone.?a.orValue(1) == 1"])
def test_a_constant_test(test: str) -> None:
    text = config("{}").replace("  config:\n", f"  config:\n    readyWhen: ['{test}']\n")
    assert compile_text(text).resources["config"].ready_when[0].evaluate({}) == Known(True)


def test_a_manifest_waits_for_all_that_is_missing() -> None:
    blueprint = compile_text(config("{x: '${other.a.b}', y: '${other.a.b} ${other.c}', z: '${gone.?a}'}"))
    manifest = blueprint.resources["config"].manifest
    assert manifest.evaluate({"other": {}}) == Pending(missing=("other.a.b", "other.c"))
    assert manifest.evaluate({}) == Pending(missing=("other.a.b", "other.c"))


def test_a_broken_expression_is_reported_with_its_place() -> None:
    manifest = compile_text(config("{x: '${other.c}', y: ['${1 / other.a}']}")).resources["config"].manifest
    outcome = manifest.evaluate({"other": {"a": 0}})
    assert isinstance(outcome, EvaluationError)
    assert outcome.path == "spec.template.resources.config.manifest.data.y[0]"


def test_evaluations_are_fresh() -> None:
    manifest = compile_text(config("{x: [1]}")).resources["config"].manifest
    first = manifest.evaluate({})
    assert isinstance(first, Known)
    first.value["data"]["x"].append(2)
    second = manifest.evaluate({})
    assert isinstance(second, Known)
    assert second.value["data"]["x"] == [1]


def test_the_definition_is_not_changed() -> None:
    template = yaml.safe_load(config("{x: '${params.count}', y: null, l: ['${null}', '${params.free}']}"))
    before = yaml.safe_dump(template)
    compiler.compile_template(Definition(template=template, parameters={}), stack=STACK, kinds=KINDS)
    assert yaml.safe_dump(template) == before


def test_outputs() -> None:
    outputs = compile_text(
        config(
            "{}",
            "outputs: {a: {value: 3}, b: {value: '${other.x}'}, c: {value: [1, '${other.?y}']}, d: {value: '${other.?y}'}}",
        )
    ).outputs
    values = {"other": {"x": 1}}
    assert {name: output.evaluate(values) for name, output in outputs.items()} == {
        "a": Known(3),
        "b": Known(1),
        "c": Known([1]),
        "d": Known(None),
    }
    assert outputs["b"].evaluate({"other": {}}) == Pending(missing=("other.x",))
    assert list(compile_text(TREE).outputs) == ["url"]
    assert list(compile_text(TREE, withCache=False).outputs) == ["url", "hosts"]


def test_the_kind_may_depend_on_parameters() -> None:
    template = """
parameters: {group: {type: string, default: apps}, kind: {type: string, default: Deployment}}
resources: {web: {manifest: {apiVersion: "${params.group}/v1", kind: "${params.kind}", spec: {replicas: 1}}}}
"""
    web = compile_text(template).resources["web"]
    assert (web.api_version, web.kind) == ("apps/v1", "Deployment")
    definition = Definition(template=yaml.safe_load(template), parameters={"group": "x.dev"})
    assert template_kinds.find_kinds(definition) == (("x.dev/v1", "Deployment"),)


def test_the_template_of_an_inner_stack_is_left_alone() -> None:
    manifest = (
        compile_text(
            """
parameters: {name: {type: string, default: anna}}
resources:
  inner:
    manifest:
      apiVersion: hearth.dev/v1alpha1
      kind: Stack
      spec:
        parameters: {name: "${params.name}"}
        template: {resources: {a: {manifest: {x: "${params.zz}", y: "$${", z: null, "${k}": 1}}}}
""".replace('parameters: {name: "${params.name}"}', "paused: \"${params.name == 'x'}\"")
        )
        .resources["inner"]
        .manifest
    )
    assert manifest.evaluate({}) == Known(
        {
            "apiVersion": "hearth.dev/v1alpha1",
            "kind": "Stack",
            "spec": {
                "paused": False,
                "template": {"resources": {"a": {"manifest": {"x": "${params.zz}", "y": "$${", "z": None, "${k}": 1}}}},
            },
        }
    )


def test_a_kind_that_is_not_served_is_no_mistake() -> None:
    made = compile_text("resources: {a: {manifest: {apiVersion: no.dev/v1, kind: Such, spec: {any: 1}}}}")
    assert list(made.resources) == ["a"]


def test_conditions_may_use_one_another_in_any_order() -> None:
    blueprint = compile_text("""
conditions: {c: "conditions.b || conditions.a", b: "${conditions.a}", a: true}
resources: {x: {when: "${conditions.c}", manifest: {apiVersion: v1, kind: ConfigMap}}, y: {when: false, manifest: {apiVersion: v1, kind: ConfigMap}}}
""")
    assert list(blueprint.resources) == ["x"]


@pytest.mark.parametrize(
    "template",
    [
        None,
        [],
        "x",
        {"resources": 1},
        {"resources": {"a": 1, "b": {"manifest": 1}, "c": {}, 1: {"manifest": {}}}},
        {"parameters": 1, "resources": {"a": {"manifest": {"apiVersion": ["v1"], "kind": {}}}}},
        {"resources": {"a": {"manifest": {"apiVersion": "${", "kind": "X"}}}},
        {"resources": {"a": {"manifest": {"apiVersion": "${params.}", "kind": "${1}"}}}},
        {"resources": {"a": {"manifest": {"apiVersion": "${other.x}", "kind": "${params.x}"}}}},
    ],
)
def test_kinds_of_anything(template: Any) -> None:
    assert template_kinds.find_kinds(Definition(template=template, parameters=None)) == ()  # type: ignore[arg-type]  # as a client may write it


def test_kinds_are_found_once() -> None:
    """In the order of the template, including kinds that only defaults and given parameters produce."""
    definition = Definition(
        template={
            "parameters": {"v": {"default": "v1"}},
            "resources": {
                "a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}},
                "b": {"manifest": {"apiVersion": "${params.v}", "kind": "ConfigMap"}},
                "c": {"manifest": {"apiVersion": "apps/${params.v}", "kind": "${params.k}"}},
            },
        },
        parameters={"k": "Deployment"},
    )
    assert template_kinds.find_kinds(definition) == (("v1", "ConfigMap"), ("apps/v1", "Deployment"))


def test_fields_are_named_as_the_object_has_them() -> None:
    blueprint = compile_text("""
resources:
  s:
    ignoreFields: [stringData.a, data.b]
    updatePolicy: {replaceOn: [stringData], replace: DeleteFirst}
    manifest: {apiVersion: v1, kind: Secret, stringData: {a: x, b: y}}
""")
    assert blueprint.resources["s"].ignore_fields == (("data", "a"), ("data", "b"))
    assert blueprint.resources["s"].replace_on == (("data",),)


class AtomicKinds(TypedKinds):
    """A Deployment with an atomic map, and a map with an owner per key."""

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """The schema of any kind."""
        texts = {"type": "object", "additionalProperties": {"type": "string"}}
        whole, open_ = {**texts, "x-kubernetes-map-type": "atomic"}, {**texts, "x-kubernetes-map-type": "granular"}
        items = {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object"}}
        spec = {"type": "object", "properties": {"whole": whole, "open": open_, "items": items}}
        return {"type": "object", "properties": {"spec": spec}}


def test_a_part_of_a_field_with_one_owner_is_all_of_it() -> None:
    template = yaml.safe_load("""
resources:
  a:
    ignoreFields: [spec.whole.one, spec.open.one, spec.whole, 'spec.items[name=x].y']
    manifest:
      apiVersion: apps/v1
      kind: Deployment
      spec: {whole: {one: a, two: b}, open: {one: a, two: b}, items: [{name: x, y: z}]}
""")
    blueprint = compiler.compile_template(
        Definition(template=template, parameters={}), stack=STACK, kinds=AtomicKinds()
    )
    fields = ("spec", "whole"), ("spec", "open", "one"), ("spec", "whole"), ("spec", "items")
    assert blueprint.resources["a"].ignore_fields == fields
