"""A planner's decisions: order, applies, drift, clean-up; its cost follows the changes, and it forgets nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model.child import Child, FieldOwnership, Path
from hearth.plan.retry.backoff import ApplyAttempt, Attempt
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.cleanup_policy import CleanupPolicy
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Apply, Delete, affected_keys
from hearth.template.blueprint import CollectionBlueprint
from support.units import blueprints
from support.units.blueprints import Constant, Reading, ServedKinds, World

CHAIN = blueprints.make_blueprint({"a": [], "b": ["a"], "c": ["b"]})


def states(planner: StackPlanner) -> dict[str, ResourceState]:
    return {name: status.state for name, status in planner.statuses.items()}


def only(children: Iterable[Child]) -> Child:
    [child] = children
    return child


def test_a_resource_is_applied_once_what_it_requires_is_ready() -> None:
    world, planner = World(), blueprints.make_planner(CHAIN)
    assert world.refresh(planner) == ["a"]
    assert states(planner) == {"a": ResourceState.PROGRESSING, "b": ResourceState.WAITING, "c": ResourceState.WAITING}


def test_each_resource_costs_one_apply() -> None:
    assert World().settle(blueprints.make_planner(CHAIN)) == 3


def test_a_complete_planner_plans_nothing() -> None:
    world, planner = blueprints.settle(CHAIN)
    assert (world.refresh(planner), planner.ready_steps, planner.requeues) == ([], {}, {})


def test_a_planner_made_again_over_the_same_world_plans_nothing() -> None:
    world, _ = blueprints.settle(CHAIN)
    world.memory = World().memory
    fresh = blueprints.make_planner(CHAIN)
    assert (world.refresh(fresh), fresh.is_complete) == ([], True)


def test_a_deleted_child_is_made_again() -> None:
    world, planner = blueprints.settle(CHAIN)
    name = only(world.of("b")).name
    world.children["b"] = []
    assert world.refresh(planner, "b") == ["b"]
    step = planner.take_step("b")
    assert isinstance(step, Apply)
    assert (step.ref.name, step.uid) == (name, None)


def test_a_field_that_was_taken_is_taken_back() -> None:
    world, planner = blueprints.settle(CHAIN)
    child = only(world.of("a"))
    world.children["a"] = [dataclasses.replace(child, ownership=FieldOwnership(fields=b"{}"), resource_version=99)]
    assert world.refresh(planner, "a") == ["a"]
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    assert step.uid == child.uid


def test_what_our_own_answer_lacks_is_no_drift() -> None:
    world, planner = blueprints.settle(CHAIN)
    child = dataclasses.replace(only(world.of("a")), ownership=FieldOwnership(fields=b"{}"), resource_version=99)
    world.memory.ownership_baseline[child.uid] = (child.hash, child.ownership)
    world.children["a"] = [child]
    assert world.refresh(planner, "a") == []


def test_a_child_being_deleted_is_waited_for() -> None:
    world, planner = blueprints.settle(CHAIN)
    leaving = dataclasses.replace(only(world.of("a")), deleting=True, finalizers=("x/y",), resource_version=99)
    world.children["a"] = [leaving]
    assert world.refresh(planner, "a") == []
    assert "held by x/y" in planner.statuses["a"].message


def test_dependents_of_an_unready_resource_wait_again() -> None:
    blueprint = blueprints.make_blueprint({"a": [], "b": ["a"]}, kind=blueprints.GADGET)
    world, planner = blueprints.settle(blueprint)
    child = only(world.of("a"))
    world.carry_out(applied(planner, child), status={"conditions": [{"type": "Ready", "status": "False"}]})
    world.refresh(planner, "a")
    assert states(planner) == {"a": ResourceState.PROGRESSING, "b": ResourceState.WAITING}


def applied(planner: StackPlanner, child: Child) -> Apply:
    """The apply that would produce `child` again."""
    manifest = planner.find_desired(child.resource)
    assert manifest is not None
    return Apply(
        resource=child.resource,
        kind=manifest.kind,
        ref=manifest.ref,
        manifest=manifest.manifest,
        hash=manifest.hash,
        uid=child.uid,
    )


def test_a_value_is_taken_from_the_child_it_refers_to() -> None:
    reading = Reading(
        make=lambda values: {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {"from": values["a"]["metadata"]["name"]},
        },
        reads={"a": frozenset({("metadata", "name")})},
    )
    world, _ = blueprints.settle(blueprints.make_blueprint({"a": [], "b": ["a"]}, manifests={"b": reading}))
    assert only(world.of("b")).fields["data"] == {"from": "shop-a"}


def test_a_value_that_is_missing_though_its_resource_is_ready_is_named() -> None:
    reading = Reading(make=lambda values: values["a"]["status"]["host"], reads={})
    world, planner = (
        World(),
        blueprints.make_planner(blueprints.make_blueprint({"a": [], "b": ["a"]}, manifests={"b": reading})),
    )
    world.settle(planner)
    status = planner.statuses["b"]
    assert (status.state, status.reason) == (ResourceState.WAITING, "FieldNotFound")


def test_two_resources_that_name_one_object_do_not_fight() -> None:
    same = Constant({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})
    world, planner = (
        World(),
        blueprints.make_planner(blueprints.make_blueprint({"a": [], "b": []}, manifests={"a": same, "b": same})),
    )
    world.settle(planner)
    assert states(planner) == {"a": ResourceState.READY, "b": ResourceState.FAILED}
    assert planner.statuses["b"].reason == "DuplicateObject"


def test_a_child_where_the_operator_does_not_look_is_refused() -> None:
    elsewhere = Constant({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "other"}})
    blueprint = blueprints.make_blueprint({"a": [], "b": []}, manifests={"b": elsewhere})
    world, planner = World(), blueprints.make_planner(blueprint, only_namespace="default")
    assert world.refresh(planner) == ["a"]
    assert planner.statuses["b"].reason == "NamespaceNotServed"


def test_a_kind_that_is_not_served_is_waited_for_and_named() -> None:
    kinds = ServedKinds()
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}), kinds=kinds)
    world.refresh(planner)
    assert planner.is_waiting_for_kinds
    assert "does not serve kind ConfigMap in v1" in planner.statuses["a"].message
    kinds.served[("v1", "ConfigMap")] = blueprints.CONFIG_MAP
    assert world.refresh(planner) == ["a"]


def test_a_kind_that_is_not_watched_yet_is_not_written() -> None:
    unwatched = {blueprints.CONFIG_MAP}
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}), unwatched=unwatched)
    assert world.refresh(planner) == []
    unwatched.clear()
    assert world.refresh(planner) == ["a"]


def test_an_old_kind_that_is_not_watched_yet_holds_completion() -> None:
    plan_input = dataclasses.replace(blueprints.TRUSTED_INPUT, cleanup=CleanupPolicy(protected_names=()))
    world, planner = (
        World(),
        blueprints.make_planner(
            blueprints.make_blueprint({"a": []}), unwatched={blueprints.GADGET}, plan_input=plan_input
        ),
    )
    world.settle(planner)
    assert (planner.is_ready, planner.is_complete) == (True, False)


def test_nothing_is_deleted_before_all_kinds_are_listed() -> None:
    world, _ = blueprints.settle(blueprints.make_blueprint({"a": [], "old": []}))
    unwatched = {blueprints.GADGET}
    planner = blueprints.make_planner(blueprints.make_blueprint({"a": []}), unwatched=unwatched)
    assert world.refresh(planner) == []
    unwatched.clear()
    assert len(world.refresh(planner)) == 1


def test_what_the_blueprint_no_longer_names_goes_when_everything_is_ready() -> None:
    world, _ = blueprints.settle(blueprints.make_blueprint({"a": [], "old": []}))
    planner = blueprints.make_planner(blueprints.make_blueprint({"a": [], "new": []}))
    assert world.refresh(planner) == ["new"]
    step = planner.take_step("new")
    assert isinstance(step, Apply)
    world.carry_out(step)
    [uid] = world.refresh(planner, "new")
    assert planner.take_step(uid) == Delete(child=only(world.of("old")))


def test_what_is_being_made_holds_what_it_is_made_of() -> None:
    world, planner = blueprints.settle(CHAIN)
    gone = only(world.of("a"))
    world.children["b"] = world.children["c"] = []
    assert world.refresh(planner, "b", "c") == ["b"]
    step = planner.take_step("b")
    assert isinstance(step, Apply)
    world.memory.in_flight["b"] = step
    planner = blueprints.make_planner(blueprints.make_blueprint({}))
    assert world.refresh(planner) == []
    del world.memory.in_flight["b"]
    assert world.refresh(planner, gone.uid) == [gone.uid]


def test_what_is_wanted_again_counts_once_its_deletion_was_answered() -> None:
    world, _ = blueprints.settle(CHAIN)
    kept = only(world.of("a"))
    world.children["b"] = world.children["c"] = []
    planner = blueprints.make_planner(blueprints.make_blueprint({}))
    assert world.refresh(planner) == [kept.uid]
    step = planner.take_step(kept.uid)
    assert step == Delete(child=kept)
    world.memory.in_flight[kept.uid] = step
    planner = blueprints.make_planner(CHAIN)
    assert world.refresh(planner) == []
    assert states(planner) == {"a": ResourceState.PROGRESSING, "b": ResourceState.WAITING, "c": ResourceState.WAITING}
    world.memory.finish(kept.uid)
    assert world.refresh(planner, *affected_keys(step)) == ["b"]


def test_deletions_are_withdrawn_when_something_is_not_ready_any_more() -> None:
    world, _ = blueprints.settle(blueprints.make_blueprint({"a": [], "old": []}))
    planner = blueprints.make_planner(blueprints.make_blueprint({"a": []}))
    [uid] = world.refresh(planner)
    world.children["a"] = []
    world.refresh(planner, "a")
    assert planner.take_step(uid) is None


def test_a_planned_deletion_of_what_is_named_by_now_does_not_start() -> None:
    world, _ = blueprints.settle(blueprints.make_blueprint({"a": [], "old": []}))
    planner = blueprints.make_planner(blueprints.make_blueprint({"a": []}))
    [uid] = world.refresh(planner)
    planner.wanted.claim(only(world.of("old")).ref, "a")
    assert planner.take_step(uid) is None


def test_an_object_whose_resource_is_renamed_is_kept() -> None:
    pinned = Constant({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pinned"}})
    world, _ = blueprints.settle(blueprints.make_blueprint({"old": []}, manifests={"old": pinned}))
    planner = blueprints.make_planner(blueprints.make_blueprint({"new": []}, manifests={"new": pinned}))
    world.refresh(planner)
    step = planner.take_step("new")
    assert isinstance(step, Apply)
    uid = only(world.of("old")).uid
    world.children["old"] = []
    relabelled = blueprints.make_child(step.manifest, uid=uid, version=99)
    world.children["new"] = [relabelled]
    world.memory.ownership_baseline[uid] = (step.hash, relabelled.ownership)
    assert world.refresh(planner, "new") == []
    assert planner.is_complete


def test_an_object_with_a_copied_label_is_left_alone() -> None:
    world, planner = blueprints.settle(blueprints.make_blueprint({"a": []}))
    world.children["b"] = [dataclasses.replace(only(world.of("a")), name="copy", is_identified=False, resource="b")]
    assert world.refresh(planner) == []
    assert planner.is_complete


def test_a_refused_step_is_not_planned_before_its_time() -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}))
    world.refresh(planner)
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    world.memory.attempts["a"] = Attempt(
        attempt_id=ApplyAttempt(hash=step.hash), failures=1, retry_at=5.0, reason="Denied", message="no", is_final=False
    )
    assert world.refresh(planner, "a") == []
    assert (planner.statuses["a"].state, planner.requeues) == (ResourceState.RETRYING, {"a": 5.0})
    world.now = 5.0
    assert world.refresh(planner, "a") == ["a"]


def test_a_step_in_flight_is_not_planned_twice() -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}))
    world.refresh(planner)
    step = planner.take_step("a")
    assert step is not None
    world.memory.in_flight["a"] = step
    assert world.refresh(planner) == []


def test_an_event_costs_the_child_and_its_dependents_only() -> None:
    looked: list[str] = []

    def spy(name: str) -> Reading:
        def make(_: object) -> dict[str, str]:
            looked.append(name)
            return {"apiVersion": "v1", "kind": "ConfigMap"}

        return Reading(make=make, reads={})

    names = {"a": [], "b": ["a"], "x": [], "y": ["x"]}
    world, planner = blueprints.settle(blueprints.make_blueprint(names, manifests={name: spy(name) for name in names}))
    looked.clear()
    world.children["a"] = [dataclasses.replace(only(world.of("a")), resource_version=99)]
    world.refresh(planner, "a")
    assert looked == ["b"]


def test_an_event_of_a_member_does_not_look_at_all_objects() -> None:
    made = blueprints.make_blueprint({"quota[a]": [], "quota[b]": []})
    collection = CollectionBlueprint(
        name="quota", index=2, members=("quota[a]", "quota[b]"), dependents=(), max_removed="50%"
    )
    world, planner = blueprints.settle(dataclasses.replace(made, collections={"quota": collection}))
    looked: list[str] = []

    class Watched(World):
        def resources(self) -> Iterable[str]:
            looked.append("all")
            return super().resources()

    watched = Watched(children=world.children, memory=world.memory)
    watched.children["quota[c]"] = []
    watched.refresh(planner, "quota[a]")
    assert looked == []
    watched.refresh(planner, "quota[c]")
    assert looked == ["all"]


@given(
    events=st.lists(
        st.tuples(st.sampled_from("abcde"), st.sampled_from(["gone", "taken", "leaving", "applied"])), max_size=12
    )
)
def test_event_by_event_arrives_where_a_fresh_planner_does(events: list[tuple[str, str]]) -> None:
    blueprint = blueprints.make_blueprint({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    world = World()
    world.settle(blueprints.make_planner(blueprints.make_blueprint({"a": [], "e": []})))
    planner = blueprints.make_planner(blueprint)
    world.refresh(planner)
    for name, event in events:
        happen(world, planner, name, event)
        world.refresh(planner, name)
    fresh = blueprints.make_planner(blueprint)
    world.refresh(fresh)
    assert states(planner) == states(fresh)
    assert planner.ready_steps == fresh.ready_steps
    assert planner.cleanup.children == fresh.cleanup.children


def happen(world: World, planner: StackPlanner, name: str, event: str) -> None:
    """One thing that may happen to a resource's child."""
    children = world.of(name)
    if event == "applied":
        step = planner.ready_steps.get(name)
        if isinstance(step, Apply):
            world.carry_out(step)
    elif event == "gone":
        world.children[name] = []
    elif children:
        world.count += 1
        changes: dict[str, dict[str, Any]] = {"taken": {"ownership": None}, "leaving": {"deleting": True}}
        world.children[name] = [dataclasses.replace(children[0], resource_version=world.count, **changes[event])]


