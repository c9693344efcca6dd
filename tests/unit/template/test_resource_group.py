"""A group in the form of a Stack: the same mistakes, all at once, with the paths that its author wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hearth.model import members
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template import resource_group
from hearth.template.blueprint import Blueprint, Definition, StackIdentity
from hearth.template.compiler import compiler
from support.units.templates.typed_kinds import TypedKinds

GROUP = StackIdentity(name="workers", namespace="default", uid="group-1")
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


def read(spec: dict[str, Any], *, surge: int = 0) -> Blueprint:
    """The blueprint of a group."""
    stated = resource_group.make_spec(spec)
    size = members.make_size(stated[resource_group.SIZE], known=())
    definition = Definition(template=stated["template"], parameters=stated["parameters"], size=size, surge=surge)
    return compiler.compile_template(definition, stack=GROUP, kinds=TypedKinds())


def find_mistakes(spec: dict[str, Any]) -> Sequence[Mistake]:
    """All mistakes of a group, as its status reports them."""
    stated = resource_group.make_spec(spec)
    size = members.make_size(stated[resource_group.SIZE], known=())
    others = list(resource_group.find_mistakes(stated["template"], size, timeout=spec.get("timeout")))
    try:
        read(spec)
    except InvalidDefinition as error:
        return resource_group.translate(error, others).mistakes
    return others


def test_members_are_named_by_their_index() -> None:
    manifest = {**CONFIG, "data": {"number": "${string(index + 1)}", "text": "${key}", "size": "${params.size}"}}
    blueprint = read({"replicas": 2, "template": {"manifest": manifest}, "parameters": {"size": "small"}})

    assert list(blueprint.resources) == ["0", "1"]
    outcome: Any = blueprint.resources["1"].manifest.evaluate({})
    assert outcome.value["data"] == {"number": "2", "text": "1", "size": "small"}


@pytest.mark.parametrize("value", ["", False, 0, [], {}])
def test_falsy_parameters_reach_the_members_unchanged(value: Any) -> None:
    manifest = {"apiVersion": "testing.hearth.dev/v1", "kind": "Free", "spec": {"value": "${params.value}"}}
    blueprint = read({"replicas": 1, "template": {"manifest": manifest}, "parameters": {"value": value}})

    outcome: Any = blueprint.resources["0"].manifest.evaluate({})
    assert outcome.value["spec"]["value"] == value
    assert type(outcome.value["spec"]["value"]) is type(value)


def test_removed_indices_are_left_out_and_a_surge_adds_the_next() -> None:
    spec = {"replicas": 2, "removalPolicies": [{"resources": ["1"]}], "template": {"manifest": CONFIG}}
    assert list(read(spec).resources) == ["0", "2"]
    assert list(read(spec, surge=1).resources) == ["0", "2", "3"]


def test_a_share_and_the_growth_follow_from_the_size() -> None:
    rolling = {"maxBatchSize": "50%", "minInService": 3, "pauseTime": "1m"}
    spec = {"replicas": 4, "rollingUpdate": rolling, "template": {"manifest": CONFIG}}
    policy = read(spec, surge=1).rolling["member"]
    assert (policy.max_batch, policy.min_ready, policy.pause, policy.surge) == (2, 3, 60.0, 1)
    assert policy.members == ("0", "1", "2", "3", "4")


def test_all_mistakes_are_found_at_once_with_the_authors_paths() -> None:
    spec = {
        "replicas": 2,
        "template": {
            "manifest": {**CONFIG, "metadata": {"name": "same"}, "data": {"a": "${params.missing}"}},
            "readyWhen": ["members.data.a == 'x'"],
        },
        "parameters": {"Bad": 1},
        "rollingUpdate": {"maxBatchSize": 0, "minInService": -1, "pauseTime": "9h"},
    }
    found = {each.path for each in find_mistakes(spec)}
    assert {
        "spec.template.manifest.metadata.name",
        "spec.template.manifest.data.a",
        "spec.template.readyWhen[0]",
        "spec.parameters.Bad",
        "spec.rollingUpdate.maxBatchSize",
        "spec.rollingUpdate.minInService",
        "spec.rollingUpdate.pauseTime",
    } == found


@pytest.mark.parametrize("name", ["w-${index}", "w-${key}", "${stack.name}-x-${string(index)}"])
def test_a_stated_name_with_the_index_is_none(name: str) -> None:
    assert find_mistakes({"replicas": 2, "template": {"manifest": {**CONFIG, "metadata": {"name": name}}}}) == []


@pytest.mark.parametrize(
    "name", ["index", "w-${params.which.index}", "w-${stack.name + '-index'}", "${params.indexes}"]
)
def test_a_name_that_only_looks_like_one_with_the_index_is_a_mistake(name: str) -> None:
    spec = {"replicas": 1, "template": {"manifest": {**CONFIG, "metadata": {"name": name}}}}
    found = find_mistakes({**spec, "parameters": {"which": {"index": "1"}, "indexes": "a"}})
    assert [each.path for each in found] == ["spec.template.manifest.metadata.name"]


@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_one_name_for_all_members_is_a_mistake_at_any_size(replicas: int) -> None:
    spec = {"replicas": replicas, "template": {"manifest": {**CONFIG, "metadata": {"name": "w-${stack.name}"}}}}
    assert [each.path for each in find_mistakes(spec)] == ["spec.template.manifest.metadata.name"]


def test_pauses_must_fit_into_the_timeout() -> None:
    spec = {"replicas": 4, "rollingUpdate": {"pauseTime": "1m"}, "template": {"manifest": CONFIG}}
    assert find_mistakes({**spec, "timeout": "4m"}) == []
    (mistake,) = find_mistakes({**spec, "timeout": "3m"})
    assert mistake.path == "spec.rollingUpdate.pauseTime"


@pytest.mark.parametrize("spec", [None, [], {"template": []}, {"template": {"manifest": []}}, {"parameters": []}, {}])
def test_anything_can_be_translated(spec: Any) -> None:
    stated = resource_group.make_spec(spec)
    if stated:
        size = members.make_size(stated[resource_group.SIZE], known=())
        assert list(resource_group.find_mistakes(stated["template"], size, timeout=7)) == []
        with pytest.raises(InvalidDefinition):
            read(spec)
