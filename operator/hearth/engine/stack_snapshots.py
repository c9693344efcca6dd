"""Reads and verifies StackSnapshot statuses and their VolumeSnapshots.

The status of a StackSnapshot pins a revision and lists the VolumeSnapshots to restore from and to delete, so only a
status with the operator's signature counts. A VolumeSnapshot counts if it has the recorded UID, or a signature over the
StackSnapshot and its revision. A copied label or a reused name therefore never causes a deletion. VolumeSnapshots are
read, created and deleted as the account of the Stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from hearth import answers
from hearth.answers import RequestError
from hearth.engine import former_stacks
from hearth.engine.cluster_objects import StackObject, StackSnapshotObject
from hearth.engine.ports import ClusterKinds, WorkloadCluster
from hearth.engine.services import Services
from hearth.model import limits, names, value_class
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import Boundary
from hearth.plan import snapshot_decision
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.snapshot_decision import (
    ObservedVolume,
    ParsedSnapshot,
    SnapshotMemory,
    SnapshotPhase,
    SnapshotVolume,
    VolumeState,
)

GROUP = "snapshot.storage.k8s.io"
VOLUME_SNAPSHOT_VERSION, VOLUME_SNAPSHOT = f"{GROUP}/v1", "VolumeSnapshot"
VOLUME_PURPOSE = "volume snapshot"
REFUSALS = frozenset({400, 403, 404, 405, 422})
"""Response codes that would be the same after a retry."""
NOT_SERVED = f"the cluster does not serve {VOLUME_SNAPSHOT_VERSION} {VOLUME_SNAPSHOT}"
FIELD = "signature"
SNAPSHOT_PURPOSE = "stack snapshot"
CONTENT_PURPOSE = "content of a stack snapshot"
MEMORY = ("phase", "stackUID", "revision", "serviceAccountName", "volumes", "warnings")
"""The signed fields."""
UNWRITTEN = frozenset({"observedGeneration"})
"""The fields that the API server sets in a status before the operator writes it."""
STACK_SNAPSHOT_VERSION, STACK_SNAPSHOT = f"{names.GROUP}/{names.VERSION}", "StackSnapshot"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ContentRecord:
    """The content of a complete StackSnapshot, as its annotation records it."""

    uid: str
    """The UID that the StackSnapshot had. A restore from a backup changes it, but not the VolumeSnapshots."""
    memory: SnapshotMemory


def sign_content(snapshot: StackSnapshotObject, memory: SnapshotMemory, hashes: HashFunction) -> str:
    """Return the annotation that records the content of a complete StackSnapshot; "" if it is too large."""
    content = {"phase": str(SnapshotPhase.COMPLETE), **snapshot_decision.encode(memory)}
    signature = hashes.sign(CONTENT_PURPOSE, _describe_content(snapshot, snapshot.uid, content))
    text = orjson.dumps({"uid": snapshot.uid, "content": content, FIELD: signature}).decode()
    return text if len(text) <= limits.SNAPSHOT_CONTENT_BYTES else ""


def parse_content(snapshot: StackSnapshotObject, hashes: HashFunction) -> ContentRecord | None:
    """Return the content in the annotation, or None if this operator did not write it for a StackSnapshot of that name."""
    if not snapshot.content:
        return None
    try:
        match orjson.loads(snapshot.content):
            case {"uid": str(uid), "content": dict(content), "signature": str(signature)}:
                described = _describe_content(snapshot, uid, content)
                if hashes.is_signed(CONTENT_PURPOSE, described, signature):
                    return ContentRecord(uid=uid, memory=snapshot_decision.decode(content))
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    return None


def _describe_content(snapshot: StackSnapshotObject, uid: str, content: Object) -> list[Any]:
    """Return the signed value of the annotation."""
    return [uid, snapshot.namespace, snapshot.name, snapshot.owner_key, content]


def sign_status(snapshot: StackSnapshotObject, status: Object, hashes: HashFunction) -> Object:
    """Return the status with the operator's signature."""
    return {**status, FIELD: hashes.sign(SNAPSHOT_PURPOSE, _describe(snapshot, status))}


