"""Restores of StackSnapshots, for both clusters. Each scenario ends with the expectations in its docstring."""

from __future__ import annotations

from hearth.model import names
from hearth.model.child import Object
from hearth.plan.resource import set_replacement
from support.stories import set_replacement_scenarios
from support.stories.snapshot_scene import Scene
from support.stories.world import Address


async def prepare(scene: Scene, **metadata: str) -> str:
    """Take a snapshot of a Stack with a volume, then change the Stack; return the UID of its claim."""
    uses = metadata.get("name", "${data.metadata.name}")
    await scene.apply({"data": scene.claim(**metadata), "web": scene.workload(uses)})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    await scene.reach_snapshot("Complete", "Complete")
    resources = {"data": scene.claim(**metadata), "web": scene.workload(uses, "web:2"), "later": scene.config(a="b")}
    await scene.apply(resources)
    await scene.reach_stack("UpdateComplete")
    return str((await scene.find_claim())["metadata"]["uid"])


async def restored_volume(scene: Scene) -> None:
    """A restore brings back the revision, and a new claim with the data; the claim then stays through every change."""
    before = await prepare(scene)
    await scene.request(toSnapshot="before")
    await scene.reach_stack("RollbackComplete")
    await scene.reach(lambda: find_restore_wrong(scene))
    claim = await scene.find_claim()
    assert claim["metadata"]["uid"] != before
    assert await scene.find_children("ConfigMap") == []
    (web,) = await scene.find_children("Deployment")
    assert web["spec"]["replicas"] == 1
    assert claim["metadata"]["name"] in str(web["spec"]["template"])
    await scene.apply({"data": scene.claim(), "web": scene.workload("${data.metadata.name}", "web:3")})
    await scene.reach_stack("UpdateComplete")
    assert (await scene.find_claim())["metadata"]["uid"] == claim["metadata"]["uid"]
    await scene.request(toSnapshot="before")
    await scene.reach_stack("RollbackComplete")
    await scene.reach(lambda: find_restore_wrong(scene))
    assert (await scene.find_claim())["metadata"]["uid"] != claim["metadata"]["uid"]


async def find_restore_wrong(scene: Scene) -> list[str]:
    """Differences in a claim that was restored from the only volume of the snapshot."""
    claims = await scene.find_children("PersistentVolumeClaim")
    if len(claims) != 1:
        return [f"there are {len(claims)} claims"]
    (volume,) = (await scene.read())["volumes"]
    source = claims[0]["spec"].get("dataSource") or {}
    wrong = [] if source.get("name") == volume["snapshot"] else [f"the claim has the content {source}"]
    marks = names.ANNOTATION_RESTORED in claims[0]["metadata"]["annotations"]
    return [*wrong, *(["the claim still records the restore"] if marks else [])]


async def restored_pinned_claim(scene: Scene) -> None:
    """A claim with a name of its own is deleted, then created with the data."""
    before = await prepare(scene, name="archive")
    await scene.request(toSnapshot="before")
    await scene.reach_stack("RollbackComplete")
    await scene.reach(lambda: find_restore_wrong(scene))
    claim = await scene.find_claim()
    assert claim["metadata"]["name"] == "archive"
    assert claim["metadata"]["uid"] != before


async def restored_members(scene: Scene) -> None:
    """Claims that are members of a collection are restored one by one."""
    claims = {"forEach": "params.volumes", "key": "item", **scene.claim()}
    resources = {"data": claims, "web": scene.config(first="${data[0].metadata.name}")}
    await scene.apply(resources, parameters={"volumes": {"type": "array", "default": ["a", "b"]}})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    volumes = (await scene.reach_snapshot("Complete", "Complete"))["volumes"]
    assert {each["resource"] for each in volumes} == {"data[a]", "data[b]"}
    before = {each["metadata"]["uid"] for each in await scene.find_children("PersistentVolumeClaim")}
    await scene.request(toSnapshot="before")
    await scene.reach_stack("RollbackComplete")
    after = await scene.find_children("PersistentVolumeClaim")
    assert len(after) == 2
    assert before.isdisjoint(each["metadata"]["uid"] for each in after)
    assert {each["spec"]["dataSource"]["name"] for each in after} == {each["snapshot"] for each in volumes}


