"""StackSnapshots on a real API server, with the real definition of VolumeSnapshot and a played driver.

Also replaces StatefulSets, with their real controller; the test simulates the volume binding.
"""

from __future__ import annotations

import pytest
import yaml

from hearth.model import errors
from support import repository
from support.real import real_user, snapshot_crds
from support.real.real_world import RealWorld
from support.stories import set_replacement_scenarios, snapshot_scenarios
from support.stories.snapshot_scenarios import Scenario
from support.stories.snapshot_scene import Scene
from support.stories.volume_driver import VolumeBinder

EXAMPLE = repository.EXAMPLES / "snapshot.yaml"
SCENARIOS = (*snapshot_scenarios.SCENARIOS, *set_replacement_scenarios.SCENARIOS)


@pytest.fixture
async def scene(world: RealWorld) -> Scene:
    """A scene on a server that has VolumeSnapshots, with an operator."""
    await real_user.install(world.user, snapshot_crds.load())
    await world.start_controller()
    return Scene(world, VolumeBinder(world))


@pytest.mark.parametrize("restarts", [False, True], ids=["undisturbed", "restarted"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
async def test_scenario(scenario: Scenario, scene: Scene, *, restarts: bool) -> None:
    scene.restarts = restarts
    await scenario(scene)


async def test_the_stack_of_a_snapshot_cannot_be_changed(scene: Scene) -> None:
    await scene.snap()
    with pytest.raises(errors.ApiStatusError, match="stackName is immutable; create another StackSnapshot"):
        await scene.world.user.patch(scene.address("StackSnapshot", "before"), {"spec": {"stackName": "other"}})


async def test_a_snapshot_without_a_stack_is_rejected(scene: Scene) -> None:
    with pytest.raises(errors.ApiStatusError, match=r"spec\.stackName"):
        await scene.snap(stackName=None)


async def test_a_rollback_has_one_destination(scene: Scene) -> None:
    await scene.apply({"web": scene.config(version="1")})
    with pytest.raises(errors.ApiStatusError, match="toRevision and toSnapshot are mutually exclusive"):
        await scene.request(toRevision=1, toSnapshot="before")


async def test_the_example_is_restored(scene: Scene) -> None:
    for manifest in yaml.safe_load_all(EXAMPLE.read_text()):
        await scene.world.user.create(
            {**manifest, "metadata": {**manifest["metadata"], "namespace": scene.world.namespace}}
        )
    scene.stack = "notes"
    await scene.reach_stack("CreateComplete")
    await scene.reach_taken("notes-before")
    await scene.report("notes-before")
    await scene.reach_snapshot("Complete", "Complete", name="notes-before")
    address = scene.address("Stack", "notes")
    await scene.world.user.patch(address, {"spec": {"parameters": {"version": "3.20"}}})
    await scene.reach_stack("UpdateComplete")
    before = (await scene.find_claim())["metadata"]["uid"]
    await scene.world.user.patch(address, {"spec": {"rollback": {"toSnapshot": "notes-before"}}})
    await scene.reach_stack("RollbackComplete")
    claim = await scene.find_claim()
    assert claim["metadata"]["uid"] != before
    assert claim["spec"]["dataSource"]["kind"] == "VolumeSnapshot"
    (writer,) = await scene.find_children("Deployment")
    (volume,) = writer["spec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert writer["spec"]["template"]["spec"]["containers"][0]["image"] == "alpine:3.19"
