"""StackSnapshots, for both clusters; restores are in `support.stories.restore_scenarios`. Each scenario ends with the
expectations in its docstring.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from support.checks import expectations
from support.stories import restore_scenarios
from support.stories.snapshot_scene import Scene

Scenario: TypeAlias = Callable[[Scene], Awaitable[None]]


async def snapshot_of_volume(scene: Scene) -> None:
    """A snapshot names the revision and a VolumeSnapshot of each claim, and is complete when all are ready."""
    await scene.apply({"data": scene.claim(), "web": scene.config(claim="${data.metadata.name}")})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    status = await scene.reach_taken()
    (volume,) = status["volumes"]
    assert (volume["claim"], volume["resource"], volume["ready"]) == ("shop-data", "data", False)
    assert status["revision"] == 1
    found = await scene.world.user.find(scene.address_of_volume(volume["snapshot"]))
    assert found is not None
    assert found["spec"]["source"] == {"persistentVolumeClaimName": "shop-data"}
    await scene.report()
    status = await scene.reach_snapshot("Complete", "Complete")
    (volume,) = status["volumes"]
    assert (volume["ready"], volume["snapshotUID"]) == (True, found["metadata"]["uid"])
    conditions = {type_: expectations.find_condition({"status": status}, type_)["status"] for type_ in KSTATUS}
    assert conditions == {"Ready": "True", "Reconciling": "False", "Stalled": "False"}


KSTATUS = ("Ready", "Reconciling", "Stalled")


async def pinned_revision(scene: Scene) -> None:
    """The revision of a snapshot is kept beyond the history, until a change after the snapshot is deleted."""
    await scene.apply({"web": scene.config(version="1")}, revisionHistoryLimit=0)
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_snapshot("Complete", "Complete")
    for version in ("2", "3", "4", "5"):
        await scene.apply({"web": scene.config(version=version)}, revisionHistoryLimit=0)
        await scene.reach_stack("UpdateComplete")
    assert 1 in await scene.find_revisions()
    assert 2 not in await scene.find_revisions()
    await scene.delete("StackSnapshot", "before")
    await scene.reach_gone(scene.address("StackSnapshot", "before"))
    await scene.apply({"web": scene.config(version="6")}, revisionHistoryLimit=0)
    await scene.reach_stack("UpdateComplete")

    async def look() -> list[str]:
        return ["revision 1 is kept"] if 1 in await scene.find_revisions() else []

    await scene.reach(look)


async def snapshot_of_busy_stack(scene: Scene) -> None:
    """A snapshot of a Stack in progress waits, and contains the revision that completes."""
    await scene.snap()
    await scene.reach_snapshot("InProgress", "StackNotFound")
    await scene.apply({"web": scene.config(version="1")}, paused=True)
    await scene.reach_snapshot("InProgress", "StackNotComplete")
    await scene.apply({"web": scene.config(version="1")})
    await scene.reach_stack("CreateComplete")
    status = await scene.reach_snapshot("Complete", "Complete")
    assert status["revision"] == 1


async def deleted_snapshot(scene: Scene) -> None:
    """A deleted snapshot takes its VolumeSnapshots with it; with Retain they stay."""
    await scene.apply({"data": scene.claim()})
    await scene.reach_stack("CreateComplete")
    for name, policy in (("first", "Delete"), ("second", "Retain")):
        await scene.snap(name, deletionPolicy=policy)
        (volume,) = (await scene.reach_taken(name))["volumes"]
        await scene.report(name)
        await scene.reach_snapshot("Complete", "Complete", name=name)
        await scene.delete("StackSnapshot", name)
        await scene.reach_gone(scene.address("StackSnapshot", name))
        left = await scene.world.user.find(scene.address_of_volume(volume["snapshot"]))
        assert (left is not None) == (policy == "Retain")
        if left is not None:
            await scene.world.user.delete(scene.address_of_volume(volume["snapshot"]))


async def deleted_stack(scene: Scene) -> None:
    """A Stack that is deleted ends a snapshot in progress; a complete one keeps its data."""
    await scene.apply({"data": scene.claim()})
    await scene.reach_stack("CreateComplete")
    await scene.snap("done")
    await scene.reach_taken("done")
    await scene.report("done")
    await scene.reach_snapshot("Complete", "Complete", name="done")
    await scene.snap("pending")
    await scene.reach_taken("pending")
    await scene.delete("Stack", "shop")
    await scene.reach_gone(scene.address("Stack", "shop"))
    await scene.reach_snapshot("Failed", "StackDeleted", name="pending")
    await scene.reach_snapshot("Complete", "Complete", name="done")
    assert all(each is not None for each in await scene.find_volumes("done"))
    for name in ("done", "pending"):
        volumes = (await scene.read(name))["volumes"]
        await scene.delete("StackSnapshot", name)
        await scene.reach_gone(scene.address("StackSnapshot", name))
        for volume in volumes:
            assert await scene.world.user.find(scene.address_of_volume(volume["snapshot"])) is None


async def failed_volume(scene: Scene) -> None:
    """A failed VolumeSnapshot makes the snapshot fail with the message of its driver; both may recover."""
    await scene.apply({"data": scene.claim()})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report(readyToUse=False, error={"message": "the array is full", "time": "2026-01-01T00:00:00Z"})
    status = await scene.reach_snapshot("Failed", "VolumeSnapshotFailed")
    assert "the array is full" in expectations.find_condition({"status": status}, "Ready")["message"]
    await scene.report(error=None)
    await scene.reach_snapshot("Complete", "Complete")


async def foreign_volume_snapshot(scene: Scene) -> None:
    """A VolumeSnapshot that another client puts in place of the operator's is neither used nor deleted."""
    await scene.apply({"data": scene.claim()})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    (volume,) = (await scene.reach_taken())["volumes"]

    address = scene.address_of_volume(volume["snapshot"])
    found = await scene.world.user.find(address)
    assert found is not None
    await scene.world.user.delete(address)
    metadata = {key: found["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    await scene.world.user.create({**{key: found[key] for key in ("apiVersion", "kind", "spec")}, "metadata": metadata})
    await scene.reach_snapshot("Failed", "VolumeSnapshotLost")
    await scene.delete("StackSnapshot", "before")
    await scene.reach_gone(scene.address("StackSnapshot", "before"))
    assert await scene.world.user.find(address) is not None
    await scene.world.user.delete(address)


async def forged_status(scene: Scene) -> None:
    """A status that another client wrote pins nothing and is ignored."""
    await scene.apply({"web": scene.config(version="1")})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    status = await scene.reach_snapshot("Complete", "Complete")
    forged = {"revision": 7, "phase": "Complete", "signature": status["signature"]}
    await scene.world.user.patch_status(scene.address("StackSnapshot", "before"), forged)
    status = await scene.reach_snapshot("Failed", "StatusTampered")
    assert "revision" not in status


async def wiped_status(scene: Scene) -> None:
    """A complete snapshot whose status another client removes keeps its revision and its data."""
    await scene.apply({"data": scene.claim(), "web": scene.config(version="1")})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    status = await scene.reach_snapshot("Complete", "Complete")
    (volume,) = status["volumes"]
    await scene.apply({"data": scene.claim(), "web": scene.config(version="2")})
    await scene.reach_stack("UpdateComplete")
    await scene.world.user.patch_status(scene.address("StackSnapshot", "before"), dict.fromkeys(status))
    status = await scene.reach_snapshot("Complete", "Complete")
    assert (status["revision"], status["volumes"][0]["snapshot"]) == (1, volume["snapshot"])
    await scene.delete("StackSnapshot", "before")
    await scene.reach_gone(scene.address("StackSnapshot", "before"))
    await scene.reach_gone(scene.address_of_volume(volume["snapshot"]))


async def two_stacks_of_one_name(scene: Scene) -> None:
    """A snapshot belongs to its original Stack, not to the next one with the same name."""
    await scene.apply({"web": scene.config(version="1")})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    uid = (await scene.reach_snapshot("Complete", "Complete"))["stackUID"]
    await scene.delete("Stack", "shop")
    await scene.reach_gone(scene.address("Stack", "shop"))
    await scene.apply({"web": scene.config(version="2")})
    await scene.reach_stack("CreateComplete")
    status = await scene.reach_snapshot("Complete", "Complete")
    stack = await scene.find_stack()
    assert stack is not None
    assert status["stackUID"] == uid != stack["metadata"]["uid"]
    assert "is deleted" in expectations.find_condition({"status": status}, "Ready")["message"]


SCENARIOS: tuple[Scenario, ...] = (
    *(snapshot_of_volume, pinned_revision, snapshot_of_busy_stack, deleted_snapshot, deleted_stack),
    *(failed_volume, foreign_volume_snapshot, forged_status, wiped_status, two_stacks_of_one_name),
    *restore_scenarios.SCENARIOS,
)
