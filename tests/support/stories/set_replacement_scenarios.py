"""The Pods and claims of a StatefulSet during its replacement, for both clusters.

Each scenario ends with the expectations in its docstring.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from hearth.model import errors, names
from hearth.model.child import Object
from hearth.plan.resource import set_replacement
from hearth.plan.status import conditions
from support.stories import probe_controller
from support.stories.snapshot_scene import Scene
from support.stories.world import Address

Scenario: TypeAlias = Callable[[Scene], Awaitable[None]]
GROWING, FIXED = "growing", "fixed"
"""StorageClasses whose claims can be enlarged, and cannot."""
HOLD = "testing.example.com/hold"
"""A finalizer that blocks the deletion of a StatefulSet."""
REPLICAS = 2


async def prepare_classes(scene: Scene) -> None:
    """Create the StorageClasses, unless another test did."""
    for name in (GROWING, FIXED):
        manifest = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "example.com/played",
            "allowVolumeExpansion": name == GROWING,
        }
        try:
            await scene.world.user.create(manifest)
        except errors.ApiStatusError as error:
            if not error.is_conflict:
                raise


def make_set(scene: Scene, size: str = "1Gi", storage_class: str = GROWING, **options: Any) -> Object:
    """A StatefulSet whose claims have that size."""
    return scene.stateful_set(claims=scene.claim(size, storage_class=storage_class), replicas=REPLICAS, **options)


async def begin(scene: Scene, **options: Any) -> Object:
    """A complete Stack with a StatefulSet, and a ConfigMap that names it; return the StatefulSet."""
    await prepare_classes(scene)
    await apply(scene, make_set(scene, **options))
    await scene.reach_stack("CreateComplete")
    return await find_set(scene)


async def apply(scene: Scene, stateful_set: Object, **spec: Any) -> None:
    """Apply the Stack with that StatefulSet."""
    await scene.apply({"db": stateful_set, "after": scene.config(name="${db.metadata.name}")}, **spec)


async def find_set(scene: Scene) -> Object:
    """The only StatefulSet."""
    (found,) = await scene.find_children("StatefulSet")
    return found


async def find_claims(scene: Scene, stateful_set: Object) -> dict[str, tuple[str, str]]:
    """UID and requested size of each claim, by name."""
    found = await scene.find_set_claims(stateful_set)
    return {each["metadata"]["name"]: (each["metadata"]["uid"], set_replacement.read_size(each)) for each in found}


async def find_pods(scene: Scene, stateful_set: Object) -> dict[str, str]:
    """UID of each Pod, by name."""
    metadata = stateful_set["metadata"]
    found: dict[str, str] = {}
    for index in range(REPLICAS):
        name = f"{metadata['name']}-{index}"
        address = Address(api_version="v1", kind="Pod", namespace=metadata["namespace"], name=name)
        if (pod := await scene.world.user.find(address)) is not None:
            found[name] = pod["metadata"]["uid"]
    return found


async def find_image(scene: Scene, stateful_set: Object) -> str:
    """The image of the first Pod."""
    metadata = stateful_set["metadata"]
    address = Address(api_version="v1", kind="Pod", namespace=metadata["namespace"], name=f"{metadata['name']}-0")
    pod = await scene.world.user.find(address)
    return str(pod["spec"]["containers"][0]["image"]) if pod is not None else ""


def grown(claims: dict[str, tuple[str, str]], size: str) -> dict[str, tuple[str, str]]:
    """The same claims with another size."""
    return {name: (uid, size) for name, (uid, _) in claims.items()}


async def end(scene: Scene) -> None:
    """Delete the Stack. The claims remain, as always after the deletion of a StatefulSet, but no Pod does."""
    found = await scene.find_children("StatefulSet")
    claims = [claim for each in found for claim in await scene.find_set_claims(each)]
    await scene.delete("Stack", "shop")
    await scene.reach_gone(scene.address("Stack", "shop"))
    for each in found:
        await reach_no_pods(scene, each)
    for claim in claims:
        assert await scene.world.user.find(Address.of(claim)) is not None
        await scene.world.user.delete(Address.of(claim))


async def reach_no_pods(scene: Scene, stateful_set: Object) -> None:
    """Wait until no Pod remains."""

    async def look() -> list[str]:
        return [f"pod/{name} is left" for name in await find_pods(scene, stateful_set)]

    await scene.reach(look)


async def enlarged_claims(scene: Scene) -> None:
    """Larger claims: the same claims and Pods, under a new StatefulSet of the same name."""
    before = await begin(scene)
    claims, pods = await find_claims(scene, before), await find_pods(scene, before)
    assert len(claims) == len(pods) == REPLICAS
    dependent = (await scene.find_children("ConfigMap"))[0]["metadata"]["uid"]
    await apply(scene, make_set(scene, "2Gi", replace="KeepClaims"))
    await scene.reach_stack("UpdateComplete")
    after = await find_set(scene)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert await find_claims(scene, after) == grown(claims, "2Gi")
    assert await find_pods(scene, after) == pods
    assert (await scene.find_children("ConfigMap"))[0]["metadata"]["uid"] == dependent
    await end(scene)


async def another_service(scene: Scene) -> None:
    """Another immutable field and another image: the Pods are replaced by their controller, and keep their claims."""
    before = await begin(scene)
    claims = await find_claims(scene, before)
    await apply(scene, make_set(scene, image="db:2", serviceName="other", replace="KeepClaims"))
    await scene.reach_stack("UpdateComplete")
    after = await find_set(scene)
    assert (after["spec"]["serviceName"], after["metadata"]["name"]) == ("other", before["metadata"]["name"])
    assert await find_claims(scene, after) == claims
    assert await find_image(scene, after) == "db:2"
    await end(scene)


async def not_replaced_by_itself(scene: Scene) -> None:
    """Without a policy nothing changes, and the message names the field and the policy that keeps the data."""
    before = await begin(scene)
    claims = await find_claims(scene, before)
    await apply(scene, make_set(scene, "2Gi"))
    path = "spec.volumeClaimTemplates[data].spec.resources.requests.storage (1Gi → 2Gi) cannot be changed in place"
    await scene.reach_reason("Immutable", message=path)
    await scene.reach_reason("Immutable", message="set updatePolicy.replace: KeepClaims")
    await expect_untouched(scene, before, claims)
    await end(scene)


async def expect_untouched(scene: Scene, before: Object, claims: dict[str, tuple[str, str]]) -> None:
    """The StatefulSet and its claims are unchanged."""
    after = await find_set(scene)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"]
    assert await find_claims(scene, after) == claims


async def fixed_class(scene: Scene) -> None:
    """A class whose claims cannot be enlarged: nothing is deleted, and the message has the API server's reason."""
    before = await begin(scene, storage_class=FIXED)
    claims = await find_claims(scene, before)
    await apply(scene, make_set(scene, "2Gi", FIXED, replace="KeepClaims"))
    await scene.reach_reason("ClaimsNotEnlarged", message="must support resize")
    await scene.reach_reason("ClaimsNotEnlarged", message="it was not deleted")
    await expect_untouched(scene, before, claims)
    await apply(scene, make_set(scene, storage_class=FIXED, replace="KeepClaims"))
    await scene.reach_stack("UpdateComplete")
    await expect_untouched(scene, before, claims)
    await end(scene)


