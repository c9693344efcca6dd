"""The order of suspending resources, compared with a model that checks everything each time, and without a
definition.
"""

from __future__ import annotations

import dataclasses
import random

import pytest

from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.plan.stack.blind_planner import BlindPlanner
from hearth.plan.stack.suspend_planner import SuspendOrder
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Suspend
from hearth.plan.state.watched_kinds import WatchedKinds
from support.units import blueprints
from support.units.blueprints import World


def is_down(name: str, requires: dict[str, frozenset[str]], running: set[str]) -> bool:
    """Whether neither a resource nor anything above it runs, ignoring cycles."""
    above = [other for other, needed in requires.items() if name in needed and other != name]
    return name not in running and all(is_down(each, requires, running) for each in above)


def find_free(requires: dict[str, frozenset[str]], running: set[str]) -> set[str]:
    """The resources that may be suspended: they run, and everything above them is down."""
    return {
        name
        for name in running
        if all(is_down(other, requires, running) for other, needed in requires.items() if name in needed)
    }


@pytest.mark.parametrize("seed", range(30))
def test_one_goes_once_all_above_it_are_down(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"r{number}" for number in range(8)]
    requires: dict[str, frozenset[str]] = dict.fromkeys(names, frozenset())
    running: set[str] = set()
    descent = SuspendOrder()
    known: set[str] = set()
    for _ in range(60):
        at = chance.randrange(len(names))
        name = names[at]
        requires[name] = frozenset(chance.sample(names[:at], k=min(at, chance.randrange(4))))
        running ^= {name} if chance.random() < 0.5 else set()
        descent.update(name, requires[name], is_running=name in running)
        free = find_free(requires, running)
        assert {each for each in names if descent.may_suspend(each)} == free
        assert known ^ free <= descent.take_changed()
        known = free


def test_a_circle_goes_as_a_whole_once_nothing_else_can() -> None:
    descent = SuspendOrder()
    descent.update("a", frozenset({"b"}), is_running=True)
    descent.update("b", frozenset({"a"}), is_running=True)
    descent.update("c", frozenset({"a"}), is_running=True)
    assert [name for name in "abc" if descent.may_suspend(name)] == ["c"]
    descent.take_changed()
    descent.update("c", frozenset({"a"}), is_running=False)
    assert [name for name in "abc" if descent.may_suspend(name)] == ["a", "b"]
    assert descent.take_changed() >= {"a", "b"}
    descent.update("a", frozenset({"b"}), is_running=False)
    descent.update("b", frozenset({"a"}), is_running=False)
    assert not descent.running


def test_what_a_circle_requires_waits_for_it() -> None:
    descent = SuspendOrder()
    descent.update("base", frozenset(), is_running=True)
    descent.update("a", frozenset({"b", "base"}), is_running=True)
    descent.update("b", frozenset({"a"}), is_running=True)
    assert [name for name in descent.running if descent.may_suspend(name)] == ["a", "b"]
    descent.update("a", frozenset({"b", "base"}), is_running=False)
    assert [name for name in descent.running if descent.may_suspend(name)] == ["b"]
    descent.take_changed()
    descent.update("b", frozenset({"a"}), is_running=False)
    assert [name for name in descent.running if descent.may_suspend(name)] == ["base"]
    assert "base" in descent.take_changed()


def test_a_circle_goes_after_the_circle_that_requires_it() -> None:
    descent = SuspendOrder()
    for name, required in (("a", "bc"), ("b", "a"), ("c", "d"), ("d", "c")):
        descent.update(name, frozenset(required), is_running=True)
    assert [name for name in descent.running if descent.may_suspend(name)] == ["a", "b"]
    descent.update("a", frozenset("bc"), is_running=False)
    descent.take_changed()
    descent.update("b", frozenset("a"), is_running=False)
    assert [name for name in descent.running if descent.may_suspend(name)] == ["c", "d"]
    assert descent.take_changed() >= {"c", "d"}


@pytest.mark.parametrize("seed", range(30))
def test_every_resource_goes_once_all_others_above_it_are_down_despite_circles(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"r{number}" for number in range(8)]
    requires = {name: frozenset(chance.sample(names, k=chance.randrange(3))) - {name} for name in names}
    running = {name for name in names if chance.random() < 0.8}
    descent = SuspendOrder()
    for name in names:
        descent.update(name, requires[name], is_running=name in running)
    known: set[str] = set()
    while running:
        free = {name for name in names if descent.may_suspend(name)}
        assert free - known <= descent.take_changed()
        assert free, f"all wait for each other: {sorted(running)}"
        for name in free:
            above = {other for other in running if name in find_below(other, requires)}
            assert above <= find_below(name, requires)
        gone = chance.choice(sorted(free))
        running.remove(gone)
        descent.update(gone, requires[gone], is_running=False)
        known = free