def parse_snapshot(snapshot: StackSnapshotObject, hashes: HashFunction) -> ParsedSnapshot:
    """Parse a StackSnapshot. A status that another writer changed counts as tampered."""
    status = dict(snapshot.status)
    signature = status.pop(FIELD, None)
    memory = _verify(snapshot, status, signature, hashes)
    is_tampered = memory is None and not snapshot.status.keys() <= UNWRITTEN
    is_open = memory is None or (not memory.is_bound and memory.phase is not SnapshotPhase.FAILED)
    record = parse_content(snapshot, hashes) if is_open and not is_tampered else None
    if record is not None:
        # The VolumeSnapshots were restored too, with other UIDs.
        volumes = tuple(replace(each, uid="") for each in record.memory.volumes)
        memory = replace(record.memory, volumes=volumes)
    return ParsedSnapshot(
        name=snapshot.name,
        owner=names.describe_owner(snapshot.owner_key),
        generation=snapshot.generation,
        is_deleting=snapshot.deleting,
        has_finalizer=names.SNAPSHOT_FINALIZER in snapshot.finalizers,
        retains=snapshot.spec.get("deletionPolicy") == "Retain",
        status=status,
        memory=memory or SnapshotMemory(),
        is_tampered=is_tampered,
        is_restored=record is not None,
    )


def _verify(
    snapshot: StackSnapshotObject, status: Object, signature: object, hashes: HashFunction
) -> SnapshotMemory | None:
    """Return the signed content of a status, or None if this operator did not write it."""
    if not isinstance(signature, str):
        return None
    try:
        if not hashes.is_signed(SNAPSHOT_PURPOSE, _describe(snapshot, status), signature):
            return None
        return snapshot_decision.decode(status)
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _describe(snapshot: StackSnapshotObject, status: Mapping[str, Any]) -> list[Any]:
    """Return the signed value."""
    whose = [snapshot.uid, snapshot.namespace, snapshot.name, snapshot.owner_key]
    return [*whose, {key: status[key] for key in MEMORY if key in status}]


def find_pinned(services: Services, stack: StackObject) -> frozenset[int] | None:
    """Return the numbers of the revisions that snapshots of the Stack pin; None while that is unknown."""
    snapshots = services.snapshots
    if not snapshots.is_synced:
        # If the kind does not exist, there are no snapshots. If it is served but cannot be listed, any revision may be
        # pinned.
        is_served = services.workload_cluster.kinds.find(STACK_SNAPSHOT_VERSION, STACK_SNAPSHOT) is not None
        return None if is_served else frozenset()
    found = snapshots.snapshots_of(stack.namespace, stack.owner_key)
    bound = (each for each in found if "revision" in each.status or each.content)
    parsed = [parse_snapshot(each, services.hashes) for each in bound]
    memories = [bind_to_successor(each, stack, services).memory for each in parsed]
    pinned = (memory.revision for memory in memories if memory.stack_uid == stack.uid)
    return frozenset(number for number in pinned if number)


