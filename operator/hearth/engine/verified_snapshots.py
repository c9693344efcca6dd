"""StackSnapshots with verified statuses, and the revisions that they pin.

A status names the revision that is never deleted, and the VolumeSnapshots that are deleted and restored from. One of
another writer does not count. Must not know how a snapshot is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.engine.cluster_objects import StackObject, StackSnapshotObject
from hearth.engine.services import Services
from hearth.model import names
from hearth.model.child import Object
from hearth.plan import snapshot_decision
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.snapshot_decision import ParsedSnapshot, SnapshotMemory

FIELD = "signature"
PURPOSE = "stack snapshot"
MEMORY = ("phase", "stackUID", "revision", "serviceAccountName", "volumes", "warnings")
"""The signed fields."""
UNWRITTEN = frozenset({"observedGeneration"})
"""The fields that the API server sets in a status before the operator writes it."""
API_VERSION, KIND = f"{names.GROUP}/{names.VERSION}", "StackSnapshot"


def sign(snapshot: StackSnapshotObject, status: Object, hashes: HashFunction) -> Object:
    """Return the status with the operator's signature."""
    return {**status, FIELD: hashes.sign(PURPOSE, _describe(snapshot, status))}


def read(snapshot: StackSnapshotObject, hashes: HashFunction) -> ParsedSnapshot:
    """Parse a StackSnapshot; a status of another writer counts as tampered."""
    status = dict(snapshot.status)
    signature = status.pop(FIELD, None)
    memory = _verify(snapshot, status, signature, hashes)
    return ParsedSnapshot(
        name=snapshot.name,
        owner=names.describe_owner(snapshot.owner_key),
        generation=snapshot.generation,
        is_deleting=snapshot.deleting,
        has_finalizer=names.SNAPSHOT_FINALIZER in snapshot.finalizers,
        retains=snapshot.spec.get("deletionPolicy") == "Retain",
        status=status,
        memory=memory or SnapshotMemory(),
        is_tampered=memory is None and not snapshot.status.keys() <= UNWRITTEN,
    )


def _verify(
    snapshot: StackSnapshotObject, status: Object, signature: object, hashes: HashFunction
) -> SnapshotMemory | None:
    """Return the signed content of a status; None if this operator did not write it."""
    if not isinstance(signature, str):
        return None
    try:
        if not hashes.is_signed(PURPOSE, _describe(snapshot, status), signature):
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
        # Without the kind there is no snapshot. If it is served and cannot be listed, any revision may be pinned.
        is_served = services.workload_cluster.kinds.find(API_VERSION, KIND) is not None
        return None if is_served else frozenset()
    bound = (each for each in snapshots.snapshots_of(stack.namespace, stack.owner_key) if "revision" in each.status)
    memories = (read(each, services.hashes).memory for each in bound)
    pinned = (memory.revision for memory in memories if memory.stack_uid == stack.uid)
    return frozenset(number for number in pinned if number)
