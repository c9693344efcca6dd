"""A Stack whose definition is unavailable is suspended, and nothing else."""

from __future__ import annotations

import dataclasses

from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.plan.stack.blind_planner import BlindPlanner
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Suspend
from hearth.plan.state.watched_kinds import WatchedKinds
from support.units import blueprints
from support.units.blueprints import World

DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)


def make_blind() -> BlindPlanner:
    """A planner without a definition."""
    return BlindPlanner(
        blueprint=dataclasses.replace(blueprints.make_blueprint({}), is_unknown=True),
        stack=blueprints.STACK,
        kinds=WatchedKinds(served=blueprints.ServedKinds(DEPLOYMENT), unsynced=()),
        hashes=blueprints.HASHER,
        rules=health_rules.DEFAULT_RULES,
        boundary=blueprints.TRUSTED,
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
    """By what the objects record of each other."""
    world, planner = make_world(), make_blind()
    planner.set_suspended(is_suspended=True)
    planned = world.refresh(planner)
    steps = [planner.take_step(key) for key in planned]
    assert [(type(step), step.child.resource) for step in steps if isinstance(step, Suspend)] == [(Suspend, "web")]
    assert len(steps) == 1
    assert not planner.is_complete
    assert (planner.statuses["db"].state, dict(planner.cleanup.children)) == (ResourceState.WAITING, {})


def test_it_plans_nothing_while_the_stack_is_not_suspended() -> None:
    """Without a definition every object would be obsolete."""
    world, planner = make_world(), make_blind()
    assert world.refresh(planner) == []
    planner.set_suspended(is_suspended=True)
    world.refresh(planner)
    planner.set_suspended(is_suspended=False)
    assert world.refresh(planner) == []
    assert (dict(planner.ready_steps), dict(planner.requeues), dict(planner.cleanup.children)) == ({}, {}, {})
    assert (planner.is_ready, planner.is_complete, planner.has_failed(world.memory)) == (False, False, False)


def test_a_resource_without_objects_is_forgotten() -> None:
    """A restart would not know of it."""
    world, planner = make_world(), make_blind()
    planner.set_suspended(is_suspended=True)
    world.refresh(planner)
    assert set(planner.statuses) == {"db", "web"}
    world.children["web"] = []
    world.refresh(planner, "web")
    assert set(planner.statuses) == {"db"}
    assert sum(map(len, planner.by_state.values())) == 1