async def one_fixed_claim(scene: Scene) -> None:
    """One of several claims cannot be enlarged: the others are not enlarged either, and nothing is deleted."""
    manifest = scene.claim(storage_class=FIXED, name="data-shop-db-1", labels={"app": "db"})["manifest"]
    manifest["metadata"]["namespace"] = scene.world.namespace
    await scene.world.user.create(manifest)
    before = await begin(scene)
    claims = await find_claims(scene, before)
    await apply(scene, make_set(scene, "2Gi", replace="KeepClaims"))
    await scene.reach_reason(
        "ClaimsNotEnlarged", message="persistentvolumeclaim/data-shop-db-1 cannot be enlarged to 2Gi"
    )
    await expect_untouched(scene, before, claims)
    assert set(claims) == {"data-shop-db-0", "data-shop-db-1"}
    await end(scene)


async def smaller_claims(scene: Scene) -> None:
    """No claim gets smaller: nothing is deleted."""
    before = await begin(scene, size="2Gi")
    claims = await find_claims(scene, before)
    await apply(scene, make_set(scene, "1Gi", replace="KeepClaims"))
    await scene.reach_reason(
        "ClaimsNotEnlarged", message="spec.volumeClaimTemplates[data] would get smaller (2Gi → 1Gi)"
    )
    await expect_untouched(scene, before, claims)
    await end(scene)


async def another_selector(scene: Scene) -> None:
    """Pods that the next StatefulSet would not find are not left behind: nothing is deleted."""
    before = await begin(scene)
    claims = await find_claims(scene, before)
    await apply(scene, make_set(scene, labels={"app": "other"}, replace="KeepClaims"))
    await scene.reach_reason("ClaimsNotEnlarged", message="spec.selector changes")
    await expect_untouched(scene, before, claims)
    await end(scene)


async def foreign_claim(scene: Scene) -> None:
    """A claim with a name of the StatefulSet that the StatefulSet did not create is not enlarged."""
    before = await begin(scene)
    (first, *_) = await scene.find_set_claims(before)
    await scene.world.user.patch(Address.of(first), {"metadata": {"labels": {"app": None}}})
    claims = await find_claims(scene, before)
    await apply(scene, make_set(scene, "2Gi", replace="KeepClaims"))
    await scene.reach_reason("ClaimsNotEnlarged", message="does not have the labels of the selector")
    await expect_untouched(scene, before, claims)
    await scene.world.user.patch(Address.of(first), {"metadata": {"labels": {"app": "db"}}})
    await apply(scene, make_set(scene, "2Gi", image="db:2", replace="KeepClaims"))
    await scene.reach_stack("UpdateComplete")
    assert await find_claims(scene, before) == grown(claims, "2Gi")
    await end(scene)


