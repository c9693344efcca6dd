"""The reaction to fields that other managers took over: by policy, by field, by kind of write, and while no step may
start.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from hearth.model import child as children
from hearth.model import field_paths, names, packing
from hearth.model.child import Child, FieldOwnership, Object
from hearth.plan.ownership import field_ownership
from hearth.plan.resource import drift, reverted_values
from hearth.plan.retry.backoff import DriftConflict
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ManagerQuery, ResourceState
from hearth.plan.state.steps import Apply
from hearth.plan.status import check_result
from hearth.template.blueprint import Blueprint, DriftPolicy, Evaluable
from support.units import blueprints, changed_children
from support.units.blueprints import Constant, Reading, World

MANIFEST: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2"}, "spec": {"replicas": 2}}
OURS: Object = {"f:data": {"f:a": {}, "f:b": {}}, "f:spec": {"f:replicas": {}}}
THEIRS = {"manager": "keda", "operation": "Update"}


def make_blueprint(manifest: Object = MANIFEST, **options: Any) -> Blueprint:
    """One resource with this drift policy."""
    blueprint = blueprints.make_blueprint({"a": []}, manifests={"a": Constant(manifest)})
    return dataclasses.replace(blueprint, resources={"a": dataclasses.replace(blueprint.resources["a"], **options)})


def tamper(world: World, *taken: str, subresource: str = "", gone: bool = False) -> Child:
    """Let another client take fields of the child: `data.a`."""
    [before] = world.of("a")
    assert before.ownership is not None
    world.count += 1
    ours = {**orjson.loads(before.ownership.fields), **OURS}
    theirs: Object = {}
    for path in taken:
        top, key = path.split(".")
        ours[f"f:{top}"] = {name: {} for name in ours[f"f:{top}"] if name != f"f:{key}"}
        theirs.setdefault(f"f:{top}", {})[f"f:{key}"] = {}
    mine = {"manager": blueprints.MANAGER, "operation": "Apply", "fieldsV1": ours}
    other = {**THEIRS, "fieldsV1": theirs, **({"subresource": subresource} if subresource else {})}
    raw = {
        **before.fields,
        "metadata": {**before.fields["metadata"], "managedFields": [mine, *([] if gone else [other])]},
    }
    child = dataclasses.replace(before, ownership=children.find_ownership(raw), resource_version=world.count)
    world.children["a"] = [child]
    return child


def settled(blueprint: Blueprint) -> tuple[World, StackPlanner]:
    """A world that contains the object, with all fields owned by us."""
    world, planner = World(), blueprints.make_planner(blueprint)
    world.settle(planner)
    tamper(world)
    assert world.refresh(planner) == []
    return world, planner


def change(world: World, manifest: Object, **options: Any) -> tuple[StackPlanner, Apply]:
    """The apply of another definition in the same world."""
    planner = blueprints.make_planner(make_blueprint(manifest, **options))
    assert world.refresh(planner) == ["a"]
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    return planner, step


def texts(step: Apply) -> list[str]:
    """The fields that an apply leaves to others."""
    return [lost.text for lost in step.tolerated]


def test_repair_takes_all_of_it_back() -> None:
    world, planner = settled(make_blueprint())
    tamper(world, "data.a")
    assert world.refresh(planner, "a") == ["a"]
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    assert (step.repaired_fields, step.tolerated, step.sent_manifest) == ("data.a", (), step.manifest)


@pytest.mark.parametrize("policy", [DriftPolicy.REPORT, DriftPolicy.IGNORE])
def test_what_is_left_is_not_written(policy: DriftPolicy) -> None:
    world, planner = settled(make_blueprint(drift_policy=policy))
    tamper(world, "data.a")
    assert world.refresh(planner, "a") == []
    assert planner.is_ready
    said = [condition.type for condition in planner.statuses["a"].conditions]
    assert said == (["Drifted"] if policy is DriftPolicy.REPORT else [])
    world.memory = World().memory
    again = blueprints.make_planner(make_blueprint(drift_policy=policy))
    assert (world.refresh(again), [condition.type for condition in again.statuses["a"].conditions]) == ([], said)


def test_an_apply_for_another_reason_leaves_it_out() -> None:
    world, _ = settled(make_blueprint(drift_policy=DriftPolicy.IGNORE))
    tamper(world, "data.a")
    options = {"drift_policy": DriftPolicy.IGNORE}
    _, step = change(world, {**MANIFEST, "data": {"a": "1", "b": "3", "c": "4"}}, **options)
    assert (texts(step), step.sent_manifest["data"]) == (["data.a"], {"b": "3", "c": "4"})
    _, step = change(world, {**MANIFEST, "data": {"a": "9", "b": "2"}}, **options)
    assert (texts(step), step.sent_manifest["data"]) == ([], {"a": "9", "b": "2"})


def test_what_only_we_own_is_never_left_out() -> None:
    world, _ = settled(make_blueprint(ignore_fields=(("data", "a"),)))
    _, step = change(world, {**MANIFEST, "data": {"a": "1", "b": "3"}}, ignore_fields=(("data", "a"),))
    assert (texts(step), step.sent_manifest["data"]) == ([], {"a": "1", "b": "3"})


def test_naming_a_field_afterwards_leaves_it_as_it_is() -> None:
    world, planner = settled(make_blueprint())
    world.memory.drift_conflicts["a"] = DriftConflict(repairs=1, next_repair=99.0, expires_at=999.0, fields="data.a")
    tamper(world, "data.a")
    assert world.refresh(planner, "a") == []
    planner, step = change(world, MANIFEST, ignore_fields=(("data", "a"),))
    assert (texts(step), step.repaired_fields) == (["data.a"], "")
    assert step.manifest["metadata"]["annotations"]["hearth.dev/last-applied-fields"]


def test_another_key_of_hashes_changes_nothing() -> None:
    world, _ = settled(make_blueprint(drift_policy=DriftPolicy.IGNORE))
    child = tamper(world, "data.a")
    metadata = child.fields["metadata"]
    annotations = {**metadata["annotations"], "hearth.dev/last-applied-fields": "k00000000:" + "0" * 32}
    spoilt = {**child.fields, "metadata": {**metadata, "annotations": annotations}}
    world.children["a"] = [changed_children.with_fields(child, spoilt, hash="k00000000:" + "0" * 32)]
    _, step = change(world, MANIFEST, drift_policy=DriftPolicy.IGNORE)
    assert texts(step) == ["data.a"]


@pytest.mark.parametrize("policy", list(DriftPolicy))
def test_a_scaled_replica_count_is_no_drift(policy: DriftPolicy) -> None:
    world, planner = settled(make_blueprint(drift_policy=policy))
    tamper(world, "spec.replicas", subresource="scale")
    assert (world.refresh(planner, "a"), planner.statuses["a"].conditions) == ([], ())
    _, step = change(world, {**MANIFEST, "data": {"a": "9", "b": "2"}}, drift_policy=policy)
    assert (texts(step), "spec" in step.sent_manifest) == (["spec.replicas"], False)
    _, step = change(world, {**MANIFEST, "spec": {"replicas": 3}}, drift_policy=policy)
    assert texts(step) == []
    tamper(world, "spec.replicas")
    assert (world.refresh(planner, "a") == ["a"]) is (policy is DriftPolicy.REPAIR)


@pytest.mark.parametrize("spec", [None, 5, "text", []], ids=repr)
def test_a_spec_without_fields_replaces_one_that_was_scaled(spec: object) -> None:
    world, _ = settled(make_blueprint())
    tamper(world, "spec.replicas", subresource="scale")
    _, step = change(world, {**MANIFEST, "spec": spec})
    assert texts(step) == []


def test_our_own_marks_are_repaired_under_every_policy() -> None:
    world, planner = settled(make_blueprint(drift_policy=DriftPolicy.IGNORE))
    [child] = world.of("a")
    bare = {"metadata": {**child.fields["metadata"], "managedFields": [{"manager": blueprints.MANAGER, "operation": "Apply", "fieldsV1": OURS}]}}  # fmt: skip
    world.children["a"] = [dataclasses.replace(child, ownership=children.find_ownership(bare))]
    assert world.refresh(planner, "a") == ["a"]
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    assert (texts(step), step.repaired_fields.startswith("metadata.labels[hearth.dev/")) == ([], True)


def test_a_record_of_another_writer_is_left_where_it_is() -> None:
    manifest = {key: value for key, value in MANIFEST.items() if key != "spec"}
    world, planner = settled(make_blueprint(manifest))
    [child] = world.of("a")
    record = {names.ANNOTATION_LAST_APPLIED: "k12345678:ab"}
    metadata = {**child.fields["metadata"], "annotations": {**child.fields["metadata"]["annotations"], **record}}
    world.children["a"] = [changed_children.with_fields(child, {**child.fields, "metadata": metadata})]
    assert world.refresh(planner, "a") == []
    assert child.ownership is not None
    fields = orjson.loads(child.ownership.fields)
    fields["f:metadata"]["f:annotations"][f"f:{names.ANNOTATION_LAST_APPLIED}"] = {}
    ours = dataclasses.replace(child.ownership, fields=orjson.dumps(fields))
    world.children["a"] = [dataclasses.replace(world.of("a")[0], ownership=ours)]
    assert world.refresh(planner, "a") == ["a"]


def test_ignored_fields_are_not_reported() -> None:
    world, planner = settled(make_blueprint(drift_policy=DriftPolicy.REPORT, ignore_fields=(("data", "a"),)))
    tamper(world, "data.a")
    assert (world.refresh(planner, "a"), planner.statuses["a"].conditions) == ([], ())


def test_a_contest_is_waited_out_as_its_object_is() -> None:
    world, planner = settled(make_blueprint())
    world.memory.drift_conflicts["a"] = DriftConflict(repairs=3, next_repair=4.0, expires_at=604.0, fields="data.a")
    child = tamper(world, "data.a")
    assert (world.refresh(planner, "a"), planner.requeues, planner.is_ready) == ([], {"a": 4.0}, True)
    assert [condition.type for condition in planner.statuses["a"].conditions] == ["DriftConflict"]
    assert world.memory.manager_queries["a"].child is child
    world.now = 4.0
    assert (world.refresh(planner, "a"), planner.statuses["a"].state) == (["a"], ResourceState.READY)
    tamper(world)
    assert (world.refresh(planner, "a"), planner.requeues) == ([], {"a": 604.0})
    world.now = 604.0
    world.refresh(planner, "a")
    assert (planner.statuses["a"].conditions, planner.requeues, world.memory.drift_conflicts) == ((), {}, {})


def test_the_holder_is_named() -> None:
    world, planner = settled(make_blueprint())
    world.memory.drift_conflicts["a"] = DriftConflict(repairs=3, next_repair=4.0, expires_at=604.0, fields="data.a")
    tamper(world, "data.a")
    world.refresh(planner, "a")
    question = world.memory.manager_queries["a"]
    ours = {"manager": blueprints.MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {"f:b": {}}}}
    other = {**THEIRS, "fieldsV1": {"f:data": {"f:a": {}}}}
    bystander = {**THEIRS, "manager": "else", "fieldsV1": {"f:data": {"f:c": {}}}}
    assert (
        reverted_values.describe_managers({"metadata": {"managedFields": [ours, bystander, other]}}, question)
        == "owned by 'keda'"
    )
    assert (
        reverted_values.describe_managers({"metadata": {"managedFields": [ours, bystander]}}, question)
        == "removed by another field manager"
    )


def test_the_holder_of_a_part_of_a_list_is_named() -> None:
    manifest = {"spec": {"containers": [{"name": "log"}, {"name": "web", "image": "a"}], "args": ["x"]}}
    place = ("spec", "containers", 1, "image")
    lost = field_ownership.LostField(path=place, text="image")
    [child] = settled(make_blueprint())[0].of("a")
    question = ManagerQuery(child=child, lost=(lost,), manifest=manifest)
    keyed: Object = {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}
    other: Object = {"f:spec": {"f:containers": {'k:{"name":"log"}': {".": {}, "f:image": {}}}}}
    whole: Object = {"f:spec": {"f:containers": {}}}
    assert [reverted_values.holds(each, place, question.manifest) for each in (keyed, other, whole)] == [
        True,
        False,
        True,
    ]
    assert field_paths.read(manifest, place) == "a"


NESTED: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {"a": {"one": 1}, "b": {"one": 1, "two": 2, "none": []}, "c": {"d": {"one": 1}}, "e": [{"one": 1}]},
}


@pytest.mark.parametrize(
    ("ignored", "owned", "tolerated", "repaired"),
    [
        ("spec.a.one", {"f:b": {"f:one": {}, "f:two": {}}}, ["spec.a.one"], ["spec.c", "spec.e"]),
        ("spec.b.one", {}, ["spec.b.one"], ["spec.a", "spec.b.two", "spec.c", "spec.e"]),
        ("spec.b.one", {"f:b": {"f:two": {}}}, ["spec.b.one"], ["spec.a", "spec.c", "spec.e"]),
        ("spec.c.d.one", {"f:c": {}, "f:a": {}}, [], ["spec.b", "spec.e"]),
        ("spec.c.d.one", {"f:a": {}, "f:b": {}}, ["spec.c.d.one"], ["spec.e"]),
        ("spec.c", {"f:a": {}, "f:b": {}}, ["spec.c"], ["spec.e"]),
        ("spec.c.d", {"f:a": {}, "f:b": {}}, ["spec.c.d"], ["spec.e"]),
    ],
    ids=[
        "the only field of its map",
        "a field of a map that is lost",
        "beside another one",
        "in a map that is owned as a whole",
        "two levels below",
        "the map itself",
        "the map between",
    ],
)
def test_a_field_left_to_others_is_found_in_a_lost_map(
    ignored: str, owned: Object, tolerated: list[str], repaired: list[str]
) -> None:
    pattern = field_paths.parse(ignored)
    assert pattern is not None
    blueprint = make_blueprint(NESTED, ignore_fields=(pattern,))
    world, planner = World(), blueprints.make_planner(blueprint)
    world.settle(planner)
    [before] = world.of("a")
    assert before.ownership is not None
    ours = {**orjson.loads(before.ownership.fields), "f:spec": owned or {"f:z": {}}}
    child = dataclasses.replace(
        before, ownership=dataclasses.replace(before.ownership, fields=orjson.dumps(ours)), resource_version=9
    )
    desired = planner.find_desired("a", child)
    assert desired is not None
    finding = drift.compare(child, desired)
    assert [lost.text for lost in finding.tolerated] == tolerated
    assert [lost.text for lost in finding.to_repair] == repaired


# ---------------------------------------------------------------- while no step may start

NOTHING_OWNED = FieldOwnership(fields=packing.pack({}))


def make_planner() -> StackPlanner:
    """A planner of `a`, and of `b`, which is evaluated from `a`."""
    made = Reading(
        make=lambda values: {"apiVersion": "v1", "kind": "ConfigMap", "data": (values["a"] or {})["data"]}, reads={}
    )
    manifests: dict[str, Evaluable] = {
        "a": Constant({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}}),
        "b": made,
    }
    return blueprints.make_planner(blueprints.make_blueprint({"a": [], "b": ["a"]}, manifests=manifests))


@pytest.fixture
def world() -> World:
    """A world where both exist, and a user has changed `a`."""
    made = World()
    made.settle(make_planner())
    child = made.of("a")[0]
    fields = {**child.fields, "data": {"x": "9"}}
    made.children["a"] = [changed_children.with_fields(child, fields, resource_version=77, ownership=NOTHING_OWNED)]
    return made


def test_at_rest_the_resource_and_what_is_made_from_it_stay_ready(world: World) -> None:
    planner = make_planner()
    assert world.refresh(planner, is_paused=True, target=blueprints.COMPLETED) == ["a"]
    assert [each.state for each in planner.statuses.values()] == [ResourceState.READY, ResourceState.READY]
    assert [each.type for each in planner.conditions.conditions()] == ["Drifted"]


def test_before_the_target_is_completed_what_drifted_is_not_ready(world: World) -> None:
    planner = make_planner()
    world.refresh(planner, is_paused=True)
    states = [each.state for each in planner.statuses.values()]
    assert states == [ResourceState.PROGRESSING, ResourceState.WAITING]
    assert [each.type for each in planner.conditions.conditions()] == ["Drifted"]
    assert [(name, found.reason) for name, found in check_result.find(planner)] == [("a", "Drifted")]


def test_a_change_of_the_pause_plans_everything_again(world: World) -> None:
    planner = make_planner()
    both = {"a", "b"}
    assert world.plan(planner, is_paused=True, target=blueprints.COMPLETED).dirty == both
    assert world.plan(planner).dirty == set()
    resumed = world.plan(planner, is_paused=False)
    assert (resumed.dirty, resumed.planned) == (both, ["a"])
    assert isinstance(planner.ready_steps["a"], Apply)
    assert list(planner.conditions.conditions()) == []
    assert planner.statuses["b"].state is ResourceState.WAITING
    assert world.plan(planner, target=None).dirty == set()