async def restored_stateful_set(scene: Scene) -> None:
    """Claims of a StatefulSet, including claims of scaled-down replicas, are recreated under their names."""
    await scene.apply({"db": scene.stateful_set()})
    await scene.reach_stack("CreateComplete")
    await scene.apply({"db": scene.stateful_set(replicas=1)})
    await scene.reach_stack("UpdateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    volumes = (await scene.reach_snapshot("Complete", "Complete"))["volumes"]
    assert [each["claim"] for each in volumes] == ["data-shop-db-0", "data-shop-db-1"]
    assert all(each["statefulSet"] and each["resource"] == "db" for each in volumes)
    (before,) = await scene.find_children("StatefulSet")
    claims = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await scene.find_set_claims(before)}
    await scene.apply({"db": scene.stateful_set(image="db:2", replicas=1)})
    await scene.reach_stack("UpdateComplete")
    await scene.request(toSnapshot="before")
    await scene.reach_stack("RollbackComplete")
    (after,) = await scene.find_children("StatefulSet")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["replicas"] == 1
    restored = {each["metadata"]["name"]: each for each in await scene.find_set_claims(after)}
    assert restored.keys() == claims.keys()
    assert all(each["metadata"]["uid"] != claims[name] for name, each in restored.items())
    content = {name: each["spec"]["dataSource"]["name"] for name, each in restored.items()}
    assert content == {each["claim"]: each["snapshot"] for each in volumes}
    for claim in restored.values():
        await scene.world.user.delete(Address.of(claim))


async def restored_after_enlargement(scene: Scene) -> None:
    """Claims that were enlarged since get the data of the snapshot under their names, and their earlier definition."""
    before = await set_replacement_scenarios.begin(scene)
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    volumes = (await scene.reach_snapshot("Complete", "Complete"))["volumes"]
    larger = set_replacement_scenarios.make_set(scene, "2Gi", replace="KeepClaims")
    await set_replacement_scenarios.apply(scene, larger)
    await scene.reach_stack("UpdateComplete")
    await scene.request(toSnapshot="before")
    await scene.reach_stack("RollbackComplete")
    after = await set_replacement_scenarios.find_set(scene)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert set_replacement.read_size(after["spec"]["volumeClaimTemplates"][0]) == "1Gi"
    restored = await scene.find_set_claims(after)
    content = {each["metadata"]["name"]: each["spec"]["dataSource"]["name"] for each in restored}
    assert content == {each["claim"]: each["snapshot"] for each in volumes}
    for claim in restored:
        await scene.world.user.delete(Address.of(claim))


async def begin_copies(scene: Scene) -> list[Object]:
    """Begin a restore that waits until the claims of a StatefulSet are copied; return these claims."""
    await scene.apply({"db": scene.stateful_set()})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    await scene.reach_snapshot("Complete", "Complete")
    (stateful_set,) = await scene.find_children("StatefulSet")
    present = await scene.find_set_claims(stateful_set)
    scene.is_copying = False
    await scene.request(toSnapshot="before")

    async def find_uncopied() -> list[str]:
        await scene.bind()
        copies = {each["spec"]["source"]["persistentVolumeClaimName"] for each in await scene.find_copies(present)}
        return sorted({each["metadata"]["name"] for each in present} - copies)

    await scene.reach(find_uncopied)
    return present


async def kept_data(scene: Scene) -> None:
    """No claim of a StatefulSet is deleted before its data is kept, and the copies end with the restore."""
    present = await begin_copies(scene)
    claims = {each["metadata"]["name"]: each["metadata"]["uid"] for each in present}
    (stateful_set,) = await scene.find_children("StatefulSet")
    await scene.step()
    found = await scene.find_set_claims(stateful_set)
    assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in found} == claims
    copies = [Address.of(each) for each in await scene.find_copies(present)]
    scene.is_copying = True
    await scene.reach_stack("RollbackComplete")
    for copied in copies:
        await scene.reach_gone(copied)
    for claim in await scene.find_set_claims(stateful_set):
        assert claim["metadata"]["uid"] != claims[claim["metadata"]["name"]]
        await scene.world.user.delete(Address.of(claim))


async def prepare_set(scene: Scene, **resource: object) -> dict[str, str]:
    """Create a Stack with a StatefulSet and a complete snapshot; return the UIDs of its claims by name."""
    await scene.apply({"db": scene.stateful_set() | resource})
    await scene.reach_stack("CreateComplete")
    await scene.snap()
    await scene.reach_taken()
    await scene.report()
    await scene.reach_snapshot("Complete", "Complete")
    return await find_claim_uids(scene)


