"""A process's memory of objects ends with the objects."""

from __future__ import annotations

import copy
import dataclasses

from hearth.plan.retry.backoff import Attempt, DriftConflict, RemovalAttempt
from hearth.plan.state import memory as world_module
from hearth.plan.state.resource_status import OwnershipSeen, ResourceReady
from hearth.template.blueprint import DriftPolicy
from support.units import blueprints
from support.units.blueprints import World

DENIED = Attempt(
    attempt_id=RemovalAttempt(uid="x"), failures=1, retry_at=0.0, reason="Denied", message="no", is_final=False
)
PAIR = blueprints.make_blueprint({"kept": [], "lost": []})


def test_what_is_made_again_and_again_is_forgotten_in_time() -> None:
    world, planner = World(), blueprints.make_planner(PAIR)
    world.settle(planner)
    memory = world.memory
    [kept] = world.of("kept")
    memory.never_ready[kept.uid] = None
    most = 0
    for number in range(3 * world_module.SLACK):
        gone = f"gone-{number}"
        memory.ownership_baseline[gone] = ("hash", kept.ownership)
        for uids in (memory.never_ready, memory.counted_failures):
            uids[gone] = None
        memory.prune(world)
        most = max(most, len(memory.ownership_baseline), len(memory.never_ready), len(memory.counted_failures))

    assert most <= 2 * len(PAIR.resources) + world_module.SLACK + 1
    assert kept.uid in memory.never_ready


def test_a_large_stack_is_not_looked_through_at_every_pass() -> None:
    looks = 0

    class Counted(World):
        def resources(self) -> list[str]:
            nonlocal looks
            looks += 1
            return list(super().resources())

    world = Counted()
    world.settle(blueprints.make_planner(blueprints.make_blueprint({f"a{number}": [] for number in range(1000)})))
    looks = 0
    uids = [child.uid for name in list(World.resources(world)) for child in world.of(name)]
    for uid in uids:
        world.memory.never_ready[uid] = None
        world.memory.prune(world)

    assert looks <= 4


def test_planning_only_reads_what_is_remembered() -> None:
    blueprint = blueprints.make_blueprint({"kept": [], "lost": []})
    report = {
        name: dataclasses.replace(each, drift_policy=DriftPolicy.REPORT) for name, each in blueprint.resources.items()
    }
    world, planner = World(), blueprints.make_planner(dataclasses.replace(blueprint, resources=report))
    world.settle(planner)
    [kept], [lost] = world.of("kept"), world.of("lost")
    assert lost.ownership is not None
    world.children["lost"] = [dataclasses.replace(lost, ownership=None), dataclasses.replace(kept, resource="lost")]
    memory = world.memory
    memory.ownership_baseline.clear()
    memory.never_ready[kept.uid] = None
    memory.attempts["kept"] = DENIED
    memory.drift_conflicts["kept"] = DriftConflict(repairs=3, next_repair=1.0, expires_at=2.0, fields="data.a")
    world.now = 3.0
    before = copy.deepcopy(memory)

    result = world.plan(planner, is_full=True)
    assert memory == before
    assert {OwnershipSeen, ResourceReady} <= {type(update) for update in result.memory_updates}

    memory.apply_updates(result.memory_updates, now=world.now)
    assert (memory.attempts, memory.drift_conflicts, kept.uid in memory.never_ready) == ({}, {}, False)
    assert kept.uid in memory.ownership_baseline


def test_an_object_that_spoke_is_silent_anew() -> None:
    world, planner = World(), blueprints.make_planner(PAIR)
    world.settle(planner)
    [kept] = world.of("kept")
    world.memory.silent_since[kept.uid] = 0.0
    result = world.plan(planner, is_full=True)
    world.memory.apply_updates(result.memory_updates, now=world.now)
    assert world.memory.silent_since == {}
