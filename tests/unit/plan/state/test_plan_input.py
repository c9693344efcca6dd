"""What a planner plans again because its input differs from the previous one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model.stack_tree import Node
from hearth.plan.environment import environment_rules
from hearth.plan.environment.active_environment import ActiveEnvironment, ClearedBreakpoints
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.cleanup_policy import CleanupPolicy
from hearth.plan.state.healing import HealingPolicy
from hearth.plan.target.target import DetachedSet, Target, TargetCause
from support.units import blueprints
from support.units.blueprints import World

RULES = environment_rules.parse({"breakpoints": [{"resource": "a", "at": ["PreUpdate"]}]})
BEFORE = ActiveEnvironment(rules=RULES, key="1")
TARGET = Target(revision=1, cause=TargetCause.SPEC, since=0.0)
SET = DetachedSet(resource="a", incarnation=1, namespace="default", name="a", uid="uid-1")
CIRCLE = Node(uid="stack-1", namespace="default", name="shop", parent="stack-1")
ALL = {"a", "b", "nested"}


def settle(**given: Any) -> tuple[World, StackPlanner]:
    """Two resources and a nested Stack, all planned with that input."""
    blueprint = blueprints.make_blueprint({"a": [], "b": ["a"], "nested": []})
    nested = dataclasses.replace(blueprint.resources["nested"], is_stack=True)
    blueprint = dataclasses.replace(blueprint, resources={**blueprint.resources, "nested": nested})
    plan_input = dataclasses.replace(blueprints.TRUSTED_INPUT, target=TARGET, **given)
    world, planner = World(), blueprints.make_planner(blueprint, plan_input=plan_input)
    world.settle(planner)
    return world, planner


@pytest.mark.parametrize(
    ("changes", "dirty"),
    [
        pytest.param({}, set(), id="nothing"),
        pytest.param({"boundary": dataclasses.replace(blueprints.TRUSTED, account="other")}, ALL, id="another account"),
        pytest.param({"is_paused": True}, ALL, id="paused"),
        pytest.param({"is_suspended": True}, ALL, id="suspended"),
        pytest.param({"retries": ("1", "")}, {"nested"}, id="a retry concerns nested Stacks"),
        pytest.param({"circle": (CIRCLE,)}, ALL, id="nested in itself"),
        pytest.param({"retry_limit": 1}, set(), id="a limit without failures"),
        pytest.param({"target": blueprints.COMPLETED}, set(), id="completed: only failures are healed differently"),
        pytest.param({"target": dataclasses.replace(TARGET, detached=(SET,))}, {"a"}, id="a detached StatefulSet"),
        pytest.param({"healing": HealingPolicy(max_unhealthy=1)}, set(), id="healing: only failures"),
        pytest.param({"cleanup": CleanupPolicy(is_waived=True)}, set(), id="cleanup: only obsolete objects"),
        pytest.param({"environment": ActiveEnvironment(key="2")}, set(), id="another key without rules"),
        pytest.param({"environment": ActiveEnvironment(rules=RULES)}, ALL, id="rules"),
    ],
)
def test_a_change_of_the_input_plans_what_depends_on_it(changes: dict[str, Any], dirty: set[str]) -> None:
    world, planner = settle()
    assert world.plan(planner, **changes).dirty == dirty
    assert world.plan(planner, **changes).dirty == set()


@pytest.mark.parametrize(
    ("after", "dirty"),
    [
        pytest.param(dataclasses.replace(BEFORE, key="2"), ALL, id="another target"),
        pytest.param(dataclasses.replace(BEFORE, cleared=ClearedBreakpoints(keys=("a/PreUpdate",))), {"a"}, id="one"),
        pytest.param(
            dataclasses.replace(BEFORE, cleared=ClearedBreakpoints(keys=("w[*]/PreUpdate",))), ALL, id="all members"
        ),
        pytest.param(dataclasses.replace(BEFORE, previous_resources=frozenset({"a"})), set(), id="nothing cleared"),
    ],
)
def test_a_cleared_breakpoint_plans_its_resource(after: ActiveEnvironment, dirty: set[str]) -> None:
    world, planner = settle(environment=BEFORE)
    assert world.plan(planner, environment=after).dirty == dirty


def test_the_cleanup_follows_its_policy_at_once() -> None:
    world, _ = blueprints.settle(blueprints.make_blueprint({"a": [], "old": []}))
    planner = blueprints.make_planner(blueprints.make_blueprint({"a": [], "failed": []}))
    world.refresh(planner)
    [old] = world.of("old")
    assert old.uid not in planner.ready_steps
    assert world.plan(planner, cleanup=CleanupPolicy(is_waived=True)).planned == [old.uid]


def test_a_planner_that_has_not_planned_is_not_suspended() -> None:
    plan_input = dataclasses.replace(blueprints.TRUSTED_INPUT, is_suspended=True)
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}), plan_input=plan_input)
    assert not planner.is_complete
    world.plan(planner)
    assert planner.is_suspended