async def find_claim_uids(scene: Scene) -> dict[str, str]:
    """The UIDs of the claims of the only StatefulSet, by name."""
    (stateful_set,) = await scene.find_children("StatefulSet")
    found = await scene.find_set_claims(stateful_set)
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


async def delete_set_claims(scene: Scene) -> None:
    """Delete claims that no Stack deletes."""
    (stateful_set,) = await scene.find_children("StatefulSet")
    for claim in await scene.find_set_claims(stateful_set):
        await scene.world.user.delete(Address.of(claim))


async def denied_restore(scene: Scene) -> None:
    """Claims of a StatefulSet stay if a rule denies to replace or to delete it, and nothing is suspended."""
    before = await prepare_set(scene)
    definition = scene.spec["template"]["resources"]
    for denied in (["Replace", "Delete"], ["Delete"], ["Replace"]):
        rules = {"restrictedActions": [{"resource": "*", "deny": denied}]}
        await scene.apply(definition, rollback={"toSnapshot": "before"}, environment=rules)
        await scene.reach_reason("Restricted", message="remove that rule")
        assert await find_claim_uids(scene) == before
        (stateful_set,) = await scene.find_children("StatefulSet")
        assert stateful_set["spec"]["replicas"] == 2
    await scene.apply(definition, rollback={"toSnapshot": "before"})
    await scene.reach_stack("RollbackComplete")
    after = await find_claim_uids(scene)
    assert after.keys() == before.keys()
    assert set(after.values()).isdisjoint(before.values())
    await delete_set_claims(scene)


async def retained_during_restore(scene: Scene) -> None:
    """Claims of a StatefulSet that the user retains stay, and nothing is suspended."""
    before = await prepare_set(scene, deletionPolicy="Retain")
    await scene.request(toSnapshot="before")
    await scene.reach_reason("Restricted", message="deletionPolicy: Retain")
    assert await find_claim_uids(scene) == before
    (stateful_set,) = await scene.find_children("StatefulSet")
    assert stateful_set["spec"]["replicas"] == 2
    await delete_set_claims(scene)
    await scene.world.user.delete(Address.of(stateful_set))


async def stopped_restore(scene: Scene) -> None:
    """A restore stops at a breakpoint before it deletes the claims of a StatefulSet, and continues on request."""
    before = await prepare_set(scene)
    definition = scene.spec["template"]["resources"]
    rules = {"breakpoints": [{"resource": "db", "at": ["PreReplace"]}]}
    await scene.apply(definition, rollback={"toSnapshot": "before"}, environment=rules)
    await scene.reach_stack("RollbackStopped")
    await scene.step()
    await scene.reach_stack("RollbackStopped")
    assert await find_claim_uids(scene) == before
    order = {"metadata": {"annotations": {names.REQUEST_CONTINUE: "db/PreReplace@1"}}}
    await scene.world.user.patch(scene.address("Stack", "shop"), order)
    await scene.reach_stack("RollbackComplete")
    after = await find_claim_uids(scene)
    assert after.keys() == before.keys()
    assert set(after.values()).isdisjoint(before.values())
    await delete_set_claims(scene)


async def restored_once(scene: Scene) -> None:
    """A request that remains in the spec restores nothing again, not even when its definition returns."""
    await prepare(scene)
    definition = scene.spec["template"]["resources"]
    await scene.request(toSnapshot="before")
    await scene.reach_stack("RollbackComplete")
    await scene.reach(lambda: find_restore_wrong(scene))
    uid = (await scene.find_claim())["metadata"]["uid"]
    rollback = {"toSnapshot": "before"}
    await scene.apply({**definition, "later": scene.config(a="c")}, rollback=rollback)
    await scene.reach_stack("UpdateComplete")
    await scene.apply(definition, rollback=rollback)
    await scene.reach_stack("RollbackComplete")
    assert (await scene.find_claim())["metadata"]["uid"] == uid


