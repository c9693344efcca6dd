"""Objects of Stacks and groups with long names, on a real API server with its controllers: all of them become ready."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.checks import expectations
from support.real.real_world import RealWorld
from support.stories.snapshot_scene import API, Scene
from support.stories.volume_driver import VolumeBinder
from support.stories.world import Address

STACK = "customer-portal-production-europe-west-and-north-of-it"
GROUP = "nightly-report-generation-for-the-finance-team-eu"
LABELS = {"app": "x"}
POD = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
RUN = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}


@pytest.fixture
async def scene(world: RealWorld) -> Scene:
    """A scene in a namespace of its own, with an operator; its Stack has a long name."""
    await world.start_controller()
    return Scene(world, VolumeBinder(world), stack=STACK)


def make(api_version: str, kind: str, **spec: Any) -> Object:
    return {"manifest": {"apiVersion": api_version, "kind": kind, "spec": spec}}


async def test_all_objects_of_a_stack_become_ready(scene: Scene) -> None:
    selected: Object = {"selector": {"matchLabels": LABELS}, "template": POD}
    resources = {
        "nightlyReportOfAllTheCustomersInTheEu": make(
            "batch/v1", "CronJob", schedule="0 0 * * *", jobTemplate={"spec": {"template": RUN}}
        ),
        "sessionCacheClusterOfTheShopInTheEu": make("apps/v1", "StatefulSet", serviceName="x", replicas=2, **selected),
        "migrationOfTheOldDatabaseToTheNewOne": make(
            "batch/v1", "Job", completionMode="Indexed", completions=12, parallelism=12, template=RUN
        ),
        "frontendOfTheShopForTheCustomersInEu": make("apps/v1", "Deployment", replicas=1, **selected),
        "collectorOfTheLogsOnAllNodesInTheEu": make("apps/v1", "DaemonSet", **selected),
        "addressOfTheShopForTheCustomersInEu": make("v1", "Service", selector=LABELS, ports=[{"port": 80}]),
    }
    await scene.apply(resources)
    await scene.reach_stack("CreateComplete")
    (stateful_set,) = await scene.find_children("StatefulSet")
    # A dash in front of the hash may make the name one character shorter.
    assert len(stateful_set["metadata"]["name"]) >= names.NAME_LENGTHS["StatefulSet.apps"] - 1
    (cron_job,) = await scene.find_children("CronJob")
    assert len(cron_job["metadata"]["name"]) >= names.NAME_LENGTHS["CronJob.batch"] - 1


async def test_all_members_of_a_group_become_ready(scene: Scene) -> None:
    manifest = make("batch/v1", "CronJob", schedule="0 0 * * *", jobTemplate={"spec": {"template": RUN}})
    address = Address(api_version=API, kind="ResourceGroup", namespace=scene.world.namespace, name=GROUP)
    head = {"apiVersion": API, "kind": "ResourceGroup", "metadata": {"name": GROUP, "namespace": scene.world.namespace}}
    await scene.world.user.create({**head, "spec": {"replicas": 12, "template": manifest}})

    async def look() -> list[str]:
        found = await scene.world.user.find(address)
        return list(expectations.judge_phase("CreateComplete", found)) if found is not None else ["there is no group"]

    await scene.reach(look)
