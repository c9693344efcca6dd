"""What is planned for drift while no step may start."""

from __future__ import annotations

import pytest

from hearth.model import packing
from hearth.model.child import FieldOwnership
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Apply
from hearth.plan.status import check_result
from hearth.template.blueprint import Evaluable
from support.units import blueprints, changed_children
from support.units.blueprints import Constant, Reading, World

NOTHING_OWNED = FieldOwnership(fields=packing.pack({}))


def make_planner() -> StackPlanner:
    """A planner of `a`, and of `b`, which is made from it."""
    made = Reading(
        make=lambda values: {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": (values["a"] or {})["data"],
        },
        reads={},
    )
    manifests: dict[str, Evaluable] = {
        "a": Constant({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}}),
        "b": made,
    }
    return blueprints.make_planner(blueprints.make_blueprint({"a": [], "b": ["a"]}, manifests=manifests))


@pytest.fixture
def world() -> World:
    """Both are there, and a user has changed `a`."""
    made = World()
    made.settle(make_planner())
    child = made.of("a")[0]
    fields = {**child.fields, "data": {"x": "9"}}
    made.children["a"] = [changed_children.with_fields(child, fields, resource_version=77, ownership=NOTHING_OWNED)]
    return made


def test_at_rest_the_resource_and_what_is_made_from_it_stay_ready(world: World) -> None:
    """Only the repair is planned, not a change of what would be made from the drifted values."""
    planner = make_planner()
    planner.set_paused(is_paused=True, is_completed=True)
    assert world.refresh(planner) == ["a"]
    assert [each.state for each in planner.statuses.values()] == [ResourceState.READY, ResourceState.READY]
    assert [each.type for each in planner.conditions.conditions()] == ["Drifted"]


def test_before_the_target_is_completed_what_drifted_is_not_ready(world: World) -> None:
    """Else a revision could count as complete that never was."""
    planner = make_planner()
    planner.set_paused(is_paused=True, is_completed=False)
    world.refresh(planner)
    states = [each.state for each in planner.statuses.values()]
    assert states == [ResourceState.PROGRESSING, ResourceState.WAITING]
    assert [each.type for each in planner.conditions.conditions()] == ["Drifted"]
    assert [(name, found.reason) for name, found in check_result.find(planner)] == [("a", "Drifted")]


def test_a_change_of_the_pause_plans_everything_again(world: World) -> None:
    """Then the repair may start, and nothing is said of drift."""
    planner = make_planner()
    assert planner.set_paused(is_paused=True, is_completed=True)
    assert not planner.set_paused(is_paused=True, is_completed=True)
    world.refresh(planner)
    assert planner.set_paused(is_paused=False, is_completed=True)
    assert world.refresh(planner) == ["a"]
    assert isinstance(planner.ready_steps["a"], Apply)
    assert list(planner.conditions.conditions()) == []
    assert planner.statuses["b"].state is ResourceState.WAITING
    assert not planner.set_paused(is_paused=False, is_completed=False)
