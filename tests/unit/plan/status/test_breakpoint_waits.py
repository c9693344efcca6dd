"""Breakpoints and restricted actions of a resource, how the status reports them, and waits inside nested Stacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from hearth.engine.stack import stack_requests
from hearth.model import names
from hearth.model.kinds import Kind
from hearth.plan.environment import environment_rules
from hearth.plan.environment.active_environment import ActiveEnvironment, ClearedBreakpoints
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Apply, Delete, attempt_id
from hearth.plan.status import breakpoint_waits
from support.units import blueprints
from support.units.blueprints import Constant, ServedKinds, World

KEY = "4"


def make_environment(
    *passed: str, stops: Mapping[str, Any] | None = None, denies: Mapping[str, Any] | None = None, **extra: Any
) -> ActiveEnvironment:
    """Breakpoint hooks and denied actions by resource. passed: `a/PreCreate`; extra: further `ClearedBreakpoints`."""
    rules = environment_rules.parse(
        {
            "breakpoints": [{"resource": name, "at": hooks} for name, hooks in (stops or {}).items()],
            "restrictedActions": [{"resource": name, "deny": actions} for name, actions in (denies or {}).items()],
        }
    )
    return ActiveEnvironment(rules=rules, key=KEY, cleared=ClearedBreakpoints(keys=passed, **extra))


def make_planner(requires: Mapping[str, list[str]], environment: ActiveEnvironment, **data: str) -> StackPlanner:
    """A planner that follows that environment. data: the intended data of each resource's object."""
    manifests = {
        name: Constant({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": value}})
        for name, value in data.items()
    }
    plan_input = dataclasses.replace(blueprints.TRUSTED_INPUT, environment=environment)
    return blueprints.make_planner(blueprints.make_blueprint(requires, manifests=manifests), plan_input=plan_input)


def waiting(planner: StackPlanner) -> list[str]:
    """The waiting resources and their hooks."""
    return [f"{wait.resource}/{wait.hook}" for wait in breakpoint_waits.find_waits(planner)]


def test_what_is_not_there_stops_before_its_creation_alone() -> None:
    environment = make_environment(stops={"*": ["PreUpdate", "PreReplace", "PreDelete"], "a": ["PreCreate"]})
    world, planner = World(), make_planner({"a": [], "b": ["a"], "c": []}, environment)
    assert world.refresh(planner) == ["c"]
    assert (waiting(planner), planner.statuses["b"].state) == (["a/PreCreate"], ResourceState.WAITING)


def test_what_was_passed_continues() -> None:
    environment = make_environment("a/PreCreate", stops={"a": ["PreCreate", "PostCreate"]})
    world, planner = World(), make_planner({"a": [], "b": ["a"]}, environment)
    world.settle(planner)
    assert (waiting(planner), sorted(world.resources())) == (["a/PostCreate"], ["a"])
    assert planner.statuses["a"].state is ResourceState.STOPPED


def test_what_stops_when_it_is_done_counts_as_having_been_ready() -> None:
    world, planner = World(), make_planner({"a": []}, make_environment(stops={"a": ["PostCreate"]}))
    world.refresh(planner)
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    child = world.carry_out(step)
    world.memory.never_ready[child.uid] = None
    world.refresh(planner)
    assert (waiting(planner), child.uid in world.memory.never_ready) == (["a/PostCreate"], False)


def test_a_word_on_an_object_counts_for_its_revision_alone() -> None:
    world, planner = World(), make_planner({"a": []}, make_environment(stops={"a": ["PostCreate"]}))
    world.settle(planner)
    later = make_planner({"a": []}, ActiveEnvironment(rules=planner.environment.rules, key=f"{KEY}-60"))
    world.refresh(later)
    assert (waiting(planner), waiting(later)) == (["a/PostCreate"], [])


def test_a_change_stops_before_it_and_a_repair_does_not() -> None:
    world = World()
    world.settle(make_planner({"a": []}, make_environment(), a="old"))
    environment = make_environment(stops={"a": ["PreUpdate", "PreCreate"]})
    repaired = make_planner({"a": []}, environment, a="old")
    world.memory.ownership_baseline.clear()
    assert world.refresh(repaired) == ["a"]
    step = repaired.ready_steps["a"]
    assert isinstance(step, Apply)
    assert step.repaired_fields
    changed = make_planner({"a": []}, environment, a="new")
    assert (world.refresh(changed), waiting(changed)) == ([], ["a/PreUpdate"])


def test_what_vanished_is_no_creation() -> None:
    environment = make_environment(stops={"a": ["PreCreate", "PreReplace", "PostReplace"]})
    planner = make_planner(
        {"a": []}, ActiveEnvironment(rules=environment.rules, key=KEY, previous_resources=frozenset({"a"}))
    )
    world = World()
    world.settle(planner)
    assert waiting(planner) == ["a/PostReplace"]


@pytest.mark.parametrize(
    ("denied", "is_restricted"),
    [
        pytest.param("Update", True, id="an update"),
        pytest.param("Replace", False, id="a replacement, which this is not"),
        pytest.param("Delete", False, id="a deletion, which this is not"),
    ],
)
def test_what_is_denied_is_not_done(denied: str, is_restricted: bool) -> None:
    world = World()
    world.settle(make_planner({"a": []}, make_environment(), a="old"))
    planner = make_planner({"a": []}, make_environment(denies={"a": [denied]}), a="new")
    planned = world.refresh(planner)
    assert (planned == [], planner.statuses["a"].reason == "Restricted") == (is_restricted, is_restricted)
    assert planner.has_failed(world.memory) is is_restricted


def test_what_is_denied_does_not_stop_first() -> None:
    world = World()
    world.settle(make_planner({"a": []}, make_environment(), a="old"))
    planner = make_planner({"a": []}, make_environment(stops={"a": ["PreUpdate"]}, denies={"*": ["Update"]}), a="new")
    world.refresh(planner)
    assert (waiting(planner), planner.statuses["a"].state) == ([], ResourceState.FAILED)


def removed(environment: ActiveEnvironment) -> tuple[World, StackPlanner]:
    """A Stack where `a` and `b` (which requires `a`) are removed and `c` stays."""
    world = World()
    world.settle(make_planner({"a": [], "b": ["a"], "c": []}, make_environment()))
    planner = make_planner({"c": []}, environment)
    world.refresh(planner)
    return world, planner


def deleted(planner: StackPlanner) -> list[str]:
    """The resources whose objects may be deleted now."""
    return [step.child.resource for step in planner.ready_steps.values() if isinstance(step, Delete)]


def test_a_removed_resource_stops_before_its_deletion() -> None:
    _, planner = removed(make_environment(stops={"b": ["PreDelete"]}))
    assert (deleted(planner), waiting(planner), planner.is_complete) == ([], ["b/PreDelete"], False)


def test_a_denied_deletion_is_a_failure() -> None:
    world, planner = removed(make_environment(denies={"b": ["Delete"]}))
    assert (deleted(planner), waiting(planner), planner.has_failed(world.memory)) == ([], [], True)
    world.refresh(planner, environment=make_environment())
    assert (deleted(planner), planner.has_failed(world.memory)) == (["b"], False)


def test_a_deletion_that_stops_afterwards_is_recorded_before_it() -> None:
    world, planner = removed(make_environment(stops={"b": ["PostDelete"]}))
    assert (deleted(planner), world.parting) == ([], {"b": ("a",)})


def test_what_a_resource_required_that_stops_after_its_deletion_goes_later() -> None:
    environment = make_environment(stops={"b": ["PostDelete"]}, post_delete={"b": ("a",)})
    world, planner = removed(environment)
    assert deleted(planner) == ["b"]
    world.children["b"] = []
    world.refresh(planner, "b")
    assert (deleted(planner), waiting(planner), planner.is_complete) == ([], ["b/PostDelete"], False)
    passed = make_environment("b/PostDelete", stops={"b": ["PostDelete"]}, post_delete={"b": ("a",)})
    world.refresh(planner, "b", environment=passed)
    assert (deleted(planner), waiting(planner)) == (["a"], [])


def test_it_is_stopped_once_nothing_else_can_move() -> None:
    world, planner = World(), make_planner({"a": [], "b": []}, make_environment(stops={"a": ["PreCreate"]}))
    world.refresh(planner)
    assert not breakpoint_waits.is_stopped(planner, world.memory)
    world.settle(planner)
    assert breakpoint_waits.is_stopped(planner, world.memory)
    world.refresh(planner, environment=make_environment())
    world.settle(planner)
    assert not breakpoint_waits.is_stopped(planner, world.memory)


def test_a_step_carries_the_word_only_where_a_stop_follows() -> None:
    world, planner = World(), make_planner({"a": [], "b": []}, make_environment(stops={"a": ["PostCreate"]}))
    world.refresh(planner)
    said = {
        name: step.manifest["metadata"]["annotations"].get(names.ANNOTATION_POST_BREAKPOINT)
        for name, step in planner.ready_steps.items()
        if isinstance(step, Apply)
    }
    assert said == {"a": f"PostCreate@{KEY}", "b": None}


def test_a_rule_about_nothing_is_reported() -> None:
    _, planner = removed(make_environment(stops={"b": ["PreDelete"], "z": ["PreCreate"]}))
    assert [text for text in breakpoint_waits.warn(planner) if "'z'" not in text] == []
    assert len(breakpoint_waits.warn(planner)) == 1


def test_a_hash_that_another_key_made_says_nothing_of_a_change() -> None:
    world = World()
    [child] = [world.carry_out(step) for step in first_steps(world)]
    stranger = dataclasses.replace(child, hash="k00000000:" + "0" * 32)
    world.children["a"] = [stranger]
    planner = make_planner({"a": []}, make_environment(stops={"a": ["PreUpdate"]}, denies={"a": ["Update"]}))
    assert (world.refresh(planner), waiting(planner)) == (["a"], [])


def first_steps(world: World) -> list[Apply]:
    """The first applies of a Stack with one resource."""
    planner = make_planner({"a": []}, make_environment())
    world.refresh(planner)
    return [step for step in planner.ready_steps.values() if isinstance(step, Apply)]


# ---------------------------------------------------------------- a Stack within a Stack, from its parent's side

NESTED = Kind(group=names.GROUP, version=names.VERSION, name=names.STACK, plural="stacks", namespaced=True)
DEEP = {"resource": "deep/db", "hook": "PreCreate", "kind": "Probe", "name": "x", "stack": "shop-cache-deep"}
SHOP = breakpoint_waits.StackAddress(name="shop", namespace="prod")
CONTINUE = (
    "kubectl stack continue shop-cache-deep db/PreCreate -n prod, or kubectl annotate --overwrite stack "
    "shop-cache-deep -n prod hearth.dev/continue=db/PreCreate@$(date +%s)"
)


def make_nested_planner(*breakpoints: dict[str, Any]) -> StackPlanner:
    """A planner with one nested Stack, `cache`, under these entries."""
    blueprint = blueprints.make_blueprint({"cache": []}, kind=NESTED)
    cache = dataclasses.replace(blueprint.resources["cache"], is_stack=True)
    blueprint = dataclasses.replace(blueprint, resources={"cache": cache})
    plan_input = dataclasses.replace(blueprints.TRUSTED_INPUT, environment=make_breakpoints(*breakpoints))
    return blueprints.make_planner(blueprint, kinds=ServedKinds(NESTED), plan_input=plan_input)


def make_breakpoints(*breakpoints: dict[str, Any]) -> ActiveEnvironment:
    """An environment with these breakpoints."""
    return ActiveEnvironment(rules=environment_rules.parse({"breakpoints": [*breakpoints]}), key="1")


def take(planner: StackPlanner, world: World, **changes: Any) -> Apply | None:
    """The apply of `cache` that is due now, if any. changes: of the planner's input."""
    world.refresh(planner, **changes)
    step = planner.take_step("cache")
    assert step is None or isinstance(step, Apply)
    return step


def make_stopped() -> tuple[StackPlanner, World]:
    """A planner whose `cache` reports that `deep/db` waits in it and nothing else makes progress."""
    planner, world = make_nested_planner(), World()
    step = take(planner, world)
    assert step is not None
    condition = {"type": "Ready", "status": "False", "reason": "Stopped", "message": "db waits"}
    world.carry_out(step, status={"observedGeneration": 1, "conditions": [condition], "breakpoints": [DEEP]})
    world.refresh(planner)
    return planner, world


def test_who_waits_within_is_reported_by_path_with_whom_to_annotate() -> None:
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
    planner, _ = make_stopped()
    for order in ("cache/deep/db", "cache/deep/db/PreCreate@2"):
        answer = stack_requests.answer_continue(order, planner, SHOP)
        assert answer.passed == ()
        assert f"the nested Stack shop-cache-deep; continue it there: {CONTINUE}" in answer.message
    other = stack_requests.answer_continue("cache/other", planner, SHOP)
    assert (other.passed, "if other waits within stack.hearth.dev/shop-cache" in other.message) == ((), True)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("stack", "kubectl stack retry shop -n prod"),
        ("resourcegroup", "kubectl stack retry resourcegroup/shop -n prod"),
        ("webapp.platform.example", "kubectl stack retry webapp.platform.example/shop -n prod"),
    ],
)
def test_a_request_is_offered_as_a_command_of_the_plugin(kind: str, command: str) -> None:
    address = breakpoint_waits.StackAddress(name="shop", namespace="prod", kind=kind)
    assert address.write_request("retry") == command


