"""StackSnapshots of a tenant: limited to the rights of the Stack's account, and a forged status has no effect."""

from __future__ import annotations

from typing import Any

from support.real import snapshot_crds
from support.threats.api import Api, Object
from support.threats.world import READ, WRITE, Rule, Tenant, ThreatWorld, make_stack

SNAPSHOTS = Rule(group="hearth.dev", resources=("stacksnapshots", "stacksnapshots/status"), verbs=(*READ, *WRITE))
CLAIMS = Rule(group="", resources=("persistentvolumeclaims",), verbs=("get", "list", "create", "patch", "delete"))
VOLUMES = Rule(
    group="snapshot.storage.k8s.io", resources=("volumesnapshots",), verbs=("get", "list", "create", "delete")
)
CLAIM: Object = {
    "manifest": {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "readyWhen": ["true"],
}


def install(threats: ThreatWorld) -> None:
    """Let the API server serve VolumeSnapshots."""
    for definition in snapshot_crds.load():
        threats.api.apply(definition).expect()
    path = "/apis/snapshot.storage.k8s.io/v1/volumesnapshots"
    threats.wait_for(lambda: threats.api.send("GET", path).is_accepted, what="VolumeSnapshots")


def make_snapshot(namespace: str, name: str = "before") -> Object:
    """A StackSnapshot of Stack shop."""
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "StackSnapshot",
        "metadata": metadata,
        "spec": {"stackName": "shop"},
    }


def make_volume_snapshot(namespace: str, name: str = "treasure") -> Object:
    """A VolumeSnapshot of another client."""
    spec = {"source": {"persistentVolumeClaimName": "anything"}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": metadata, "spec": spec}


def wait_reason(threats: ThreatWorld, tenant: Tenant, reason: str, *, name: str = "before") -> Object:
    """Wait until the snapshot has that reason; return its status and the message of `Ready`."""

    def look() -> Object | None:
        found = threats.api.get("StackSnapshot", tenant.namespace, name) or {}
        status: Any = found.get("status") or {}
        ready: Object = next((each for each in status.get("conditions") or () if each["type"] == "Ready"), {})
        return {**status, "message": ready["message"]} if ready.get("reason") == reason else None

    return threats.wait_for(look, what=f"{reason} of stacksnapshot/{name}")


def start(threats: ThreatWorld, tenant: Tenant, **spec: Any) -> Api:
    """An author with a complete Stack of one claim."""
    author = tenant.author(SNAPSHOTS)
    author.create(make_stack(tenant.namespace, "shop", {"data": CLAIM}, **spec))
    threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    return author


def test_a_snapshot_has_the_rights_of_the_account(threats: ThreatWorld) -> None:
    install(threats)
    tenant = threats.tenant()
    account = tenant.make_account("weak", CLAIMS)
    name = account.account.split("/")[1]
    author = start(threats, tenant, serviceAccountName=name)
    author.create(make_snapshot(tenant.namespace))
    status = wait_reason(threats, tenant, "VolumeSnapshotFailed")
    assert f"system:serviceaccount:{tenant.namespace}:{name}" in status["message"]
    assert threats.api.list("VolumeSnapshot", tenant.namespace) == []

    rules = [rule.render() for rule in (CLAIMS, VOLUMES)]
    threats.api.patch("Role", tenant.namespace, name, {"rules": rules}).expect()
    (volume,) = wait_reason(threats, tenant, "VolumeSnapshotsNotReady")["volumes"]
    ready = {"status": {"readyToUse": True, "boundVolumeSnapshotContentName": "played"}}
    patch = {"subresource": "status"}
    threats.wait_for(
        lambda: threats.api.patch("VolumeSnapshot", tenant.namespace, volume["snapshot"], ready, **patch).is_accepted
    )
    wait_reason(threats, tenant, "Complete")

    author.delete("Stack", tenant.namespace, "shop")
    threats.wait_for(lambda: threats.api.get("Stack", tenant.namespace, "shop") is None, what="the end of the Stack")
    threats.api.patch("Role", tenant.namespace, name, {"rules": []}).expect()
    author.delete("StackSnapshot", tenant.namespace, "before")
    assert "forbidden" in wait_reason(threats, tenant, "Deleting")["message"]
    assert threats.api.get("VolumeSnapshot", tenant.namespace, volume["snapshot"]) is not None
    threats.api.patch("Role", tenant.namespace, name, {"rules": rules}).expect()
    threats.wait_for(lambda: threats.api.get("StackSnapshot", tenant.namespace, "before") is None, within=120.0)
    assert threats.api.get("VolumeSnapshot", tenant.namespace, volume["snapshot"]) is None


def test_a_forged_status_deletes_nothing(threats: ThreatWorld) -> None:
    install(threats)
    tenant, other = threats.tenant(), threats.tenant("other")
    author = start(threats, tenant)
    author.create(make_snapshot(tenant.namespace))
    (volume,) = wait_reason(threats, tenant, "VolumeSnapshotsNotReady")["volumes"]
    threats.wait_for(lambda: threats.api.list("VolumeSnapshot", tenant.namespace))
    (ours,) = threats.api.list("VolumeSnapshot", tenant.namespace)
    treasures = [
        threats.api.create(make_volume_snapshot(tenant.namespace)),
        threats.api.create(make_volume_snapshot(other.namespace)),
    ]
    for treasure in treasures:
        copied = {key: ours["metadata"][key] for key in ("labels", "annotations")}
        place = (treasure["metadata"]["namespace"], treasure["metadata"]["name"])
        threats.api.patch("VolumeSnapshot", *place, {"metadata": copied}).expect()
    forged = [
        {
            **volume,
            "snapshot": each["metadata"]["name"],
            "namespace": each["metadata"]["namespace"],
            "snapshotUID": each["metadata"]["uid"],
        }
        for each in treasures
    ]
    status = {"status": {"volumes": forged, "phase": "Complete"}}
    author.patch("StackSnapshot", tenant.namespace, "before", status, subresource="status").expect()
    wait_reason(threats, tenant, "StatusTampered")
    author.delete("StackSnapshot", tenant.namespace, "before")
    threats.wait_for(lambda: threats.api.get("StackSnapshot", tenant.namespace, "before") is None)
    for treasure in treasures:
        metadata = treasure["metadata"]
        assert threats.api.get("VolumeSnapshot", metadata["namespace"], metadata["name"]) is not None
    threats.canary()
