"""When a resource gets a new object, and which of several objects represents it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model import packing
from hearth.model.child import Child, FieldOwnership, Object
from hearth.plan.resource import replaced_fields, replacement
from hearth.plan.retry.backoff import Attempt, FailedObject
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import desired, steps
from hearth.plan.state.desired import ChildOwner
from hearth.plan.state.memory import RefusedChange
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.state.steps import Apply, Delete, Step
from hearth.template.blueprint import Blueprint, Replacement, ResourceBlueprint
from support.units import blueprints, changed_children
from support.units.blueprints import CONFIG_MAP, GADGET, HASHER, STACK, Constant, World

FAILED: Object = {"conditions": [{"type": "Stalled", "status": "True", "reason": "Boom", "message": "boom"}]}


def one(data: str, *, name: str | None = None, **policy: object) -> Blueprint:
    """A ConfigMap `a` that `b` requires."""
    metadata = {"metadata": {"name": name}} if name else {}
    manifest = Constant({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": data}, **metadata})
    blueprint = blueprints.make_blueprint({"a": [], "b": ["a"]}, manifests={"a": manifest})
    changed: ResourceBlueprint = dataclasses.replace(blueprint.resources["a"], **policy)  # type: ignore[arg-type]  # a table
    return dataclasses.replace(blueprint, resources={**blueprint.resources, "a": changed})


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({"replacement": Replacement.DELETE_FIRST}, Delete, id="the user allows to delete it"),
        pytest.param({"replacement": Replacement.CREATE_FIRST}, Apply, id="the next one may be refused"),
        pytest.param({"replacement": Replacement.NEVER}, Apply, id="nothing is allowed"),
        pytest.param({}, Apply, id="nothing is said"),
    ],
)
def test_an_open_question_risks_an_object_only_where_the_user_does(
    world: World, policy: dict[str, Any], expected: type[object]
) -> None:
    planner = blueprints.make_planner(one("new", **policy))
    world.refresh(planner)
    old = world.of("a")[0]
    world.memory.immutable[old.uid] = RefusedChange(planner.ready_steps["a"].hash, "data", is_proven=False)  # type: ignore[union-attr]  # an apply
    world.refresh(planner, "a")
    step = planner.ready_steps["a"]
    assert isinstance(step, expected)
    assert isinstance(step, Delete) or (isinstance(step, Apply) and step.uid == old.uid)


@pytest.fixture
def world() -> World:
    made = World()
    made.settle(blueprints.make_planner(one("old")))
    return made


def test_another_object_is_made_first(world: World) -> None:
    planner = blueprints.refuse(world, one("new"))
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    assert (step.uid, step.ref.name != "shop-a") == (None, True)
    old = world.of("a")[0]
    world.carry_out(step)
    [uid] = world.refresh(planner, "a")
    assert planner.take_step(uid) == Delete(child=old)


def test_a_dependent_that_takes_something_from_it_moves_over_before_the_old_one_goes(world: World) -> None:
    planner = blueprints.refuse(world, one("new"))
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    world.carry_out(step)
    name = blueprints.Reading(
        make=lambda values: {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {"a": (values["a"] or {})["metadata"]["name"]},
        },
        reads={},
    )
    blueprint = one("new")
    reading = dataclasses.replace(blueprint.resources["b"], manifest=name)
    planner = blueprints.make_planner(dataclasses.replace(blueprint, resources={**blueprint.resources, "b": reading}))
    assert world.refresh(planner) == ["b"]
    moved = planner.take_step("b")
    assert isinstance(moved, Apply)
    assert moved.manifest["data"] == {"a": step.ref.name}
    world.carry_out(moved)
    assert world.refresh(planner, "b") == ["uid-1"]


def test_a_dependent_that_takes_nothing_from_it_is_not_written(world: World) -> None:
    plain = blueprints.make_blueprint({"a": [], "b": ["a"]})
    assert plain.resources["b"].manifest.evaluate({}) is not None
    planner = blueprints.refuse(world, one("new"))
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    world.carry_out(step)
    assert world.refresh(planner, "a") != ["a"]


def test_the_old_object_goes_first_where_that_was_chosen(world: World) -> None:
    planner = blueprints.refuse(world, one("new", replacement=Replacement.DELETE_FIRST))
    assert planner.take_step("a") == Delete(child=world.of("a")[0])
    world.children["a"] = []
    assert world.refresh(planner, "a") == ["a"]
    assert isinstance(planner.ready_steps["a"], Apply)


@pytest.mark.parametrize(
    ("blueprint", "way"),
    [
        (one("new", replacement=Replacement.NEVER), "CreateFirst"),
        (one("new", name="pinned"), "DeleteFirst"),
    ],
    ids=["never", "a stated name"],
)
def test_what_is_not_replaced_says_what_would_allow_it(blueprint: Blueprint, way: str) -> None:
    world = World()
    pinned = "pinned" if way == "DeleteFirst" else None
    world.settle(blueprints.make_planner(one("old", name=pinned)))
    planner = blueprints.refuse(world, blueprint)
    status = planner.statuses["a"]
    assert (status.state, status.reason, "a" in planner.ready_steps) == (ResourceState.FAILED, "Immutable", False)
    assert status.message.startswith("data cannot be changed in place")
    assert way in status.message


def test_a_way_back_finds_the_old_object(world: World) -> None:
    old = world.of("a")[0]
    planner = blueprints.refuse(world, one("new"))
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    newcomer = world.carry_out(step)
    back = blueprints.make_planner(one("old"))
    planned = world.refresh(back)
    assert back.statuses["a"].child == old
    assert [back.take_step(key) for key in planned] == [Delete(child=newcomer)]


def test_a_field_of_replace_on_replaces_what_could_be_changed(world: World) -> None:
    planner = blueprints.make_planner(one("new", replace_on=(("data", "x"),)))
    world.refresh(planner)
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    assert step.uid is None


def gadgets(spec: Object, *, name: str | None = None, **policy: object) -> Blueprint:
    """An object of a custom kind, which is not replaced by default."""
    metadata = {"metadata": {"name": name}} if name else {}
    manifest = Constant({"apiVersion": GADGET.api_version, "kind": GADGET.name, "spec": spec, **metadata})
    made = blueprints.make_blueprint({"a": []}, kind=GADGET, manifests={"a": manifest})
    changed: ResourceBlueprint = dataclasses.replace(made.resources["a"], **policy)  # type: ignore[arg-type]  # a table
    return dataclasses.replace(made, resources={"a": changed})


SIZE = (("spec", "size"),)


def own(value: object) -> Object:
    """The `fieldsV1` of a value whose lists have one owner as a whole."""
    return {f"f:{key}": own(inner) for key, inner in value.items()} if isinstance(value, dict) else {}


def find_step(before: Blueprint, after: Blueprint, *, live: Object | None = None) -> tuple[ResourceStatus, Step | None]:
    """Settle one definition, then plan the other. live: the spec as the API server stores it, if it differs."""
    world = World()
    world.settle(blueprints.make_planner(before))
    child = world.of("a")[0]
    spec = before.resources["a"].manifest.evaluate({}).value["spec"]  # type: ignore[union-attr]  # a constant
    ownership = FieldOwnership(fields=packing.pack({"f:spec": own(spec)}))
    fields = {**child.fields, "spec": live or spec}
    world.children["a"] = [changed_children.with_fields(child, fields, ownership=ownership)]
    planner = blueprints.make_planner(after)
    world.refresh(planner)
    return planner.statuses["a"], planner.ready_steps.get("a")


def test_replace_on_alone_permits_the_replacement_of_a_custom_kind() -> None:
    _, step = find_step(gadgets({"size": 1}), gadgets({"size": 2}, replace_on=SIZE))
    assert isinstance(step, Apply)
    assert step.uid is None


def test_replace_on_with_a_stated_name_needs_delete_first() -> None:
    before = gadgets({"size": 1}, name="pinned")
    status, step = find_step(before, gadgets({"size": 2}, name="pinned", replace_on=SIZE))
    assert (status.reason, step, "DeleteFirst" in status.message) == ("Immutable", None, True)
    after = gadgets({"size": 2}, name="pinned", replace_on=SIZE, replacement=Replacement.DELETE_FIRST)
    assert isinstance(find_step(before, after)[1], Delete)


def test_never_holds_against_replace_on() -> None:
    after = gadgets({"size": 2}, replace_on=SIZE, replacement=Replacement.NEVER)
    status, step = find_step(gadgets({"size": 1}), after)
    assert (status.reason, step) == ("Immutable", None)


@pytest.mark.parametrize(
    ("before", "after", "live", "is_replaced"),
    [
        pytest.param("1Gi", "1Gi", "1Gi", False, id="unchanged"),
        pytest.param("1024Mi", "1024Mi", "1Gi", False, id="as the server writes it"),
        pytest.param("1.1", "1.10", "1.1", True, id="not every number is a quantity"),
        pytest.param({"x": 1}, {"x": 1}, {"x": 1, "y": 2}, False, id="a default beside it"),
        pytest.param({"x": 1, "z": 2}, {"x": 1}, {"x": 1, "z": 2}, True, id="a key removed"),
        pytest.param([{"x": 1}], [{"x": 1}], [{"x": 1, "y": 2}], False, id="a default in an item"),
        pytest.param([{"x": 1}], [{"x": 2}], [{"x": 1, "y": 2}], True, id="an item changed"),
        pytest.param([1], [1, 2], [1], True, id="an item added"),
        pytest.param(1, None, 1, True, id="the field removed"),
    ],
)
def test_what_the_server_adds_to_a_replace_on_field_is_no_change(
    before: object, after: object, live: object, is_replaced: bool
) -> None:
    old = gadgets({"size": before, "other": 1})
    new = gadgets({**({"size": after} if after is not None else {}), "other": 2}, replace_on=SIZE)
    _, step = find_step(old, new, live={"size": live, "other": 1})
    assert isinstance(step, Apply)
    assert (step.uid is None) == is_replaced


OWNED = {
    "f:metadata": {"f:labels": {"f:hearth.dev/stack": {}}, "f:annotations": {"f:hearth.dev/hash": {}, "f:mine": {}}},
    "f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}}},
}
LIVE_METADATA = {
    "labels": {"hearth.dev/stack": "shop", "foreign": "x"},
    "annotations": {"hearth.dev/hash": "h", "mine": "1"},
}
LIVE_PORTS = [{"port": 9, "protocol": "TCP"}, {"port": 80, "protocol": "TCP", "name": "http", "targetPort": 80}]


@pytest.mark.parametrize(
    ("path", "metadata", "ports", "is_found"),
    [
        pytest.param("metadata.labels", {}, [], False, id="only labels of the operator"),
        pytest.param("metadata.annotations", {"annotations": {"mine": "1"}}, [], False, id="annotations unchanged"),
        pytest.param("metadata.annotations", {}, [], True, id="the one annotation removed"),
        pytest.param("metadata", {"annotations": {"mine": "1"}}, [], False, id="metadata unchanged"),
        pytest.param("metadata.labels", {"labels": {"foreign": "x"}}, [], False, id="a label that is there already"),
        pytest.param("metadata.labels", {"labels": {"new": "x"}}, [], True, id="a label added"),
        pytest.param(
            "spec.ports", {}, [{"port": 80, "name": "http"}], False, id="an item of another manager beside it"
        ),
        pytest.param("spec.ports", {}, [{"port": 80}], True, id="a field of an item removed"),
        pytest.param("spec.ports", {}, [{"port": 80, "name": "web"}], True, id="a field of an item changed"),
        pytest.param("spec.ports", {}, [{"port": 80, "name": "http"}, {"port": 81}], True, id="an item added"),
        pytest.param("spec.ports", {}, [{"port": 81, "name": "http"}], True, id="another item instead"),
        pytest.param("spec.ports", {}, ["text", {"port": 80, "name": "http"}], True, id="an item that is no map"),
        pytest.param("spec.ports", {}, [], True, id="no item left"),
    ],
)
def test_only_what_the_definition_itself_changes_counts_for_replace_on(
    path: str, metadata: Object, ports: list[object], is_found: bool
) -> None:
    resource = dataclasses.replace(gadgets({}).resources["a"], replace_on=(tuple(path.split(".")),))
    world = World()
    world.settle(blueprints.make_planner(gadgets({})))
    fields = {"metadata": LIVE_METADATA, "spec": {"ports": LIVE_PORTS}}
    ownership = FieldOwnership(fields=packing.pack(OWNED))
    child = changed_children.with_fields(world.of("a")[0], fields, ownership=ownership)
    found = replaced_fields.find_replaced_field(resource, child, {"metadata": metadata, "spec": {"ports": ports}})
    assert found == (path if is_found else None)


@pytest.mark.parametrize("part", [{"omitted": (("spec",),)}, {"defect": "too deep"}], ids=["too large", "unreadable"])
def test_a_replace_on_field_that_cannot_be_read_replaces_nothing(part: Object) -> None:
    world = World()
    world.settle(blueprints.make_planner(gadgets({"size": 1, "other": 1})))
    world.children["a"] = [dataclasses.replace(world.of("a")[0], **part)]
    planner = blueprints.make_planner(gadgets({"size": 1, "other": 2}, replace_on=SIZE))
    world.refresh(planner)
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    assert step.uid is not None


def test_another_field_does_not(world: World) -> None:
    planner = blueprints.make_planner(one("new", replace_on=(("data", "y"),)))
    world.refresh(planner)
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    assert step.uid == world.of("a")[0].uid


def fail(world: World, planner: StackPlanner, *, failures: int, is_known: bool = True) -> Child:
    """Let the object of `a` fail permanently, and have the failure counted."""
    desired = planner.find_desired("a")
    assert desired is not None
    step = Apply(resource="a", kind=GADGET, ref=desired.ref, manifest=desired.manifest, hash=desired.hash, uid=None)
    child = world.carry_out(step, status=FAILED)
    world.memory.ownership_baseline[child.uid] = (step.hash, child.ownership)
    world.memory.counted_failures[child.uid] = None
    if is_known:
        world.memory.never_ready[child.uid] = None
    world.memory.attempts["a"] = Attempt(
        attempt_id=FailedObject(hash=step.hash),
        failures=failures,
        retry_at=5.0,
        reason="Boom",
        message="boom",
        is_final=False,
    )
    world.refresh(planner, "a")
    return child


def gadget() -> Blueprint:
    """A resource that is replaced when it fails permanently: as soon as its status is Stalled."""
    stalled = blueprints.Reading(make=lambda values: "Stalled" in str((values["a"] or {})["status"]), reads={})
    blueprint = blueprints.make_blueprint({"a": []}, kind=GADGET)
    resource = dataclasses.replace(
        blueprint.resources["a"], failed_when=(stalled,), replacement=Replacement.CREATE_FIRST
    )
    return dataclasses.replace(blueprint, resources={"a": resource})


def test_another_object_that_fails_is_waited_for_beside_the_healthy_old_one() -> None:
    def size(number: int) -> Blueprint:
        manifest = Constant({"apiVersion": GADGET.api_version, "kind": GADGET.name, "spec": {"size": number}})
        made = blueprints.make_blueprint({"a": []}, kind=GADGET, manifests={"a": manifest})
        resource = dataclasses.replace(made.resources["a"], replacement=Replacement.CREATE_FIRST)
        return dataclasses.replace(made, resources={"a": resource})

    world = World()
    world.settle(blueprints.make_planner(size(1)))
    planner = blueprints.refuse(world, size(2))
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    newcomer = world.carry_out(step, status=FAILED)
    world.memory.never_ready[newcomer.uid] = None
    world.refresh(planner, "a")
    assert (planner.statuses["a"].child, planner.statuses["a"].state) == (newcomer, ResourceState.FAILED)
    assert planner.ready_steps == {}


def test_an_object_that_failed_for_good_is_tried_again_when_its_time_has_come() -> None:
    world, planner = World(), blueprints.make_planner(gadget())
    world.settle(planner)
    child = fail(world, planner, failures=1)
    assert (planner.statuses["a"].state, planner.requeues, planner.ready_steps) == (
        ResourceState.RETRYING,
        {"a": 5.0},
        {},
    )
    world.now = 5.0
    world.refresh(planner, "a")
    assert planner.ready_steps["a"] == Delete(child=child)


def test_one_that_may_have_been_of_use_stays_until_the_next_is_ready() -> None:
    world, planner = World(), blueprints.make_planner(gadget())
    world.settle(planner)
    world.memory.never_ready.clear()
    fail(world, planner, failures=1, is_known=False)
    world.now = 5.0
    world.refresh(planner, "a")
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    assert step.uid is None


def test_a_failure_that_was_not_counted_is_reported_and_not_acted_upon() -> None:
    world, planner = World(), blueprints.make_planner(gadget())
    world.settle(planner)
    child = fail(world, planner, failures=1)
    world.memory.counted_failures.clear()
    world.now = 50.0
    world.refresh(planner, "a")
    assert (world.newly_failed, planner.statuses["a"].child, planner.ready_steps) == (["a"], child, {})


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ConfigMap", Replacement.CREATE_FIRST),
        ("PersistentVolumeClaim", Replacement.NEVER),
        ("Widget", Replacement.NEVER),
    ],
    ids=["holds nothing", "holds data", "unknown"],
)
def test_kinds_are_replaced_unasked_only_where_they_hold_nothing(kind: str, expected: Replacement) -> None:
    whose = ChildOwner(stack=STACK, resource="a", requires=(), hashes=HASHER)
    served = dataclasses.replace(CONFIG_MAP, name=kind)
    wanted = desired.make_desired({}, kind=served, hash_=HASHER.hash({}), owner=whose)
    assert replacement.find_policy(one("x").resources["a"], wanted) is expected
    assert replacement.find_policy(one("x").resources["a"], wanted, is_named=True) is Replacement.CREATE_FIRST


@pytest.mark.parametrize("is_known", [True, False], ids=["the deletion", "the next object"])
def test_a_refused_try_is_repeated_when_its_time_has_come(is_known: bool) -> None:
    world, planner = World(), blueprints.make_planner(gadget())
    world.settle(planner)
    fail(world, planner, failures=1, is_known=is_known)
    world.now = 5.0
    world.refresh(planner, "a")
    step = planner.take_step("a")
    assert isinstance(step, Delete if is_known else Apply)
    world.memory.attempts["a"] = Attempt(
        attempt_id=steps.attempt_id(step), failures=1, retry_at=9.0, reason="Denied", message="no", is_final=False
    )
    world.refresh(planner, "a")
    assert (planner.requeues, planner.ready_steps) == ({"a": 9.0}, {})
    world.now = 9.0
    world.refresh(planner, "a")
    assert planner.ready_steps == {"a": step}
