"""Whether unhealthy objects may be replaced now, how, and how often."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.model import names
from hearth.model.child import Child
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import healing
from hearth.plan.state.healing import HealingMode, HealingPolicy, MarkBackoff
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Apply, Delete
from hearth.template.blueprint import Blueprint, Replacement, ResourceBlueprint
from support.units import blueprints, changed_children
from support.units.blueprints import Constant, World

STEADY = BackoffPolicy(max_backoff=300.0, jitter=lambda: 0.0)
NAMES = ("a", "b", "c", "d", "e")


def many(**policy: object) -> Blueprint:
    """Five ConfigMaps that do not require each other; policy: of `a`."""
    blueprint = blueprints.make_blueprint({name: [] for name in NAMES})
    changed: ResourceBlueprint = dataclasses.replace(blueprint.resources["a"], **policy)  # type: ignore[arg-type]  # a table
    return dataclasses.replace(blueprint, resources={**blueprint.resources, "a": changed})


def pinned() -> Constant:
    """A manifest with an explicit name."""
    return Constant({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})


def mark(world: World, *resources: str, is_counted: bool = True) -> None:
    """Have the objects of these resources marked."""
    for name in resources:
        (child,) = world.of(name)
        metadata = child.fields["metadata"]
        annotations = {**metadata["annotations"], names.ANNOTATION_UNHEALTHY: "bad"}
        shown = {**child.fields, "metadata": {**metadata, "annotations": annotations}}
        world.children[name] = [changed_children.with_fields(child, shown)]
        if is_counted:
            world.memory.counted_failures[child.uid] = None


def settled(
    blueprint: Blueprint, said: HealingPolicy | None = None, *, is_completed: bool = True
) -> tuple[World, StackPlanner]:
    plan_input = dataclasses.replace(
        blueprints.TRUSTED_INPUT,
        healing=said or HealingPolicy(),
        target=dataclasses.replace(blueprints.COMPLETED, is_completed=is_completed),
    )
    world, planner = World(), blueprints.make_planner(blueprint, plan_input=plan_input)
    world.settle(planner)
    assert planner.is_ready
    return world, planner


@pytest.mark.parametrize(
    ("said", "expected"),
    [(None, None), (3, 3), ("40%", 2), ("39%", 1), ("1%", 1), ("100%", 5)],
    ids=["no limit", "a number", "a share", "rounded down", "at least one", "all"],
)
def test_the_limit(said: int | str | None, expected: int | None) -> None:
    assert HealingPolicy(max_unhealthy=said).find_limit(5) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, HealingPolicy()),
        (
            {"policy": "OnUpdate", "maxUnhealthy": "40%"},
            HealingPolicy(mode=HealingMode.ON_UPDATE, max_unhealthy="40%"),
        ),
    ],
    ids=["nothing", "everything"],
)
def test_what_a_stack_says_is_heard(said: dict[str, object], expected: HealingPolicy) -> None:
    assert healing.parse(said) == expected


def test_a_marked_object_gives_way_to_another_one() -> None:
    world, planner = settled(many())
    old = world.of("a")[0]
    mark(world, "a")
    assert world.refresh(planner, "a") == ["a"]
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    assert step.ref.name != old.name
    world.carry_out(step)
    [uid] = world.refresh(planner, "a")
    taken = planner.take_step(uid)
    assert isinstance(taken, Delete)
    assert taken.child.uid == old.uid
    assert planner.is_ready


def test_a_mark_is_counted_before_it_is_obeyed() -> None:
    world, planner = settled(many())
    mark(world, "a", is_counted=False)
    assert (world.refresh(planner, "a"), world.newly_failed) == ([], ["a"])
    assert planner.statuses["a"].state is ResourceState.PROGRESSING


@pytest.mark.parametrize("is_completed", [True, False], ids=["later", "now"])
def test_on_update_waits_for_the_next_target(is_completed: bool) -> None:
    world, planner = settled(many(), HealingPolicy(mode=HealingMode.ON_UPDATE), is_completed=is_completed)
    mark(world, "a")
    planned = world.refresh(planner, "a")
    assert planned == ([] if is_completed else ["a"])
    if is_completed:
        assert planner.statuses["a"].reason == "Unhealthy"
        assert "OnUpdate" in planner.statuses["a"].message


@pytest.mark.parametrize("together", [True, False], ids=["at once", "one after the other"])
def test_above_the_limit_none_is_replaced(together: bool) -> None:
    world, planner = settled(many(), HealingPolicy(max_unhealthy="40%"))
    mark(world, "a", "b", "c")
    for names_ in [NAMES] if together else [[name] for name in NAMES]:
        world.refresh(planner, *names_)
    assert planner.ready_steps == {}
    (reported,) = planner.conditions.conditions()
    assert (reported.type, reported.reason) == ("Unhealthy", "TooManyUnhealthy")
    (child,) = world.of("c")
    shown = {**child.fields, "metadata": {**child.fields["metadata"], "annotations": {}}}
    world.children["c"] = [changed_children.with_fields(child, shown)]
    world.refresh(planner, "c")
    assert sorted(planner.ready_steps) == ["a", "b"]


def test_a_higher_limit_is_followed_at_once() -> None:
    world, planner = settled(many(), HealingPolicy(max_unhealthy=1))
    mark(world, "a", "b")
    world.refresh(planner)
    assert planner.ready_steps == {}
    world.plan(planner, healing=HealingPolicy(max_unhealthy=2))
    assert sorted(planner.ready_steps) == ["a", "b"]


@pytest.mark.parametrize(
    ("policy", "step"),
    [
        ({}, Apply),
        ({"replacement": Replacement.DELETE_FIRST}, Delete),
        ({"manifest": pinned()}, Delete),
        ({"replacement": Replacement.NEVER}, None),
    ],
    ids=["by default", "DeleteFirst", "a stated name", "Never"],
)
def test_the_policy_of_the_resource_holds(policy: dict[str, object], step: type | None) -> None:
    world, planner = settled(many(**policy))
    mark(world, "a")
    world.refresh(planner, "a")
    found = planner.ready_steps.get("a")
    assert found is None if step is None else isinstance(found, step)
    if step is None:
        assert "remove the mark" in planner.statuses["a"].message


def test_a_mark_replaces_where_the_kind_is_never_replaced_unasked() -> None:
    blueprint = blueprints.make_blueprint({"a": []}, kind=blueprints.GADGET)
    world, planner = settled(blueprint)
    mark(world, "a")
    world.refresh(planner, "a")
    assert isinstance(planner.ready_steps["a"], Apply)


def test_a_marked_object_is_never_chosen_where_there_is_another_one() -> None:
    world, planner = settled(many())
    mark(world, "a")
    world.refresh(planner, "a")
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    new = world.carry_out(step)
    mark_free: Child = dataclasses.replace(new, hash="another")
    world.children["a"] = [world.of("a")[0], mark_free]
    world.refresh(planner, "a")
    assert planner.statuses["a"].child == mark_free


def test_the_first_mark_is_obeyed_at_once_and_later_ones_more_and_more_slowly() -> None:
    mark_backoff: MarkBackoff | None = None
    delays = []
    for number in range(5):
        mark_backoff = healing.after_mark(mark_backoff, f"uid-{number}", now=100.0, backoff=STEADY)
        delays.append(mark_backoff.due - 100.0)
    assert delays == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert mark_backoff is not None
    assert healing.after_mark(mark_backoff, "x", now=mark_backoff.forgotten_at, backoff=STEADY).count == 1


def test_who_is_marked_again_waits() -> None:
    world, planner = settled(many())
    mark(world, "a")
    uid = world.of("a")[0].uid
    world.memory.mark_backoffs["a"] = MarkBackoff(uid=uid, count=3, due=8.0, forgotten_at=900.0)
    assert (world.refresh(planner, "a"), planner.requeues["a"]) == ([], 8.0)
    assert "3 of its objects were marked in a row" in planner.statuses["a"].message
    world.now = 8.0
    assert world.refresh(planner, "a") == ["a"]
