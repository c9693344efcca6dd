"""Reads, creates and deletes the VolumeSnapshots of one StackSnapshot, as the account of its Stack.

Only an object that this operator created for that binding counts: one with the recorded UID, or with a signature over
the StackSnapshot and its revision. So a copied label or a taken name never leads to a deletion, and a StackSnapshot
whose status was removed is not complete with the data of another revision. Must not decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hearth.engine.cluster_objects import StackSnapshotObject
from hearth.engine.ports import WorkloadCluster
from hearth.model import names, value_class
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import Boundary
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.snapshot_decision import ObservedVolume, SnapshotMemory, SnapshotVolume, VolumeState

GROUP = "snapshot.storage.k8s.io"
API_VERSION, KIND = f"{GROUP}/v1", "VolumeSnapshot"
PURPOSE = "volume snapshot"
REFUSALS = frozenset({400, 403, 404, 405, 422})
"""Answers that a retry alone does not change."""
NOT_SERVED = f"the cluster does not serve {API_VERSION} {KIND}"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSnapshots:
    """The VolumeSnapshots of one StackSnapshot."""

    snapshot: StackSnapshotObject
    memory: SnapshotMemory
    """The revision and Stack that the snapshot is bound to."""
    cluster: WorkloadCluster
    """The cluster as the account accesses it."""
    boundary: Boundary
    hashes: HashFunction

    @property
    def kind(self) -> Kind | None:
        """The kind VolumeSnapshot; None while the cluster does not serve it."""
        return self.cluster.kinds.find(API_VERSION, KIND)

    async def observe(self, volume: SnapshotVolume, *, observed_error: ObservedVolume | None = None) -> ObservedVolume:
        """Return the state of a VolumeSnapshot. observed_error: why it could not be created; counts while it does not exist."""
        kind = self.kind
        if kind is None or (denial := self.boundary.find_denial(make_ref(volume))):
            return ObservedVolume(
                volume=volume, state=VolumeState.UNKNOWN, message=NOT_SERVED if kind is None else denial
            )
        try:
            live = await self.cluster.get(make_ref(volume), kind=kind)
        except ApiStatusError as refused:
            if refused.is_not_found:
                return observed_error or ObservedVolume(volume=volume, state=VolumeState.ABSENT)
            return self._explain(volume, refused, kind)
        except Unreachable as lost:
            return ObservedVolume(volume=volume, state=VolumeState.UNKNOWN, message=str(lost))
        if not self._is_ours(volume, live):
            return ObservedVolume(volume=volume, state=VolumeState.OTHER)
        return read_state(volume, live)

    async def create(self, volume: SnapshotVolume, *, stack: str) -> ObservedVolume | None:
        """Create a VolumeSnapshot; return why that failed, or None. An existing object of that name stays as it is."""
        kind = self.kind
        if kind is None or self.boundary.find_denial(make_ref(volume)):
            return None
        try:
            await self.cluster.create_object(self._make_manifest(volume, stack=stack), kind=kind)
        except ApiStatusError as refused:
            if refused.is_conflict:
                return None
            return self._explain(volume, refused, kind)
        except Unreachable as lost:
            return ObservedVolume(volume=volume, state=VolumeState.UNKNOWN, message=str(lost))
        return None

    async def delete(self, volume: SnapshotVolume) -> str:
        """Delete a VolumeSnapshot that is proven to be of this StackSnapshot; return why that failed, or ""."""
        kind = self.kind
        if kind is None or self.boundary.find_denial(make_ref(volume)):
            return ""
        try:
            live = await self.cluster.get(make_ref(volume), kind=kind)
            if self._is_ours(volume, live):
                await self.cluster.delete_object(live, kind=kind)
        except ApiStatusError as refused:
            return "" if refused.is_not_found or refused.is_conflict else self._explain(volume, refused, kind).message
        except Unreachable as lost:
            return str(lost)
        return ""

    def _explain(self, volume: SnapshotVolume, error: ApiStatusError, kind: Kind) -> ObservedVolume:
        """Return the state of a VolumeSnapshot after a rejected request, with what would allow it."""
        state = VolumeState.FAILED if error.code in REFUSALS else VolumeState.UNKNOWN
        message = str(error)
        if error.is_forbidden and self.boundary.account:
            message = f"{message}; to allow it, run: {self.boundary.explain_grant(kind, volume.namespace)}"
        return ObservedVolume(volume=volume, state=state, message=message)

    def _make_manifest(self, volume: SnapshotVolume, *, stack: str) -> Object:
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": volume.snapshot,
                "namespace": volume.namespace,
                "labels": {
                    names.LABEL_SNAPSHOT_UID: self.snapshot.uid,
                    names.LABEL_STACK: names.stack_label(stack),
                },
                "annotations": {names.ANNOTATION_SIGNATURE: self.hashes.sign(PURPOSE, self._describe(volume))},
            },
            "spec": {"source": {"persistentVolumeClaimName": volume.claim}},
        }

    def _is_ours(self, volume: SnapshotVolume, live: Mapping[str, Any]) -> bool:
        """Return whether this operator created that object for this StackSnapshot and its revision."""
        metadata = live["metadata"]
        if volume.uid:
            return bool(metadata.get("uid") == volume.uid)
        signature = (metadata.get("annotations") or {}).get(names.ANNOTATION_SIGNATURE)
        source = ((live.get("spec") or {}).get("source") or {}).get("persistentVolumeClaimName")
        is_signed = isinstance(signature, str) and self.hashes.is_signed(PURPOSE, self._describe(volume), signature)
        return is_signed and source == volume.claim

    def _describe(self, volume: SnapshotVolume) -> list[str | int | None]:
        """Return the signed value."""
        binding = [self.snapshot.uid, self.memory.stack_uid, self.memory.revision]
        return [*binding, volume.namespace, volume.snapshot, volume.claim]


def make_ref(volume: SnapshotVolume) -> ObjectRef:
    """Return the reference to the VolumeSnapshot."""
    return ObjectRef(group=GROUP, kind=KIND, namespace=volume.namespace, name=volume.snapshot)


def read_state(volume: SnapshotVolume, live: Mapping[str, Any]) -> ObservedVolume:
    """Return the state of a VolumeSnapshot as its controller reports it."""
    status = live.get("status")
    status = status if isinstance(status, dict) else {}
    error = status.get("error")
    is_ready = status.get("readyToUse") is True
    state = VolumeState.READY if is_ready else VolumeState.FAILED if error else VolumeState.PENDING
    message = error.get("message") if isinstance(error, dict) and not is_ready else None
    return ObservedVolume(
        volume=replace(volume, uid=str(live["metadata"]["uid"]), is_ready=is_ready),
        state=state,
        message=str(message or ("" if state is not VolumeState.FAILED else "its controller gives no reason")),
        is_deleting="deletionTimestamp" in live["metadata"],
    )
