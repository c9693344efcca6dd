"""Replacement of StatefulSets in a fake world: every scenario, undisturbed and with the operator killed at every write."""

from __future__ import annotations

import pytest

from hearth.model import names
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import request_faults
from support.server.request_faults import Interruption
from support.stories import set_replacement_scenarios
from support.stories.set_replacement_scenarios import Scenario
from support.stories.snapshot_scene import Scene
from support.stories.volume_driver import StatusBinder

LONG = "customer-portal-production-europe-west-and-north-of-it"
WAYS = ("kill-after", "lost", "kill-before")
"""Each write is disturbed in one of these ways, its neighbors in the others."""
ALL = pytest.mark.parametrize("scenario", set_replacement_scenarios.SCENARIOS, ids=lambda each: each.__name__)


def perform(scenario: Scenario, *, restarts: bool = False, interruption: Interruption | None = None) -> int:
    """Perform a scenario in a world of its own; return the number of writes."""
    worlds: list[FakeWorld] = []

    async def story(world: FakeWorld) -> None:
        worlds.append(world)
        world.traffic.interruption = interruption
        await world.start_controller()
        await scenario(Scene(world, StatusBinder(world), restarts=restarts))

    fake_world.run(story)
    return sum(request.verb in request_faults.WRITES for request in worlds[0].traffic.requests)


@ALL
def test_scenario(scenario: Scenario) -> None:
    perform(scenario)


@ALL
def test_scenario_with_restarts(scenario: Scenario) -> None:
    perform(scenario, restarts=True)


@ALL
def test_scenario_with_a_fault_at_every_write(scenario: Scenario) -> None:
    writes = perform(scenario)
    for write in range(1, writes + 1):
        perform(scenario, interruption=Interruption(write=write, how=WAYS[write % len(WAYS)]))


@fake_world.in_world
async def test_an_object_keeps_a_name_that_an_earlier_version_gave_it(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = names.NAME_LENGTHS
    scene = Scene(world, StatusBinder(world), stack=LONG)
    monkeypatch.setattr(names, "NAME_LENGTHS", {})
    await world.start_controller()
    before = await set_replacement_scenarios.begin(scene)
    assert len(before["metadata"]["name"]) > limits["StatefulSet.apps"]
    await world.kill_controller()
    monkeypatch.setattr(names, "NAME_LENGTHS", limits)
    writes = len(world.traffic.requests)
    await world.start_controller()
    await world.wait(60)
    assert not {each.verb for each in world.traffic.requests[writes:]} & {"apply", "delete", "status"}
    assert (await set_replacement_scenarios.find_set(scene))["metadata"]["uid"] == before["metadata"]["uid"]
    claims = await set_replacement_scenarios.find_claims(scene, before)
    await set_replacement_scenarios.apply(
        scene, set_replacement_scenarios.make_set(scene, "2Gi", image="db:2", replace="KeepClaims")
    )
    await scene.reach_stack("UpdateComplete")
    after = await set_replacement_scenarios.find_set(scene)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert await set_replacement_scenarios.find_claims(scene, after) == set_replacement_scenarios.grown(claims, "2Gi")
