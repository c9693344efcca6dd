"""Copies of the data that a restore replaces in claims of StatefulSets: VolumeSnapshots, kept until the Stack is ready.

Such a claim must be deleted before another one can have its name, so its data would be lost if the restore failed. The
copies are named by the restore alone, so an operator that stops at any point continues with the same ones. Must not know
when claims are replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.engine import volume_snapshots
from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import WorkloadCluster
from hearth.model import limits, names, value_class
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, SnapshotNotUsable
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.ownership.keyed_hash import HashFunction

PURPOSE = "kept claim data"
BOUND = "Bound"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KeptData:
    """The copies of one restore."""

    stack: StackObject
    cluster: WorkloadCluster
    """The cluster as the account of the Stack accesses it."""
    hashes: HashFunction
    token: str
    """Of the restore."""

    async def keep(self, claim: Mapping[str, Any]) -> str:
        """Return what the copy of a live claim waits for; "" once it is complete. Raises as the port says."""
        if (claim.get("status") or {}).get("phase") != BOUND:
            # It has no volume, so there is no data.
            return ""
        kind, ref = self._find_kind(), self._make_ref(claim["metadata"]["namespace"], claim["metadata"]["name"])
        name = claim["metadata"]["name"]
        live = await self._find(ref, kind)
        if live is None:
            await self.cluster.create_object(self._make_manifest(ref, name), kind=kind)
            return f"waits until volumesnapshot/{ref.name} keeps the present data of persistentvolumeclaim/{name}"
        if not self._is_ours(live, ref, name):
            return f"volumesnapshot/{ref.name} was not created by this restore; delete it"
        status = live.get("status") or {}
        if status.get("readyToUse") is True:
            return ""
        error = status.get("error")
        cause = f": {error.get('message')}" if isinstance(error, dict) else ""
        way_out = "; if that data is not needed, delete the claim" if cause else ""
        return f"waits until volumesnapshot/{ref.name} keeps the present data of persistentvolumeclaim/{name}{cause}{way_out}"

    async def drop(self, namespace: str, claim: str) -> None:
        """Delete the copy of a claim, if there is one. Raises as the port says."""
        kind, ref = self._find_kind(), self._make_ref(namespace, claim)
        live = await self._find(ref, kind)
        if live is not None and self._is_ours(live, ref, claim):
            await self.cluster.delete_object(dict(live), kind=kind)

    def _find_kind(self) -> Kind:
        kind = self.cluster.kinds.find(volume_snapshots.API_VERSION, volume_snapshots.KIND)
        if kind is None:
            raise SnapshotNotUsable("VolumeSnapshotNotReady", volume_snapshots.NOT_SERVED)
        return kind

    def _make_ref(self, namespace: str, claim: str) -> ObjectRef:
        name = names.shorten(f"{claim}-kept-{self.token}", length=limits.NAME_LENGTH)
        return ObjectRef(group=volume_snapshots.GROUP, kind=volume_snapshots.KIND, namespace=namespace, name=name)

    async def _find(self, ref: ObjectRef, kind: Kind) -> Mapping[str, Any] | None:
        try:
            return await self.cluster.get(ref, kind=kind)
        except ApiStatusError as error:
            if not error.is_not_found:
                raise
            return None

    def _make_manifest(self, ref: ObjectRef, claim: str) -> Object:
        owner = {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": names.STACK,
            "name": self.stack.name,
            "uid": self.stack.uid,
        }
        # An owner in another namespace would have it deleted at once.
        owners = {"ownerReferences": [owner]} if ref.namespace == self.stack.namespace else {}
        return {
            "apiVersion": volume_snapshots.API_VERSION,
            "kind": volume_snapshots.KIND,
            "metadata": {
                "name": ref.name,
                "namespace": ref.namespace,
                "labels": {names.LABEL_STACK: names.stack_label(self.stack.name)},
                "annotations": {names.ANNOTATION_SIGNATURE: self.hashes.sign(PURPOSE, self._describe(ref, claim))},
                **owners,
            },
            "spec": {"source": {"persistentVolumeClaimName": claim}},
        }

    def _is_ours(self, live: Mapping[str, Any], ref: ObjectRef, claim: str) -> bool:
        signature = (live["metadata"].get("annotations") or {}).get(names.ANNOTATION_SIGNATURE)
        source = ((live.get("spec") or {}).get("source") or {}).get("persistentVolumeClaimName")
        is_signed = isinstance(signature, str) and self.hashes.is_signed(PURPOSE, self._describe(ref, claim), signature)
        return is_signed and source == claim

    def _describe(self, ref: ObjectRef, claim: str) -> list[str]:
        """Return the signed value."""
        return [self.stack.uid, ref.namespace, ref.name, claim]
