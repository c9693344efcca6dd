"""StackSnapshots in a world: every scenario, undisturbed and with the operator killed at every write."""

from __future__ import annotations

import pytest

from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds, request_faults
from support.server.request_faults import Interruption
from support.stories import snapshot_scenarios, volume_driver
from support.stories.snapshot_scenarios import Scenario
from support.stories.snapshot_scene import Scene
from support.stories.volume_driver import StatusBinder

ALL = pytest.mark.parametrize("scenario", snapshot_scenarios.SCENARIOS, ids=lambda each: each.__name__)


def perform(scenario: Scenario, *, restarts: bool = False, interruption: Interruption | None = None) -> int:
    """Perform a scenario in a world of its own; return the number of writes."""
    worlds: list[FakeWorld] = []

    async def story(world: FakeWorld) -> None:
        worlds.append(world)
        world.traffic.interruption = interruption
        await world.start_controller()
        await world.user.create(volume_driver.definition())
        await scenario(Scene(world, StatusBinder(world), restarts=restarts))

    fake_world.run(story)
    return sum(request.verb in request_faults.WRITES for request in worlds[0].traffic.requests)


@ALL
def test_scenario(scenario: Scenario) -> None:
    """Each scenario happens as written."""
    perform(scenario)


@ALL
def test_scenario_with_restarts(scenario: Scenario) -> None:
    """The same with a new operator after every step."""
    perform(scenario, restarts=True)


@ALL
def test_scenario_with_a_death_at_every_write(scenario: Scenario) -> None:
    """The same with an operator that dies before or after any one of its writes."""
    writes = perform(scenario)
    for write in range(1, writes + 1):
        for how in ("kill-before", "kill-after", "lost"):
            perform(scenario, interruption=Interruption(write=write, how=how))


def test_no_claim_is_created_while_a_workload_runs() -> None:
    """A restore suspends all workloads first, and resumes them after every claim has its data."""
    seen: list[tuple[int, int]] = []

    async def story(world: FakeWorld) -> None:
        def watch(kind: Kind, before: Object | None, after: Object | None) -> None:
            is_new_claim = kind.name == "PersistentVolumeClaim" and before is None and after is not None
            if is_new_claim and "dataSource" in (after or {})["spec"]:
                seen.append(count_pods(world))

        world.server.watchers.append(watch)
        await world.start_controller()
        await world.user.create(volume_driver.definition())
        scene = Scene(world, StatusBinder(world))
        await snapshot_scenarios.prepare(scene)
        scene.is_binding = False
        await scene.request(toSnapshot="before")
        await scene.reach(lambda: snapshot_scenarios.find_new_claim(scene))
        await world.wait(60)
        assert count_pods(world) == (0, 0)
        scene.is_binding = True
        await scene.reach_stack("RollbackComplete")
        assert count_pods(world) == (1, 1)

    fake_world.run(story)
    assert seen == [(0, 0)]


def count_pods(world: FakeWorld) -> tuple[int, int]:
    """The wanted and the present pods of all Deployments."""
    found = world.server.list_all(fake_kinds.DEPLOYMENT.kind)
    wanted = sum(each["spec"]["replicas"] for each in found)
    return wanted, sum((each.get("status") or {}).get("replicas") or 0 for each in found)
