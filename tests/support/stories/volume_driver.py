"""Simulates a storage driver: it binds claims, and reports VolumeSnapshots as ready or failed.

Acts only when a test requests it.
"""

from __future__ import annotations

from typing import Any, Protocol

from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.stories.world import Address, World

VOLUME_SNAPSHOT = Kind(
    group="snapshot.storage.k8s.io", version="v1", name="VolumeSnapshot", plural="volumesnapshots", namespaced=True
)
CLAIM = "PersistentVolumeClaim"


class ClaimBinder(Protocol):
    """Binds a claim to a volume, as a provisioner does."""

    async def bind(self, claim: Object) -> None:
        """Bind it."""

    async def play_set(self, stateful_set: Object) -> None:
        """Simulate the controller of StatefulSets in worlds without one."""


class StatusBinder:
    """Binds a claim on the fake cluster, which has no volumes, by writing its status. Simulates StatefulSets
    there too.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    async def play_set(self, stateful_set: Object) -> None:
        """Create the claims and pods of all replicas, as their controller does, and report that all are ready."""
        metadata, spec = stateful_set["metadata"], stateful_set["spec"]
        if "deletionTimestamp" in metadata:
            return
        for template in spec.get("volumeClaimTemplates") or ():
            for index in range(spec["replicas"]):
                name = f"{template['metadata']['name']}-{metadata['name']}-{index}"
                claim = {
                    "apiVersion": "v1",
                    "kind": CLAIM,
                    "metadata": {
                        "name": name,
                        "namespace": metadata["namespace"],
                        "labels": dict(spec["selector"]["matchLabels"]),
                    },
                    "spec": template["spec"],
                }
                if await self._world.user.find(Address.of(claim)) is None:
                    await self._world.user.create(claim)
        for index in range(spec["replicas"]):
            await self._play_pod(stateful_set, f"{metadata['name']}-{index}")
        count = spec["replicas"]
        counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "currentReplicas"), count)
        status = {**counts, "observedGeneration": metadata["generation"]}
        if {key: (stateful_set.get("status") or {}).get(key) for key in status} != status:
            await self._world.user.patch_status(Address.of(stateful_set), status)

    async def _play_pod(self, stateful_set: Object, name: str) -> None:
        """Create a pod, or take over one that has no controller; another template makes another pod."""
        metadata, template = stateful_set["metadata"], stateful_set["spec"]["template"]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": metadata["name"], "uid": metadata["uid"]}
        owners = [{**owner, "controller": True}]
        labels = {**template["metadata"]["labels"], "statefulset.kubernetes.io/pod-name": name}
        annotations = template["metadata"].get("annotations") or {}
        head = {"name": name, "namespace": metadata["namespace"], "labels": labels, "annotations": annotations}
        head["ownerReferences"] = owners
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": template["spec"]}
        live = await self._world.user.find(Address.of(pod))
        is_former = live is not None and (live["metadata"].get("annotations") or {}) != annotations
        if live is not None and (is_former or live["spec"] != pod["spec"]):
            await self._world.user.delete(Address.of(pod))
            live = None
        if live is None:
            await self._world.user.create(pod)
        elif not live["metadata"].get("ownerReferences"):
            await self._world.user.patch(Address.of(pod), {"metadata": {"ownerReferences": owners}})

    async def bind(self, claim: Object) -> None:
        """As the protocol says."""
        await self._world.user.patch_status(Address.of(claim), {"phase": "Bound"})


class VolumeBinder:
    """Binds a claim on a real cluster: by a volume that is reserved for it."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def play_set(self, stateful_set: Object) -> None:
        """As the protocol says: there is a controller."""

    async def bind(self, claim: Object) -> None:
        """As the protocol says."""
        metadata, spec = claim["metadata"], claim["spec"]
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"played-{metadata['uid']}"},
            "spec": {
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "storageClassName": spec.get("storageClassName", ""),
                "persistentVolumeReclaimPolicy": "Delete",
                "hostPath": {"path": "/tmp"},  # noqa: S108 -- no node mounts it
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": CLAIM,
                    **{key: metadata[key] for key in ("namespace", "name", "uid")},
                },
            },
        }
        address = Address.of(volume)
        if await self._world.user.find(address) is None:
            await self._world.user.create(volume)


def make_report(**status: Any) -> Object:
    """Return the status of a VolumeSnapshot that is ready, with other fields as given."""
    return {"readyToUse": True, "boundVolumeSnapshotContentName": "snapcontent-played", **status}


def definition() -> Object:
    """Return a CustomResourceDefinition of VolumeSnapshot that is enough for the fake cluster."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": VOLUME_SNAPSHOT.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": VOLUME_SNAPSHOT.name, "plural": VOLUME_SNAPSHOT.plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{VOLUME_SNAPSHOT.plural}.{VOLUME_SNAPSHOT.group}"},
        "spec": {"group": VOLUME_SNAPSHOT.group, "names": names, "scope": "Namespaced", "versions": [version]},
    }