@pytest.mark.parametrize(
    ("reads", "is_counted"),
    [
        pytest.param({"a": frozenset({("data", "big", "inner")})}, True, id="what is left out is read"),
        pytest.param({"a": frozenset({("data", "small")})}, False, id="only something else is read"),
        pytest.param({"b": frozenset({("data", "big")})}, False, id="it is read of another resource"),
    ],
)
def test_an_object_too_large_to_be_kept_is_reported_to_those_who_read_it(
    reads: dict[str, frozenset[Path]], *, is_counted: bool
) -> None:
    world, planner = blueprints.settle(dataclasses.replace(CHAIN, reads=reads))
    world.children["a"] = [dataclasses.replace(only(world.of("a")), omitted=(("data", "big"),), resource_version=99)]

    world.refresh(planner, "a")

    status = planner.statuses["a"]
    assert status.is_ready is not is_counted
    if is_counted:
        assert (status.state, status.reason) == (ResourceState.FAILED, "ObjectTooLarge")
        assert status.message.startswith(
            "configmap/shop-a: data.big, which this Stack reads, is too large: at most 64 KiB"
        )
        assert states(planner)["b"] is ResourceState.WAITING


def test_a_child_that_cannot_be_read_fails_its_resource_and_no_other() -> None:
    world, planner = blueprints.settle(CHAIN)
    whole = only(world.of("b"))
    world.children["b"] = [dataclasses.replace(whole, defect="spec.x is nested too deeply", ownership=None)]
    assert world.refresh(planner, "b") == []
    assert states(planner) == {"a": ResourceState.READY, "b": ResourceState.FAILED, "c": ResourceState.WAITING}
    status = planner.statuses["b"]
    assert (status.reason, "spec.x is nested too deeply" in status.message) == ("ObjectUnreadable", True)
    world.children["b"] = [whole]
    world.refresh(planner, "b")
    assert planner.is_complete


def test_another_definition_is_written_over_a_child_that_cannot_be_read() -> None:
    world, planner = blueprints.settle(CHAIN)
    other = dataclasses.replace(only(world.of("b")), defect="spec.x is nested too deeply", hash="of another")
    world.children["b"] = [other]
    assert world.refresh(planner, "b") == ["b"]