async def rolled_back(scene: Scene) -> None:
    """A rollback restores the definition under the same name, although it has no such policy; claims stay large."""
    before = await begin(scene)
    claims = await find_claims(scene, before)
    await apply(scene, make_set(scene, "2Gi", image="db:2", replace="KeepClaims"))
    await scene.reach_stack("UpdateComplete")
    await scene.request(toRevision=1)
    await scene.reach_stack("RollbackComplete")
    after = await find_set(scene)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert set_replacement.read_size(after["spec"]["volumeClaimTemplates"][0]) == "1Gi"
    assert await find_claims(scene, after) == grown(claims, "2Gi")
    assert await find_image(scene, after) == "db:1"
    await end(scene)


async def later_incarnation(scene: Scene) -> None:
    """A StatefulSet that was earlier replaced under another name keeps that name, and so its claims."""
    first = await begin(scene)
    await apply(scene, make_set(scene, serviceName="other", replace="CreateFirst"))
    await scene.reach_stack("UpdateComplete")
    before = await find_set(scene)
    assert before["metadata"]["name"] != first["metadata"]["name"]
    claims = await find_claims(scene, before)
    assert len(claims) == REPLICAS
    await apply(scene, make_set(scene, "2Gi", serviceName="other", replace="KeepClaims"))
    await scene.reach_stack("UpdateComplete")
    after = await find_set(scene)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert await find_claims(scene, after) == grown(claims, "2Gi")
    await delete_claims(scene, first)
    await end(scene)


async def beside_an_earlier_one(scene: Scene) -> None:
    """While an earlier StatefulSet still exists, the later one is replaced under its own name, and only that one."""
    first = await begin(scene)
    earlier = await find_claims(scene, first)
    other = make_set(scene, serviceName="other", replace="CreateFirst")
    probe = {"apiVersion": f"{probe_controller.GROUP}/v1", "kind": "Probe"}
    await scene.apply({"db": other, "broken": {"manifest": {**probe, "spec": {"fails": "no"}}}})

    async def look() -> list[str]:
        await scene.bind()
        found = await scene.find_children("StatefulSet")
        counts = [len(await scene.find_set_claims(each)) for each in found]
        # If there are two, the ready one is replaced.
        ready = [each.get("status", {}).get("readyReplicas") for each in found]
        is_there = counts == ready == [REPLICAS, REPLICAS]
        return [] if is_there else [f"there are {counts} claims, and {ready} Pods are ready"]

    await scene.reach(look)
    found = await scene.find_children("StatefulSet")
    (second,) = [each for each in found if each["metadata"]["uid"] != first["metadata"]["uid"]]
    claims = await find_claims(scene, second)
    await scene.apply({"db": make_set(scene, "2Gi", serviceName="other", replace="KeepClaims")})
    await scene.reach_stack("UpdateComplete")
    after = await find_set(scene)
    assert after["metadata"]["name"] == second["metadata"]["name"]
    assert await find_claims(scene, after) == grown(claims, "2Gi")
    assert await find_claims(scene, first) == earlier
    await delete_claims(scene, first)
    await end(scene)


async def delete_claims(scene: Scene, of: Object) -> None:
    """Delete the claims that a StatefulSet left to its users."""
    for claim in await scene.find_set_claims(of):
        await scene.world.user.delete(Address.of(claim))


async def begin_held(scene: Scene) -> Object:
    """A replacement that waits for the end of the deletion, with the operator stopped; return the StatefulSet."""
    before = await begin(scene)
    await scene.world.user.patch(Address.of(before), {"metadata": {"finalizers": [HOLD]}})
    scene.restarts = False
    await apply(scene, make_set(scene, "2Gi", replace="KeepClaims"))

    async def look() -> list[str]:
        found = await find_set(scene)
        return [] if "deletionTimestamp" in found["metadata"] else ["it is not being deleted yet"]

    await scene.reach(look)
    await scene.world.kill_controller()

    async def look_at_pods() -> list[str]:
        # The controller removes the finalizer `orphan` when the object owns nothing anymore.
        found = (await find_set(scene))["metadata"].get("finalizers") or []
        return [] if found == [HOLD] else [f"it has the finalizers {found}"]

    await scene.reach(look_at_pods)
    await scene.world.user.patch(Address.of(before), {"metadata": {"finalizers": None}})
    await scene.reach_gone(Address.of(before))
    assert len(await find_pods(scene, before)) == REPLICAS
    return before