def bind_to_successor(parsed: ParsedSnapshot, stack: StackObject, services: Services) -> ParsedSnapshot:
    """Return a snapshot, bound to that Stack if both were restored from a backup."""
    if not parsed.is_restored or parsed.memory.stack_uid not in former_stacks.find_former_uids(services, stack):
        return parsed
    return replace(parsed, memory=replace(parsed.memory, stack_uid=stack.uid))


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
        """The kind VolumeSnapshot, or None while the cluster does not serve it."""
        return find_volume_kind(self.cluster)

    async def observe(self, volume: SnapshotVolume, *, observed_error: ObservedVolume | None = None) -> ObservedVolume:
        """Return the state of a VolumeSnapshot. observed_error: why it could not be created, while it does not exist."""
        kind = self.kind
        if kind is None or (denial := self.boundary.find_denial(make_volume_ref(volume.namespace, volume.snapshot))):
            return ObservedVolume(
                volume=volume, state=VolumeState.UNKNOWN, message=NOT_SERVED if kind is None else denial
            )
        live = await answers.try_request(
            self.cluster.get(make_volume_ref(volume.namespace, volume.snapshot), kind=kind)
        )
        if isinstance(live, ApiStatusError) and live.is_not_found:
            return observed_error or ObservedVolume(volume=volume, state=VolumeState.ABSENT)
        if isinstance(live, answers.REQUEST_ERRORS):
            return self._explain(volume, live, kind)
        if not self._is_ours(volume, live):
            return ObservedVolume(volume=volume, state=VolumeState.OTHER)
        return read_state(volume, live)

    async def find_live(self, volume: SnapshotVolume, *, kind: Kind) -> Object | None:
        """Return the live VolumeSnapshot if it is proven to belong to this StackSnapshot; otherwise None. Raises the
        errors of the port.
        """
        live = await self.cluster.get(make_volume_ref(volume.namespace, volume.snapshot), kind=kind)
        return live if self._is_ours(volume, live) else None

    def _explain(self, volume: SnapshotVolume, error: RequestError, kind: Kind) -> ObservedVolume:
        """Return the state of a VolumeSnapshot after a failed request, with the command that would allow it."""
        message = str(error)
        if not isinstance(error, ApiStatusError):
            return ObservedVolume(volume=volume, state=VolumeState.UNKNOWN, message=message)
        state = VolumeState.FAILED if error.code in REFUSALS else VolumeState.UNKNOWN
        if error.is_forbidden and self.boundary.account:
            message = f"{message}; to allow it, run: {self.boundary.explain_grant(kind, volume.namespace)}"
        return ObservedVolume(volume=volume, state=state, message=message)

    def make_manifest(self, volume: SnapshotVolume, *, stack: str) -> Object:
        """Make the signed VolumeSnapshot. stack: the name of the Stack."""
        labels = {names.LABEL_SNAPSHOT_UID: self.snapshot.uid, names.LABEL_STACK: names.stack_label(stack)}
        signature = self.hashes.sign(VOLUME_PURPOSE, self._describe(volume))
        ref = make_volume_ref(volume.namespace, volume.snapshot)
        return make_volume_snapshot(ref, volume.claim, labels=labels, signature=signature)

    def _is_ours(self, volume: SnapshotVolume, live: Mapping[str, Any]) -> bool:
        """Return whether this operator created that object for this StackSnapshot and its revision."""
        metadata = live["metadata"]
        if volume.uid:
            return bool(metadata.get("uid") == volume.uid)
        signature = find_signature(live, volume.claim)
        if not signature:
            return False
        if self.hashes.is_signed(VOLUME_PURPOSE, self._describe(volume), signature):
            return True
        record = parse_content(self.snapshot, self.hashes)
        if record is None or record.memory.revision != self.memory.revision:
            return False
        former = [record.uid, record.memory.stack_uid, record.memory.revision, *self._describe(volume)[3:]]
        return self.hashes.is_signed(VOLUME_PURPOSE, former, signature)

    def _describe(self, volume: SnapshotVolume) -> list[str | int | None]:
        """Return the signed value."""
        binding = [self.snapshot.uid, self.memory.stack_uid, self.memory.revision]
        return [*binding, volume.namespace, volume.snapshot, volume.claim]


def make_volume_ref(namespace: str, name: str) -> ObjectRef:
    """Return the reference to a VolumeSnapshot."""
    return ObjectRef(group=GROUP, kind=VOLUME_SNAPSHOT, namespace=namespace, name=name)


def make_volume_snapshot(
    ref: ObjectRef, claim: str, *, labels: Mapping[str, str], signature: str, owners: Sequence[Object] = ()
) -> Object:
    """Make the manifest of a signed VolumeSnapshot of a claim."""
    metadata = {
        "name": ref.name,
        "namespace": ref.namespace,
        "labels": labels,
        "annotations": {names.ANNOTATION_SIGNATURE: signature},
        **({"ownerReferences": owners} if owners else {}),
    }
    source = {"persistentVolumeClaimName": claim}
    return {
        "apiVersion": VOLUME_SNAPSHOT_VERSION,
        "kind": VOLUME_SNAPSHOT,
        "metadata": metadata,
        "spec": {"source": source},
    }


def find_signature(live: Mapping[str, Any], claim: str) -> str:
    """Return the unverified signature of a live VolumeSnapshot of that claim, or "" if it has none."""
    signature = (live["metadata"].get("annotations") or {}).get(names.ANNOTATION_SIGNATURE)
    source = ((live.get("spec") or {}).get("source") or {}).get("persistentVolumeClaimName")
    return signature if isinstance(signature, str) and source == claim else ""


def find_volume_kind(cluster: ClusterKinds) -> Kind | None:
    """Return the kind VolumeSnapshot; None while the cluster does not serve it."""
    return cluster.kinds.find(VOLUME_SNAPSHOT_VERSION, VOLUME_SNAPSHOT)


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
        message=str(message or ("" if state is not VolumeState.FAILED else "its controller reports no reason")),
        is_deleting="deletionTimestamp" in live["metadata"],
    )
