"""External objects in a template: the allowed fields, and their form in the blueprint."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml

from hearth.model import chunked_work
from hearth.model.label_selectors import LabelRequirement, LabelSelector, Operator
from hearth.template.blueprint import Blueprint, Definition, ReadValue, SharingScope
from hearth.template.compiler import compiler
from support.units.templates.collection_templates import (
    GIVEN,
    KINDS,
    RESOURCES,
    STACK,
    compile_text,
    config,
    find_mistakes,
)

SERVICE = "{apiVersion: v1, kind: Service, metadata: {name: gateway, namespace: ingress}}"


def write(reference: str, more: str = "", reader: str = config()) -> str:
    """A template with that reference and further fields, and a resource that may read it."""
    return f"""
parameters:
  zones: {{}}
  secret: {{type: array, sensitive: true}}
  secrets: {{type: object, sensitive: true}}
  name: {{type: string, default: gateway}}
resources:
  gateway: {{externalRef: {reference}, {more}}}
  reader: {reader}
"""


def list_by(selector: str, more: str = "") -> str:
    return f"{{apiVersion: v1, kind: Service, metadata: {{selector: {selector}, {more}}}}}"


@pytest.mark.parametrize(
    ("template", "path", "message"),
    [
        pytest.param(write(SERVICE, "dependsOn: [reader]"), "gateway.dependsOn", "for objects that the Stack writes", id="dependsOn"),
        pytest.param(write(SERVICE, "updatePolicy: {}"), "gateway.updatePolicy", "for objects that the Stack writes", id="updatePolicy"),
        pytest.param(write(SERVICE, "failedWhen: ['true']"), "gateway.failedWhen", "for objects that the Stack writes", id="failedWhen"),
        pytest.param(write(SERVICE, "manifest: {}"), "gateway", "has both manifest and externalRef", id="both"),
        pytest.param(write(SERVICE, "optional: 3"), "gateway.optional", "must be true or false", id="optional"),
        pytest.param(write(SERVICE, "optinal: true"), "gateway.optinal", "did you mean 'optional'", id="typo"),
        pytest.param(write("3"), "gateway.externalRef", "must be a map", id="no map"),
        pytest.param(write("{kind: Service, metadata: {name: a}}"), "gateway.externalRef.apiVersion", "is missing", id="no version"),
        pytest.param(write("{apiVersion: v1, kind: Service}"), "gateway.externalRef.metadata", "is missing", id="no metadata"),
        pytest.param(write("{apiVersion: v1, kind: Service, metadata: {}}"), "gateway.externalRef.metadata", "has neither name nor selector", id="no target"),
        pytest.param(write("{apiVersion: v1, kind: Service, metadata: {name: a, selector: {}}}"), "gateway.externalRef.metadata", "has both name and selector", id="two targets"),
        pytest.param(write("{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {}}"), "gateway.externalRef.spec", "is not known", id="spec"),
        pytest.param(write("{apiVersion: v1, kind: Service, metadata: {name: a/b}}"), "gateway.externalRef.metadata.name", "must not be . or ..", id="a path"),
        pytest.param(write("{apiVersion: v1, kind: Service, metadata: {name: a, namespace: A}}"), "gateway.externalRef.metadata.namespace", "lower-case", id="namespace"),
        pytest.param(write("{apiVersion: v1, kind: Service, metadata: {name: a, allNamespaces: true}}"), "gateway.externalRef.metadata.allNamespaces", "is for a list", id="all of one"),
        pytest.param(write(list_by("{}", "namespace: a, allNamespaces: true")), "gateway.externalRef.metadata.allNamespaces", "are mutually exclusive", id="all and one"),
        pytest.param(write(list_by("{matchLabels: {a: 3}}")), "gateway.externalRef.metadata.selector.matchLabels[a]", "put numbers in quotes", id="a number"),
        pytest.param(write(list_by("{matchLabels: {'a b': c}}")), "gateway.externalRef.metadata.selector.matchLabels", "not a label", id="a key"),
        pytest.param(write(list_by("{matchLabel: {a: c}}")), "gateway.externalRef.metadata.selector.matchLabel", "is not known", id="a word"),
        pytest.param(write(list_by("{matchExpressions: [{key: a, operator: Is}]}")), "gateway.externalRef.metadata.selector.matchExpressions[0].operator", "must be one of In", id="an operator"),
        pytest.param(write(list_by("{matchExpressions: [{key: a, operator: In}]}")), "gateway.externalRef.metadata.selector.matchExpressions[0].values", "needs a list", id="no values"),
        pytest.param(write(list_by("{matchExpressions: [{key: a, operator: Exists, values: [b]}]}")), "gateway.externalRef.metadata.selector.matchExpressions[0].values", "has no values", id="values"),
        pytest.param(write("{apiVersion: v1, kind: Service, metadata: {name: '${params.secret[0]}'}}"), "gateway.externalRef.metadata.name", "the sensitive parameter 'secret'", id="sensitive"),
        pytest.param(write("{apiVersion: v1, kind: Service, metadata: {name: '${reader.metadata.name}'}}"), "gateway.externalRef.metadata.name", "only params, conditions, values and stack", id="a resource"),
        pytest.param(write("{apiVersion: v1, kind: Event, metadata: {name: a}}"), "gateway.externalRef.kind", "deletes it within hours", id="an Event"),
        pytest.param(write("{apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: b}}"), "gateway.externalRef.metadata.namespace", "is cluster-scoped", id="scope"),
        pytest.param(write(SERVICE, "readyWhen: ['reader.data.a == \"b\"']"), "gateway.readyWhen[0]", "only that object", id="a rule about another"),
        pytest.param(write(SERVICE, "readyWhen: ['gateway.spec.clusterIp == \"\"']"), "gateway.readyWhen[0]", "there is no field 'clusterIp'", id="a field of a rule"),
        pytest.param(write(SERVICE, reader=config("{a: '${gateway.spec.clusterIp}'}")), "reader.manifest.data.a", "there is no field 'clusterIp'", id="a field"),
        pytest.param(write(list_by("{}"), reader=config("{a: '${gateway.spec.clusterIP}'}")), "reader.manifest.data.a", "'gateway' is a list of objects", id="a list as an object"),
        pytest.param(write(SERVICE, reader=config("{a: b}", "dependsOn: [gatewy]")), "reader.dependsOn[0]", "did you mean 'gateway'", id="dependsOn of another"),
    ],
)  # fmt: skip
def test_mistakes_name_their_field(template: str, path: str, message: str) -> None:
    found = find_mistakes(template)
    assert [each[0] for each in found] == [f"{RESOURCES}.{path}"], found
    assert message in found[0][1]


def test_optional_is_for_what_is_read() -> None:
    found = find_mistakes(write(SERVICE, reader=config("{}", "optional: true")))
    assert [path for path, _ in found] == [f"{RESOURCES}.reader.optional"]


def own(reader: str, name: str = "shop-reader", more: str = "") -> str:
    return write(f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}", more, reader)


READ = "{a: '${gateway.metadata.name}'}"
EACH = "forEach: params.zones, key: item.name"


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(own(config(READ)), id="a generated name"),
        pytest.param(own(config(READ), "'${stack.name}-reader'"), id="a computed name"),
        pytest.param(own(config("{}", "dependsOn: [other]") + f"\n  other: {config(READ)}"), id="through another one"),
        pytest.param(own(config("{}", "dependsOn: [all]") + f"\n  all: {config(READ, EACH)}"), id="members"),
    ],
)
def test_an_object_whose_resource_waits_for_the_reference_is_refused(template: str) -> None:
    (found,) = find_mistakes(template)
    assert found[0] == f"{RESOURCES}.gateway.externalRef.metadata.name"
    assert found[1].startswith("names configmap/shop-reader, which the resource 'reader' creates only after")


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(own(config(READ), more="optional: true"), id="optional"),
        pytest.param(own(config(READ), "elsewhere"), id="another name"),
        pytest.param(own(config(READ), "shop-reader, namespace: elsewhere"), id="another namespace"),
        pytest.param(own(config("{}") + f"\n  other: {config(READ)}"), id="a resource that does not wait"),
    ],
)
def test_other_references_to_objects_of_the_stack_are_accepted(template: str) -> None:
    assert find_mistakes(template) == []


@pytest.mark.parametrize(("name", "scope"), [("platform", SharingScope.ANY), ("other-reader", SharingScope.ONE)])
def test_a_blueprint_is_shared_unless_the_reference_may_have_a_generated_name(name: str, scope: SharingScope) -> None:
    assert compile_text(own(config(READ), name)).scope is scope


def test_all_mistakes_at_once() -> None:
    template = write(
        "{apiVersion: v1, kind: Service, metadata: {name: a/b}}", "key: x", config("{a: '${gateway.spec.x}'}")
    )
    assert [path.removeprefix(f"{RESOURCES}.") for path, _ in find_mistakes(template)] == [
        "gateway.key",
        "reader.manifest.data.a",
        "gateway.externalRef.metadata.name",
    ]


def test_an_object() -> None:
    reference = "{apiVersion: v1, kind: Service, metadata: {name: '${params.name}-x', namespace: ingress}}"
    made = compile_text(write(reference, "optional: true", config("{a: '${gateway.spec.clusterIP}'}")))
    found = made.externals["gateway"]
    assert (found.object_name, found.namespace, found.selector, found.is_optional) == (
        "gateway-x",
        "ingress",
        None,
        True,
    )
    assert found.dependents == ("reader",)
    assert list(made.resources) == ["reader"]
    assert (made.resources["reader"].externals, made.resources["reader"].requires) == (("gateway",), ())
    assert made.reads["gateway"] == {("spec", "clusterIP")}
    assert made.find_kinds() == {"v1/ConfigMap"}


def test_a_list() -> None:
    reader = config("{a: '${gateway.map(each, each.spec.clusterIP).join(\",\")}', b: '${string(size(gateway))}'}")
    made = compile_text(
        write(list_by("{matchLabels: {b: c}, matchExpressions: [{key: a, operator: Exists}]}"), reader=reader)
    )
    assert made.externals["gateway"].selector == LabelSelector(
        (
            LabelRequirement(key="a", operator=Operator.EXISTS),
            LabelRequirement(key="b", operator=Operator.IN, values=("c",)),
        )
    )
    assert made.resources["reader"].externals == ("gateway",)


def test_one_that_is_only_required() -> None:
    made = compile_text(write(SERVICE, reader=config("{}", "dependsOn: [gateway]")))
    assert made.resources["reader"].externals == ("gateway",)


def test_one_that_is_disabled() -> None:
    reader = config("{a: \"${gateway.?spec.?clusterIP.orValue('none')}\"}")
    made = compile_text(write(SERVICE, "when: 'false'", reader))
    assert not made.externals
    assert made.resources["reader"].is_constant


def test_members_that_read_one() -> None:
    reader = "{forEach: params.zones, key: item.name, manifest: {apiVersion: v1, kind: ConfigMap, data: {a: '${gateway.spec.clusterIP}'}}}"
    made = compile_text(write(SERVICE, reader=reader))
    assert made.externals["gateway"].dependents == ("reader[b]", "reader[a]")


def test_secrets_are_sensitive() -> None:
    template = (
        write("{apiVersion: v1, kind: Secret, metadata: {name: password}}")
        + "outputs: {a: {value: '${gateway.data.key}'}}"
    )
    outcome = compile_text(template).outputs["a"].evaluate({"gateway": {"data": {"key": "aGlkZGVu"}}})
    assert "aGlkZGVu" not in str(outcome)
    assert "(sensitive)" in repr(outcome.value if hasattr(outcome, "value") else outcome)


TEAMS = "{apiVersion: v1, kind: Service, metadata: {selector: {matchLabels: {role: team}}}}"


def make_teams(reader: str, for_each: str = "gateway", more: str = "", reference: str = TEAMS) -> str:
    """One ConfigMap for each of a list, with that data."""
    manifest = f"{{apiVersion: v1, kind: ConfigMap, data: {reader}}}"
    return write(reference, reader=f"{{forEach: '{for_each}', {more} manifest: {manifest}}}")


def compile_read(
    template: str, value: Any, *, identity: str | None = None, previous: Blueprint | None = None
) -> Blueprint:
    """The blueprint where the reference `gateway` has this value."""
    stated = yaml.safe_load(template)
    definition = Definition(template=stated, parameters=GIVEN if "parameters" in stated else {})
    if identity is None:
        first = compiler.compile_template(definition, stack=STACK, kinds=KINDS)
        identity = first.externals["gateway"].identity
    definition = dataclasses.replace(definition, read={"gateway": ReadValue(identity=identity, value=value)})
    return chunked_work.finish(compiler.compile_in_pieces(definition, stack=STACK, kinds=KINDS, previous=previous))


def team(name: str, address: str = "1", **metadata: str) -> dict[str, Any]:
    """A Service from the API server."""
    return {"metadata": {"name": name, **metadata}, "spec": {"clusterIP": address}}


def test_members_are_not_known_before_the_list_is_read() -> None:
    template = make_teams("{a: '${item.spec.clusterIP}', b: '${item.metadata.labels.x}'}")
    template += "  user: " + config("{a: '${string(size(reader))}'}")
    made = compile_text(template)
    assert (list(made.resources), made.unresolved, dict(made.collections)) == (["user"], frozenset({"reader"}), {})
    assert (made.externals["gateway"].makes_members, made.externals["gateway"].is_awaited) == (True, True)
    assert made.resources["user"].externals == ("gateway",)
    assert made.reads["gateway"] == {("spec", "clusterIP"), ("metadata", "labels", "x")}
    assert made.find_kinds() == {"v1/ConfigMap"}


def test_members_have_the_names_of_the_objects() -> None:
    long = "a" * 50
    template = make_teams("{a: '${item.spec.clusterIP}'}")
    made = compile_read(template, [team("blue"), team("with.dot"), team(long)])
    names_of = list(made.resources)
    assert names_of[0] == "reader[blue]"
    assert [name[:18] for name in names_of[1:]] == ["reader[with-dot-" + names_of[1][16:18], "reader[aaaaaaaaaaa"]
    assert all(len(name) <= len("reader[]") + 40 for name in names_of)
    assert (made.unresolved, made.externals["gateway"].is_awaited) == (frozenset(), False)
    everywhere = TEAMS.replace("role: team}}}", "role: team}}, allNamespaces: true}")
    made = compile_read(
        make_teams("{}", reference=everywhere), [team("x", namespace="a-b"), team("b-x", namespace="a")]
    )
    assert len(set(made.resources)) == 2
    assert all(name.startswith("reader[a-b-x-") for name in made.resources)


def test_the_value_of_another_reference_is_not_taken() -> None:
    made = compile_read(make_teams("{}"), [team("blue")], identity="v1/Service//x/")
    assert made.unresolved == {"reader"}


@pytest.mark.parametrize(
    ("for_each", "expected"),
    [
        pytest.param('gateway.filter(each, each.spec.clusterIP != "2")', ["reader[blue]"], id="some of a list"),
        pytest.param("gateway.map(each, each.spec.clusterIP)", ["reader[0]", "reader[1]"], id="values of a list"),
    ],
)
def test_expressions_on_a_list(for_each: str, expected: list[str]) -> None:
    assert list(compile_read(make_teams("{}", for_each), [team("blue"), team("red", "2")]).resources) == expected


def test_fields_of_an_object() -> None:
    reference = "{apiVersion: v1, kind: ConfigMap, metadata: {name: regions}}"
    template = make_teams("{a: '${key} ${item}'}", "gateway.data", reference=reference)
    made = compile_read(template, {"metadata": {"name": "regions"}, "data": {"west": "2", "east": "1"}})
    assert list(made.resources) == ["reader[east]", "reader[west]"]
    assert made.reads["gateway"] == {("data",)}


def test_how_many_may_go() -> None:
    """At most half of the members may be removed if others determine the list, any number if parameters do."""
    value = [team("blue")]
    assert compile_read(make_teams("{}"), value).collections["reader"].max_removed == "50%"
    stated = make_teams("{}", more="updatePolicy: {maxRemoved: 3},")
    assert compile_read(stated, value).collections["reader"].max_removed == 3
    own = write(SERVICE, reader=config("{}", "forEach: params.zones, key: item.name"))
    assert compile_text(own).collections["reader"].max_removed is None
    wrong = write(SERVICE, reader=config("{}", "forEach: params.zones, key: item.name, updatePolicy: {maxRemoved: 0%}"))
    assert [path for path, _ in find_mistakes(wrong)] == [f"{RESOURCES}.reader.updatePolicy.maxRemoved"]


def test_one_more_of_many_changes_no_other_member() -> None:
    manifest = "{apiVersion: v1, kind: ConfigMap, data: {a: '${item.spec.clusterIP}', b: '${key}'}}"
    template = f"resources: {{gateway: {{externalRef: {TEAMS}}}, reader: {{forEach: gateway, manifest: {manifest}}}}}"
    many = [team(f"t{number:04}", "1" * 20) for number in range(100)]
    before = compile_read(template, many)
    more = [*many[:50], team("t0049-a", "2"), *many[50:]]
    after = compile_read(template, more, previous=before)
    assert after == compile_read(template, more)
    assert all(each.content is after.resources[name].content for name, each in before.resources.items())
    assert len(after.resources) == 101