def find_below(name: str, requires: dict[str, frozenset[str]]) -> set[str]:
    """A resource with all its direct and indirect requirements."""
    found: set[str] = set()
    queue = {name}
    while queue:
        found |= queue
        queue = {required for each in queue for required in requires[each]} - found
    return found


def test_a_long_chain_is_no_trouble() -> None:
    descent = SuspendOrder()
    for number in range(5_000):
        descent.update(f"r{number}", frozenset({f"r{number + 1}"}), is_running=number == 0)
    assert descent.may_suspend("r0")
    descent.update("r5000", frozenset(), is_running=True)
    assert not descent.may_suspend("r5000")
    descent.update("r0", frozenset({"r1"}), is_running=False)
    assert descent.may_suspend("r5000")


def test_members_go_after_the_dependents_of_their_whole_collection() -> None:
    descent = SuspendOrder()
    descent.update("w[a]", frozenset(), is_running=True)
    descent.update("front", frozenset({"w[*]"}), is_running=True)
    descent.update("w[b]", frozenset({"base"}), is_running=True)
    descent.update("base", frozenset(), is_running=True)
    assert [name for name in descent.running if descent.may_suspend(name)] == ["front"]
    descent.take_changed()
    descent.update("front", frozenset({"w[*]"}), is_running=False)
    assert descent.take_changed() >= {"w[a]", "w[b]"}
    assert [name for name in descent.running if descent.may_suspend(name)] == ["w[a]", "w[b]"]
    descent.update("w[b]", frozenset({"base"}), is_running=False)
    assert descent.may_suspend("base")


# ---------------------------------------------------------------- Stacks whose definition is unavailable

DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)


def make_blind() -> BlindPlanner:
    """A planner without a definition."""
    return BlindPlanner(
        blueprint=dataclasses.replace(blueprints.make_blueprint({}), is_unknown=True),
        stack=blueprints.STACK,
        kinds=WatchedKinds(served=blueprints.ServedKinds(DEPLOYMENT), unsynced=()),
        hashes=blueprints.HASHER,
        rules=health_rules.DEFAULT_RULES,
        plan_input=blueprints.TRUSTED_INPUT,
    )


def make_world() -> World:
    """A Deployment `web` that requires another one, `db`."""
    world = World()
    served = blueprints.ServedKinds(DEPLOYMENT)
    requires: dict[str, list[str]] = {"db": [], "web": []}
    manifest = blueprints.Constant({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2}})
    blueprint = blueprints.make_blueprint(requires, kind=DEPLOYMENT, manifests={"db": manifest, "web": manifest})
    planner = blueprints.make_planner(blueprint, kinds=served)
    world.settle(planner)
    world.children["web"] = [dataclasses.replace(each, requires=("db/1",)) for each in world.of("web")]
    return world


def test_it_suspends_what_is_there_in_order() -> None:
    world, planner = make_world(), make_blind()
    planned = world.refresh(planner, is_suspended=True)
    steps = [planner.take_step(key) for key in planned]
    assert [(type(step), step.child.resource) for step in steps if isinstance(step, Suspend)] == [(Suspend, "web")]
    assert len(steps) == 1
    assert not planner.is_complete
    assert (planner.statuses["db"].state, dict(planner.cleanup.children)) == (ResourceState.WAITING, {})


def test_it_plans_nothing_while_the_stack_is_not_suspended() -> None:
    world, planner = make_world(), make_blind()
    assert world.refresh(planner) == []
    world.refresh(planner, is_suspended=True)
    assert world.refresh(planner, is_suspended=False) == []
    assert (dict(planner.ready_steps), dict(planner.requeues), dict(planner.cleanup.children)) == ({}, {}, {})
    assert (planner.is_ready, planner.is_complete, planner.has_failed(world.memory)) == (False, False, False)


def test_a_resource_without_objects_is_forgotten() -> None:
    world, planner = make_world(), make_blind()
    world.refresh(planner, is_suspended=True)
    assert set(planner.statuses) == {"db", "web"}
    world.children["web"] = []
    world.refresh(planner, "web")
    assert set(planner.statuses) == {"db"}
    assert sum(map(len, planner.by_state.values())) == 1
