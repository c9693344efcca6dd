"""What one plan changes in the in-memory state of a Stack."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.plan import stack_plan
from hearth.plan.environment import environment_rules
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.retry.backoff import Attempt, RemovalAttempt
from hearth.plan.stack.plan_index import PlanResult
from hearth.plan.state.memory import Observation
from support.units import blueprints
from support.units.blueprints import World

LATER = 60.0
FAILED = Attempt(
    attempt_id=RemovalAttempt(uid="x"), failures=2, retry_at=LATER, reason="Denied", message="no", is_final=False
)


def plan(world: World, planner: Any, **changes: Any) -> PlanResult:
    """One plan. changes: of the planner's input."""
    plan_input = dataclasses.replace(planner.input, **changes)
    observation = Observation(children=world, memory=world.memory, now=world.now)
    return stack_plan.plan_stack(planner, plan_input, observation, (), is_full=False)


@pytest.mark.parametrize(
    ("changes", "attempts"),
    [
        pytest.param({}, {"x": FAILED}, id="nothing"),
        pytest.param(
            {"boundary": dataclasses.replace(blueprints.TRUSTED, account="other")},
            {"x": dataclasses.replace(FAILED, failures=0, retry_at=0.0)},
            id="another account has other rights",
        ),
        pytest.param({"is_suspended": True}, {}, id="failures while running do not count against suspending"),
        pytest.param({"retry_limit": 1}, {"x": dataclasses.replace(FAILED, limit=1)}, id="another limit"),
    ],
)
def test_a_change_of_the_input_ends_failures(changes: dict[str, Any], attempts: dict[str, Attempt]) -> None:
    world, planner = blueprints.settle(blueprints.make_blueprint({"a": []}))
    world.memory.attempts["x"] = FAILED
    plan(world, planner, **changes)
    assert world.memory.attempts == attempts


def test_another_limit_plans_every_resource_again() -> None:
    world, planner = blueprints.settle(blueprints.make_blueprint({"a": [], "b": []}))
    world.memory.attempts["x"] = FAILED
    assert plan(world, planner, retry_limit=1).dirty == {"a", "b"}


def test_the_result_says_whether_anything_is_left_to_do() -> None:
    world, planner = blueprints.settle(blueprints.make_blueprint({"a": []}))
    complete = plan(world, planner)
    rules = environment_rules.parse({"breakpoints": [{"resource": "a", "at": ["PreUpdate"]}]})
    stopping = blueprints.make_planner(
        blueprints.make_blueprint({"a": []}, manifests={"a": blueprints.Constant({"data": {"changed": "1"}})})
    )
    stopped = plan(world, stopping, environment=ActiveEnvironment(rules=rules))
    assert (complete.is_complete, complete.is_stopped) == (True, False)
    assert (stopped.is_complete, stopped.is_stopped) == (False, True)
