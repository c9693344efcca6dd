"""A Stack within a Stack, from its parent's side: who waits within it, and what it is given of the environment."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.engine.stack import stack_requests
from hearth.model import names
from hearth.model.kinds import Kind
from hearth.plan.environment import environment_rules
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Apply, attempt_id
from hearth.plan.status import breakpoint_waits
from support.units import blueprints
from support.units.blueprints import ServedKinds, World

NESTED = Kind(group=names.GROUP, version=names.VERSION, name=names.STACK, plural="stacks", namespaced=True)
DEEP = {"resource": "deep/db", "hook": "PreCreate", "kind": "Probe", "name": "x", "stack": "shop-cache-deep"}
SHOP = breakpoint_waits.StackAddress(name="shop", namespace="prod")
CONTINUE = (
    "kubectl stack continue shop-cache-deep db/PreCreate -n prod, or kubectl annotate --overwrite stack "
    "shop-cache-deep -n prod hearth.dev/continue=db/PreCreate@$(date +%s)"
)


def make_planner(*breakpoints: dict[str, Any]) -> StackPlanner:
    """A planner with one nested Stack, `cache`, under these entries."""
    blueprint = blueprints.make_blueprint({"cache": []}, kind=NESTED)
    cache = dataclasses.replace(blueprint.resources["cache"], is_stack=True)
    blueprint = dataclasses.replace(blueprint, resources={"cache": cache})
    planner = blueprints.make_planner(blueprint, kinds=ServedKinds(NESTED))
    set_breakpoints(planner, *breakpoints)
    return planner


def set_breakpoints(planner: StackPlanner, *breakpoints: dict[str, Any]) -> None:
    """Hold the planner by these entries from now on."""
    planner.set_environment(ActiveEnvironment(rules=environment_rules.parse({"breakpoints": [*breakpoints]}), key="1"))


def take(planner: StackPlanner, world: World) -> Apply | None:
    """What is applied for `cache` now, if anything."""
    world.refresh(planner)
    step = planner.take_step("cache")
    assert step is None or isinstance(step, Apply)
    return step


def make_stopped() -> tuple[StackPlanner, World]:
    """A planner whose `cache` says that `deep/db` waits within it, and nothing else moves there."""
    planner, world = make_planner(), World()
    step = take(planner, world)
    assert step is not None
    condition = {"type": "Ready", "status": "False", "reason": "Stopped", "message": "db waits"}
    world.carry_out(step, status={"observedGeneration": 1, "conditions": [condition], "breakpoints": [DEEP]})
    world.refresh(planner)
    return planner, world


def test_who_waits_within_is_reported_by_path_with_whom_to_annotate() -> None:
    """So the parent is stopped as well: no time runs for it, and no one takes it for busy."""
    planner, world = make_stopped()
    assert (planner.statuses["cache"].state, breakpoint_waits.is_stopped(planner, world.memory)) == (
        ResourceState.STOPPED,
        True,
    )
    assert breakpoint_waits.list_waits(planner) == [{**DEEP, "resource": "cache/deep/db"}]
    said = breakpoint_waits.explain(planner, SHOP)
    assert "cache/deep/db (probe/x) before its creation" in said
    assert CONTINUE in said


def test_an_order_by_path_is_answered_with_whom_to_annotate() -> None:
    """It is not passed on: nothing continues here, and nothing is noted as passed."""
    planner, _ = make_stopped()
    for order in ("cache/deep/db", "cache/deep/db/PreCreate@2"):
        answer = stack_requests.answer_continue(order, planner, SHOP)
        assert answer.passed == ()
        assert f"the nested Stack shop-cache-deep; continue it there: {CONTINUE}" in answer.message
    other = stack_requests.answer_continue("cache/other", planner, SHOP)
    assert (other.passed, "if other waits within stack.hearth.dev/shop-cache" in other.message) == ((), True)


@pytest.mark.parametrize(
    ("wait", "address", "command"),
    [
        pytest.param(
            breakpoint_waits.BreakpointWait(resource="workers[a]", hook="PreUpdate"),
            breakpoint_waits.StackAddress(name="pool", namespace="prod", kind="resourcegroup"),
            "kubectl annotate --overwrite resourcegroup pool -n prod "
            "hearth.dev/continue='workers[a]/PreUpdate'@$(date +%s)",
            id="a member of a group, which the plugin does not continue",
        ),
        pytest.param(
            breakpoint_waits.BreakpointWait(resource="cache/$(id)", hook="PreUpdate", stack="x; rm -rf ~"),
            SHOP,
            "kubectl stack continue 'x; rm -rf ~' '$(id)/PreUpdate' -n prod, or kubectl annotate --overwrite stack "
            "'x; rm -rf ~' -n prod hearth.dev/continue='$(id)/PreUpdate'@$(date +%s)",
            id="a nested Stack whose users forged its status",
        ),
    ],
)
def test_commands_in_messages_are_safe_to_paste(
    wait: breakpoint_waits.BreakpointWait, address: breakpoint_waits.StackAddress, command: str
) -> None:
    """A shell expands nothing of what others wrote."""
    assert address.write_continue(wait) == command


def test_what_is_given_is_written_once_and_taken_out_once() -> None:
    """Nothing is written for a rule that leads elsewhere."""
    planner, world = make_planner(), World()
    first = take(planner, world)
    assert first is not None
    world.carry_out(first)
    set_breakpoints(planner, {"resource": "cache/db", "at": ["PreUpdate"]})
    given = take(planner, world)
    assert given is not None
    assert given.manifest["spec"]["environment"] == {"breakpoints": [{"resource": "db", "at": ["PreUpdate"]}]}
    assert given.hash == first.hash
    assert attempt_id(given) != attempt_id(first)
    world.carry_out(given)
    assert take(planner, world) is None
    set_breakpoints(planner, {"resource": "cache/db", "at": ["PreUpdate"]}, {"resource": "a/b", "at": ["PreUpdate"]})
    assert take(planner, world) is None
    set_breakpoints(planner)
    taken = take(planner, world)
    assert taken is not None
    assert "spec" not in taken.manifest
    world.carry_out(taken)
    assert take(planner, world) is None


def test_what_is_given_is_no_update_of_the_nested_stack() -> None:
    """A breakpoint of its own stops a change of its definition alone."""
    planner, world = make_planner({"resource": "cache", "at": ["PreUpdate"]}), World()
    first = take(planner, world)
    assert first is not None
    world.carry_out(first)
    set_breakpoints(planner, {"resource": "cache", "at": ["PreUpdate"]}, {"resource": "c*/db", "at": ["PreUpdate"]})
    assert take(planner, world) is not None