async def taken_up_later(scene: Scene) -> None:
    """An operator that starts between deletion and creation creates the next StatefulSet with the same name, Pods and
    claims.
    """
    before = await begin_held(scene)
    claims, pods = await find_claims(scene, before), await find_pods(scene, before)
    await scene.world.start_controller()
    await scene.reach_stack("UpdateComplete")
    after = await find_set(scene)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert await find_claims(scene, after) == grown(claims, "2Gi")
    assert await find_pods(scene, after) == pods
    await end(scene)


async def rolled_back_in_between(scene: Scene) -> None:
    """A rollback between deletion and creation adopts the existing objects."""
    before = await begin_held(scene)
    claims = await find_claims(scene, before)
    await scene.request(toRevision=1)
    await scene.world.start_controller()
    await scene.reach_stack("RollbackComplete")
    after = await find_set(scene)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert set_replacement.read_size(after["spec"]["volumeClaimTemplates"][0]) == "1Gi"
    assert await find_claims(scene, after) == claims == grown(claims, "2Gi")
    await end(scene)


async def removed_in_between(scene: Scene) -> None:
    """An unwanted StatefulSet leaves its claims, but no Pod."""
    before = await begin_held(scene)
    claims = await find_claims(scene, before)
    await scene.apply({"after": scene.config(name="none")})
    await scene.world.start_controller()
    await scene.reach_stack("UpdateComplete")
    await reach_no_pods(scene, before)
    assert await find_claims(scene, before) == claims
    await delete_claims(scene, before)
    await end(scene)


async def deleted_in_between(scene: Scene) -> None:
    """The deletion of the Stack leaves no Pod behind either."""
    before = await begin_held(scene)
    await scene.delete("Stack", "shop")
    await scene.world.start_controller()
    await scene.reach_gone(scene.address("Stack", "shop"))
    await reach_no_pods(scene, before)
    await delete_claims(scene, before)


async def suspended_in_between(scene: Scene) -> None:
    """A Stack that is suspended between deletion and creation runs no Pod; resumed, it has its claims."""
    before = await begin_held(scene)
    claims = await find_claims(scene, before)
    resources = scene.spec["template"]["resources"]
    await scene.apply(resources, suspended=True)
    await scene.world.start_controller()
    await reach_no_pods(scene, before)
    await scene.reach_stack("SuspendComplete")
    await scene.apply(resources, suspended=False)
    await scene.reach_stack("ResumeComplete")
    after = await find_set(scene)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert await find_claims(scene, after) == claims
    assert len(await find_pods(scene, after)) == REPLICAS
    await end(scene)


async def marked(scene: Scene) -> None:
    """A mark restarts the Pods, and replaces neither the StatefulSet nor its claims; a later change restarts no Pod."""
    before = await begin(scene, replace="KeepClaims")
    claims, pods = await find_claims(scene, before), await find_pods(scene, before)
    await mark(scene, "ill", "Restarted")
    after = await find_set(scene)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert names.ANNOTATION_UNHEALTHY not in after["metadata"]["annotations"]
    assert await find_claims(scene, after) == claims
    restarted = await find_pods(scene, after)
    assert restarted.keys() == pods.keys()
    assert set(restarted.values()).isdisjoint(pods.values())
    await scene.reach_stack("CreateComplete")
    changed = make_set(scene, replace="KeepClaims")
    changed["manifest"]["spec"]["revisionHistoryLimit"] = 3
    await apply(scene, changed)
    await scene.reach_stack("UpdateComplete")
    assert await find_pods(scene, await find_set(scene)) == restarted
    await end(scene)


async def mark(scene: Scene, name: str, reason: str) -> None:
    """Mark the StatefulSet, and wait for that reason in its HealthMark."""
    spec = {"stackName": "shop", "resource": "db", "markUnhealthy": True, "reason": name}
    metadata = {"name": name, "namespace": scene.world.namespace}
    await scene.world.user.create(
        {"apiVersion": "hearth.dev/v1alpha1", "kind": "HealthMark", "metadata": metadata, "spec": spec}
    )

    async def look() -> list[str]:
        await scene.bind()
        found = await scene.world.user.find(scene.address("HealthMark", name))
        said = conditions.find((found or {}).get("status") or {}, "Ready").get("reason")
        return [] if said == reason else [f"the mark says {said}"]

    await scene.reach(look)


SCENARIOS: tuple[Scenario, ...] = (
    *(enlarged_claims, another_service, not_replaced_by_itself, fixed_class, one_fixed_claim, smaller_claims),
    *(another_selector, beside_an_earlier_one),
    *(foreign_claim, rolled_back, later_incarnation, taken_up_later, rolled_back_in_between, removed_in_between),
    *(deleted_in_between, suspended_in_between, marked),
)