@pytest.mark.parametrize(
    ("wait", "address", "command"),
    [
        pytest.param(
            breakpoint_waits.BreakpointWait(resource="workers[a]", hook="PreUpdate"),
            breakpoint_waits.StackAddress(name="pool", namespace="prod", kind="resourcegroup"),
            "kubectl stack continue resourcegroup/pool 'workers[a]/PreUpdate' -n prod, or "
            "kubectl annotate --overwrite resourcegroup pool -n prod "
            "hearth.dev/continue='workers[a]/PreUpdate'@$(date +%s)",
            id="a member of a group",
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
    assert address.write_continue(wait) == command


def test_what_is_given_is_written_once_and_taken_out_once() -> None:
    planner, world = make_nested_planner(), World()
    first = take(planner, world)
    assert first is not None
    world.carry_out(first)
    environment = make_breakpoints({"resource": "cache/db", "at": ["PreUpdate"]})
    given = take(planner, world, environment=environment)
    assert given is not None
    assert given.manifest["spec"]["environment"] == {"breakpoints": [{"resource": "db", "at": ["PreUpdate"]}]}
    assert given.hash == first.hash
    assert attempt_id(given) != attempt_id(first)
    world.carry_out(given)
    assert take(planner, world) is None
    environment = make_breakpoints(
        {"resource": "cache/db", "at": ["PreUpdate"]}, {"resource": "a/b", "at": ["PreUpdate"]}
    )
    assert take(planner, world, environment=environment) is None
    taken = take(planner, world, environment=make_breakpoints())
    assert taken is not None
    assert "spec" not in taken.manifest
    world.carry_out(taken)
    assert take(planner, world) is None


def test_what_is_given_is_no_update_of_the_nested_stack() -> None:
    planner, world = make_nested_planner({"resource": "cache", "at": ["PreUpdate"]}), World()
    first = take(planner, world)
    assert first is not None
    world.carry_out(first)
    environment = make_breakpoints(
        {"resource": "cache", "at": ["PreUpdate"]}, {"resource": "c*/db", "at": ["PreUpdate"]}
    )
    assert take(planner, world, environment=environment) is not None