async def refused_restore(scene: Scene) -> None:
    """A missing, incomplete or foreign snapshot is rejected; running objects are not touched."""
    await scene.apply({"data": scene.claim(), "web": scene.workload("${data.metadata.name}")})
    await scene.reach_stack("CreateComplete")
    uid = (await scene.find_claim())["metadata"]["uid"]
    await scene.request(toSnapshot="nothing")
    await scene.reach_reason("SnapshotNotFound")
    await scene.snap("of-another", stackName="other")
    await scene.request(toSnapshot="of-another")
    await scene.reach_reason("SnapshotOfOtherStack")
    await scene.snap()
    await scene.reach_taken()
    await scene.request(toSnapshot="before")
    await scene.reach_reason("SnapshotNotComplete")
    await scene.report(readyToUse=False, error={"message": "the array is full"})
    await scene.reach_snapshot("Failed", "VolumeSnapshotFailed")
    await scene.reach_reason("SnapshotNotComplete", message="the array is full")
    (web,) = await scene.find_children("Deployment")
    assert web["spec"]["replicas"] == 1
    assert (await scene.find_claim())["metadata"]["uid"] == uid
    await scene.report(error=None)
    await scene.reach_stack("RollbackComplete")
    await scene.reach(lambda: find_restore_wrong(scene))


async def restore_of_lost_volume(scene: Scene) -> None:
    """A VolumeSnapshot that was deleted since makes the restore impossible before anything is touched."""
    before = await prepare(scene)
    (volume,) = (await scene.read())["volumes"]
    await scene.world.user.delete(scene.address_of_volume(volume["snapshot"]))
    await scene.request(toSnapshot="before")
    await scene.reach_reason("VolumeSnapshotNotReady", message=volume["snapshot"])
    assert (await scene.find_claim())["metadata"]["uid"] == before


async def begin_restore(scene: Scene) -> str:
    """Begin a restore whose new claim waits for its volume; return the UID of the old claim."""
    before = await prepare(scene)
    scene.is_binding = False
    await scene.request(toSnapshot="before")
    await scene.reach(lambda: find_new_claim(scene))
    return before


async def deleted_while_restored(scene: Scene) -> None:
    """A snapshot that is deleted while its Stack is restored from it waits for the end of the restore."""
    await begin_restore(scene)
    await scene.delete("StackSnapshot", "before")
    await scene.reach_snapshot("Complete", "Deleting")
    assert all(each is not None for each in await scene.find_volumes())
    scene.is_binding = True
    await scene.reach_stack("RollbackComplete")
    await scene.reach_gone(scene.address("StackSnapshot", "before"))


async def abandoned_restore(scene: Scene) -> None:
    """A restore that is cancelled before its claims are ready leaves the Stack with its old claim and data."""
    before = await begin_restore(scene)
    await scene.request()
    await scene.reach_stack("UpdateComplete")
    assert (await scene.find_claim())["metadata"]["uid"] == before
    (web,) = await scene.find_children("Deployment")
    assert web["spec"]["replicas"] == 1


async def overridden_restore(scene: Scene) -> None:
    """A definition that ends a restore and is then reverted does not restart it, because data was written since then."""
    before = await begin_restore(scene)
    requested = scene.spec["template"]["resources"]
    scene.is_binding = True
    for resources, phase in (
        ({**requested, "later": scene.config(a="c")}, "UpdateComplete"),
        (requested, "RollbackComplete"),
    ):
        await scene.apply(resources, rollback={"toSnapshot": "before"})
        await scene.reach_stack(phase)
        assert (await scene.find_claim())["metadata"]["uid"] == before
    assert await scene.find_children("ConfigMap") == []


async def deleted_stack_during_restore(scene: Scene) -> None:
    """A Stack can be deleted in the middle of its restore; the snapshot stays."""
    await begin_restore(scene)
    await scene.delete("Stack", "shop")
    await scene.reach_gone(scene.address("Stack", "shop"))
    await scene.reach_snapshot("Complete", "Complete")
    assert all(each is not None for each in await scene.find_volumes())


async def find_new_claim(scene: Scene) -> list[str]:
    """Whether the claim of a restore is missing."""
    claims = await scene.find_children("PersistentVolumeClaim")
    return [] if any("dataSource" in each["spec"] for each in claims) else ["there is no claim with data"]


SCENARIOS = (
    *(restored_volume, restored_pinned_claim, restored_once, refused_restore, restore_of_lost_volume),
    *(deleted_while_restored, restored_members, restored_stateful_set, restored_after_enlargement, kept_data),
    *(denied_restore, retained_during_restore, stopped_restore),
    *(abandoned_restore, overridden_restore, deleted_stack_during_restore),
)
