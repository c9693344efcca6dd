"""The fate of objects that are no longer wanted, and objects that are never replaced."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.model import names
from hearth.model.child import Child
from hearth.plan.resource import decide, step_planning
from hearth.plan.retry.backoff import Attempt
from hearth.plan.state import stack_tree
from hearth.plan.state.desired import with_adopted
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Apply, Delete, Release
from hearth.template.blueprint import Blueprint, Replacement
from support.units import blueprints
from support.units.blueprints import Constant, World

EMPTY = blueprints.make_blueprint({})
RETAINED = dataclasses.replace(EMPTY, retained=frozenset({"a"}))
ABANDONED = dataclasses.replace(EMPTY, abandons=True)


def retaining(blueprint: Blueprint, **policy: object) -> Blueprint:
    """The same, where `a` has deletionPolicy: Retain."""
    changed = dataclasses.replace(blueprint.resources["a"], is_retained=True, **policy)  # type: ignore[arg-type]  # a table
    return dataclasses.replace(
        blueprint, resources={**blueprint.resources, "a": changed}, retained=blueprint.retained | {"a"}
    )


ONE = blueprints.make_blueprint({"a": []})


def make_world(blueprint: Blueprint = ONE) -> tuple[World, Child]:
    """A world with everything that the blueprint wants, including `a`."""
    world = World()
    world.settle(blueprints.make_planner(blueprint))
    return world, world.of("a")[0]


def adopt(world: World, blueprint: Blueprint = ONE) -> Child:
    """Let `a` be an object that belonged to another client before."""
    planner = blueprints.make_planner(blueprint)
    world.refresh(planner)
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    return world.carry_out(dataclasses.replace(step, manifest=with_adopted(step.manifest)))


@pytest.mark.parametrize(
    ("blueprint", "change", "expected"),
    [
        (EMPTY, {}, Delete),
        (RETAINED, {}, Release),
        (ABANDONED, {}, Release),
        (EMPTY, {"is_retained": True}, Release),
        (EMPTY, {"is_adopted": True}, Release),
        (EMPTY, {"deleting": True}, type(None)),
        (ABANDONED, {"deleting": True}, Release),
    ],
    ids=[
        "its retention is not requested",
        "the template says so",
        "the stack says so",
        "it says so itself",
        "it was adopted",
        "being deleted",
        "being deleted, and kept: the stack need not wait",
    ],
)
def test_what_is_kept_is_released_and_all_else_deleted(
    blueprint: Blueprint, change: dict[str, bool], expected: type
) -> None:
    _, child = make_world()
    changed = dataclasses.replace(child, **change)  # type: ignore[arg-type]  # a table
    step = step_planning.plan_removal(changed, blueprint, stack_tree.contain_nothing)
    assert type(step) is expected


def test_a_change_of_the_policy_alone_is_written_once() -> None:
    world, child = make_world()
    assert world.settle(blueprints.make_planner(retaining(ONE))) == 1
    changed = world.of("a")[0]
    assert (changed.uid, changed.is_retained) == (child.uid, True)
    assert world.settle(blueprints.make_planner(retaining(ONE))) == 0


def test_a_policy_that_a_user_wrote_on_the_object_is_no_reason_to_write() -> None:
    world, child = make_world()
    world.children["a"] = [dataclasses.replace(child, is_retained=True)]
    planner = blueprints.make_planner(ONE)
    assert world.refresh(planner) == []
    gone = blueprints.make_planner(EMPTY)
    assert [gone.take_step(key) for key in world.refresh(gone)] == [Release(child=world.of("a")[0])]


def test_what_was_adopted_keeps_saying_so() -> None:
    world = World()
    child = adopt(world)
    assert child.is_adopted
    changed = blueprints.make_blueprint({"a": []}, manifests={"a": config("new")})
    planner = blueprints.make_planner(changed)
    assert world.refresh(planner) == ["a"]
    step = planner.ready_steps["a"]
    assert isinstance(step, Apply)
    assert step.manifest["metadata"]["annotations"][names.ANNOTATION_ADOPTED] == names.ADOPTED


def config(value: str, *, name: str | None = None) -> Constant:
    """A ConfigMap, optionally with an explicit name."""
    metadata = {"metadata": {"name": name}} if name else {}
    return Constant({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": value}, **metadata})


def target(value: str, *, name: str | None = None) -> Blueprint:
    """`a`, retained and replaced with DeleteFirst."""
    made = blueprints.make_blueprint({"a": []}, manifests={"a": config(value, name=name)})
    return retaining(made, replacement=Replacement.DELETE_FIRST, is_name_pinned=name is not None)


def test_what_is_kept_does_not_go_first() -> None:
    world, child = make_world(target("old"))
    planner = blueprints.refuse(world, target("new"))
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    assert (step.uid, step.ref.name == child.name) == (None, False)
    world.carry_out(step)
    assert [planner.take_step(key) for key in world.refresh(planner, "a")] == [Release(child=child)]


def test_what_is_kept_under_a_stated_name_is_not_replaced() -> None:
    world, child = make_world(target("old", name="fixed"))
    planner = blueprints.refuse(world, target("new", name="fixed"))
    status = planner.statuses["a"]
    assert (status.state, status.reason, status.step, status.child) == (
        ResourceState.FAILED,
        "Immutable",
        None,
        child,
    )
    assert "has deletionPolicy: Retain" in status.message


def test_a_failed_object_that_is_kept_is_not_tried_again_as_another() -> None:
    policy = {"replacement": Replacement.CREATE_FIRST, "failed_when": (Constant(True),)}
    world, planner = World(), blueprints.make_planner(retaining(ONE, **policy))
    world.refresh(planner)
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    child = world.carry_out(step)
    world.memory.counted_failures[child.uid] = None
    world.memory.attempts["a"] = Attempt(
        attempt_id=decide.failure_id(child),
        failures=1,
        retry_at=0.0,
        reason="Boom",
        message="boom",
        is_final=False,
    )
    world.now = 9.0
    planned = world.refresh(planner, "a")
    status = planner.statuses["a"]
    assert (planned, status.state, status.step) == ([], ResourceState.FAILED, None)
    assert "has deletionPolicy: Retain" in status.message


def test_a_resource_asks_for_adoption_as_it_or_its_stack_says() -> None:
    for own, default, expected in ((None, False, False), (None, True, True), (False, True, False), (True, False, True)):
        resource = dataclasses.replace(ONE.resources["a"], adopts=own)
        planner = blueprints.make_planner(dataclasses.replace(ONE, resources={"a": resource}, adopts=default))
        World().refresh(planner)
        step = planner.ready_steps["a"]
        assert isinstance(step, Apply)
        assert step.may_adopt is expected
