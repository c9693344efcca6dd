"""The applied object: its name, labels and hashes let a restarted controller recognize it."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import pytest

from hearth.model import names
from hearth.model.kinds import Kind
from hearth.plan.state import desired
from hearth.plan.state.desired import ChildOwner, DesiredObject, DesiredResource
from hearth.template.blueprint import Blueprint, Definition
from hearth.template.compiler import compiler
from support.units import blueprints
from support.units.blueprints import CONFIG_MAP, HASHER, STACK

RESOURCES = 200
MOST_AT_REST = 1024
"""Bytes."""

ROLE = Kind(
    group="rbac.authorization.k8s.io", version="v1", name="ClusterRole", plural="clusterroles", namespaced=False
)


def want(manifest: dict[str, Any], *, kind: Kind = CONFIG_MAP) -> DesiredResource:
    """The desired state of the resource `webConfig`, which requires `db`."""
    whose = ChildOwner(stack=STACK, resource="webConfig", requires=("db/2",), hashes=HASHER)
    return desired.make_desired(manifest, kind=kind, hash_=HASHER.hash(manifest), owner=whose)


def complete(manifest: dict[str, Any], *, kind: Kind = CONFIG_MAP, incarnation: int = 1) -> DesiredObject:
    """One incarnation of the resource."""
    return want(manifest, kind=kind).at(incarnation)


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({}, ("default", "shop-web-config")),
        ({"metadata": {"name": "fixed"}}, ("default", "fixed")),
        ({"metadata": {"namespace": "other"}}, ("other", f"shop-web-config-{names.digest('default')}")),
    ],
    ids=["nothing stated", "a pinned name", "elsewhere: two Stacks of one name must not meet"],
)
def test_a_child_is_named_after_stack_and_resource(manifest: dict[str, Any], expected: tuple[str, str]) -> None:
    ref = complete(manifest).ref
    assert (ref.namespace, ref.name) == expected


def test_a_child_of_cluster_scope_has_no_namespace() -> None:
    wanted = complete({}, kind=ROLE)
    assert (wanted.ref.namespace, wanted.ref.name) == ("", f"shop-web-config-{names.digest('default')}")
    assert "namespace" not in wanted.manifest["metadata"]


def test_the_next_incarnation_has_another_name() -> None:
    assert complete({}, incarnation=2).ref.name != complete({}).ref.name


def test_the_users_own_labels_stay() -> None:
    labels = {"app": "x", names.LABEL_RESOURCE: "lie"}
    found = complete({"metadata": {"labels": labels}}).manifest["metadata"]["labels"]
    assert (found["app"], found[names.LABEL_RESOURCE]) == ("x", "webConfig")


def test_the_hash_tells_the_definition_and_nothing_of_ours() -> None:
    plain: dict[str, Any] = {"data": {"a": "1"}}
    assert complete(plain).hash == complete(plain, incarnation=2).hash
    assert complete(plain).hash != complete({"data": {"a": "2"}}).hash


def test_the_manifest_of_the_user_stays_as_it_is() -> None:
    plain: dict[str, Any] = {"metadata": {"labels": {"app": "x"}}, "data": {}}
    before = copy.deepcopy(plain)
    wanted = want(plain)
    assert wanted.at(1).ref != wanted.at(2).ref
    assert wanted.manifest == before


def test_the_record_names_what_was_required() -> None:
    annotations = complete({}).manifest["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_REQUIRES] == "db/2"
    assert annotations[names.ANNOTATION_IDENTITY] == "stack-1//ConfigMap/default/shop-web-config"


def test_every_call_makes_another_manifest() -> None:
    wanted = want({"metadata": {"labels": {"app": "x"}}})
    wanted.at(1).manifest["metadata"]["labels"].clear()
    wanted.manifest["metadata"]["labels"].clear()
    assert wanted.at(1).manifest["metadata"]["labels"]["app"] == "x"


def test_what_a_resource_takes_at_rest() -> None:
    data = {f"key{number}": "x" * 16 for number in range(8)}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
    resources = {f"settings{number}": {"manifest": manifest} for number in range(RESOURCES)}
    definition = Definition(template={"resources": resources}, parameters={})
    blueprint = compiler.compile_template(definition, stack=STACK, kinds=blueprints.ServedKinds(CONFIG_MAP))
    world = blueprints.World()
    world.settle(blueprints.make_planner(blueprint))
    # A shared table that grows at times does not count as its own memory.
    taken = min(measure_planner(world, blueprint) for _ in range(3))
    assert taken < MOST_AT_REST


def measure_planner(world: blueprints.World, blueprint: Blueprint) -> float:
    """Bytes per resource of a planner that has seen everything."""
    tracemalloc.start()
    try:
        planner = blueprints.make_planner(blueprint)
        world.refresh(planner)
        taken = tracemalloc.get_traced_memory()[0] / RESOURCES
    finally:
        tracemalloc.stop()
    assert planner.is_complete
    return taken
