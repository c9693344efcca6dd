"""Decides the binding, the VolumeSnapshots and the status of one StackSnapshot.

A StackSnapshot is bound once. Its status names the revision and all VolumeSnapshots before the first one is created, so
an operator that restarts at any point continues with the same ones. The revision of a bound snapshot is never deleted
(`hearth.engine.stack_snapshots`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from hearth.model import limits, names, value_class
from hearth.model.child import Object
from hearth.model.phases import PhaseConditions
from hearth.model.text.enumeration import enumerate_names
from hearth.model.text.times import format_time
from hearth.plan.status import conditions


class SnapshotPhase(enum.StrEnum):
    """`status.phase`."""

    IN_PROGRESS = "InProgress"
    COMPLETE = "Complete"
    FAILED = "Failed"


CONDITIONS: Mapping[SnapshotPhase, PhaseConditions] = {
    SnapshotPhase.IN_PROGRESS: PhaseConditions(ready="False", reconciling=True, stalled=False, reason=None),
    SnapshotPhase.COMPLETE: PhaseConditions(ready="True", reconciling=False, stalled=False, reason=None),
    SnapshotPhase.FAILED: PhaseConditions(ready="False", reconciling=False, stalled=True, reason=None),
}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotVolume:
    """A claim and its VolumeSnapshot."""

    claim: str
    namespace: str
    resource: str
    """The resource whose object the claim is, or whose StatefulSet uses it."""
    snapshot: str
    """The name of the VolumeSnapshot."""
    uid: str = ""
    """The UID of the VolumeSnapshot; "" before it exists."""
    is_ready: bool = False
    is_of_stateful_set: bool = False
    """Whether a StatefulSet made the claim, from one of its templates."""

    @property
    def claim_text(self) -> str:
        """Return the claim as messages name it."""
        return f"persistentvolumeclaim/{self.claim}"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMemory:
    """The parts of a status that the operator reads back."""

    phase: SnapshotPhase | None = None
    stack_uid: str = ""
    revision: int | None = None
    """None before the snapshot is bound."""
    account: str = ""
    """The ServiceAccount of the Stack; "" for none."""
    volumes: tuple[SnapshotVolume, ...] = ()
    warnings: tuple[str, ...] = ()
    """Volumes that are not part of the snapshot."""

    @property
    def is_bound(self) -> bool:
        """Whether the snapshot names a revision."""
        return self.revision is not None


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSnapshot:
    """The spec and status of a StackSnapshot."""

    name: str
    owner: str
    generation: int
    is_deleting: bool
    has_finalizer: bool
    retains: bool
    """Whether its VolumeSnapshots stay when it is deleted."""
    status: Mapping[str, Any]
    memory: SnapshotMemory
    is_tampered: bool = False
    """Whether another writer changed its status."""
    is_restored: bool = False
    """Whether its status was lost, and `memory` comes from its annotation."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProblem:
    """Why the snapshot is not complete."""

    reason: str
    """One CamelCase word."""
    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ObservedStack:
    """The current state of the Stack."""

    problem: SnapshotProblem | None = None
    """Why the snapshot cannot be bound now, or None if all fields below are known."""
    uid: str = ""
    revision: int = 0
    account: str = ""
    claims: tuple[SnapshotVolume, ...] = ()
    warnings: tuple[str, ...] = ()
    is_gone: bool = False
    """Whether the Stack to which the snapshot is bound does not exist, or is being deleted."""
    has_revision: bool = True
    """Whether the revision to which the snapshot is bound is stored."""


class VolumeState(enum.Enum):
    """The state of one VolumeSnapshot."""

    ABSENT = "absent"
    OTHER = "other"
    """Another object has the name."""
    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It could not be read or written now."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ObservedVolume:
    """A VolumeSnapshot as it is now."""

    volume: SnapshotVolume
    """With the UID and readiness that were observed."""
    state: VolumeState
    message: str = ""
    is_deleting: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether an existing VolumeSnapshot was deleted or replaced by another object."""
        return bool(self.volume.uid) and self.state in (VolumeState.ABSENT, VolumeState.OTHER)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDecision:
    """Next actions: the finalizer first, then the VolumeSnapshots, then the status."""

    add_finalizer: bool = False
    remove_finalizer: bool = False
    create: tuple[SnapshotVolume, ...] = ()
    delete: tuple[SnapshotVolume, ...] = ()
    status: Object | None = None
    """The whole status, or None if it does not change."""


NOTHING = SnapshotDecision()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class VolumeVerdict:
    """The phase, and the reason and message of `Ready`."""

    phase: SnapshotPhase
    reason: str
    message: str
    memory: SnapshotMemory = field(default_factory=SnapshotMemory)


def decide_binding(snapshot: ParsedSnapshot, stack: ObservedStack, *, now: float) -> SnapshotDecision:
    """Decide on a snapshot without a revision: bind it as soon as the Stack permits. now: seconds since the epoch."""
    if snapshot.is_tampered or snapshot.memory.phase is SnapshotPhase.FAILED:
        message = (
            "another client changed the status of this StackSnapshot, so its content is unknown. It cannot be restored; "
            "its VolumeSnapshots stay. Delete it and create another one"
        )
        return _write(
            snapshot, VolumeVerdict(phase=SnapshotPhase.FAILED, reason="StatusTampered", message=message), now=now
        )
    if stack.problem is not None:
        verdict = VolumeVerdict(
            phase=SnapshotPhase.IN_PROGRESS, reason=stack.problem.reason, message=stack.problem.message
        )
        return _write(snapshot, verdict, now=now)
    if stack.claims and not snapshot.has_finalizer:
        return SnapshotDecision(add_finalizer=True)
    memory = SnapshotMemory(
        stack_uid=stack.uid,
        revision=stack.revision,
        account=stack.account,
        volumes=stack.claims,
        warnings=stack.warnings,
    )
    waiting = tuple(ObservedVolume(volume=volume, state=VolumeState.ABSENT) for volume in stack.claims)
    return _write(snapshot, _assess_bound(replace(snapshot, memory=memory), stack, waiting), now=now)


def decide_restored(
    snapshot: ParsedSnapshot, stack: ObservedStack, volumes: Sequence[ObservedVolume], *, now: float
) -> SnapshotDecision:
    """Decide on a complete snapshot that lost its status: report it as complete again, once its VolumeSnapshots exist.

    now: seconds since the epoch.
    """
    if snapshot.memory.volumes and not snapshot.has_finalizer:
        return SnapshotDecision(add_finalizer=True)
    if missing := _find_missing(volumes):
        # The status names no revision, so the annotation continues to count.
        verdict = VolumeVerdict(phase=SnapshotPhase.IN_PROGRESS, reason=missing.reason, message=missing.message)
        return _write(snapshot, verdict, now=now)
    return _write(snapshot, _judge_complete(snapshot, stack, snapshot.memory), now=now)


def decide_progress(
    snapshot: ParsedSnapshot, stack: ObservedStack, volumes: Sequence[ObservedVolume], *, now: float
) -> SnapshotDecision:
    """Decide on a bound snapshot: create missing VolumeSnapshots, then wait for them. now: seconds since the epoch."""
    verdict = _assess_bound(snapshot, stack, volumes)
    create: tuple[SnapshotVolume, ...] = ()
    if not stack.is_gone and stack.has_revision and snapshot.memory.phase is not SnapshotPhase.COMPLETE:
        create = tuple(each.volume for each in volumes if each.state is VolumeState.ABSENT and not each.volume.uid)
    if create:
        # Another decision follows each creation and writes the status.
        return SnapshotDecision(create=create)
    return _write(snapshot, verdict, now=now)


def decide_deletion(
    snapshot: ParsedSnapshot, volumes: Sequence[ObservedVolume], *, is_namespace_terminating: bool, now: float
) -> SnapshotDecision:
    """Decide on a snapshot that is being deleted: its VolumeSnapshots first, then the finalizer.

    is_namespace_terminating: whether its whole namespace is being deleted, so that the snapshot must not block it.
    """
    if not snapshot.has_finalizer:
        return NOTHING
    ours = [each for each in volumes if each.state not in (VolumeState.ABSENT, VolumeState.OTHER)]
    if snapshot.retains or not ours or is_namespace_terminating:
        return SnapshotDecision(remove_finalizer=True)
    delete = tuple(each.volume for each in ours if each.state is not VolumeState.UNKNOWN and not each.is_deleting)
    blocked = [each for each in ours if each.is_deleting or each.state is VolumeState.UNKNOWN]
    if delete:
        return SnapshotDecision(delete=delete)
    names = enumerate_names([describe(each.volume) for each in blocked])
    cause = next((f": {each.message}" for each in blocked if each.message), "")
    message = (
        f"waits until {names} is deleted{cause}; to keep the VolumeSnapshots instead, set spec.deletionPolicy to Retain"
    )
    return decide_blocked(snapshot, message, now=now)


def decide_blocked(snapshot: ParsedSnapshot, message: str, *, now: float) -> SnapshotDecision:
    """Report why a snapshot that is being deleted still exists. now: seconds since the epoch."""
    phase = snapshot.memory.phase or SnapshotPhase.IN_PROGRESS
    verdict = VolumeVerdict(phase=phase, reason="Deleting", message=message, memory=snapshot.memory)
    return _write(snapshot, verdict, shown_phase=SnapshotPhase.IN_PROGRESS, now=now)


def _assess_bound(snapshot: ParsedSnapshot, stack: ObservedStack, volumes: Sequence[ObservedVolume]) -> VolumeVerdict:
    """Return the phase of a bound snapshot."""
    memory = replace(snapshot.memory, volumes=tuple(each.volume for each in volumes))
    if snapshot.memory.phase is SnapshotPhase.COMPLETE:
        return _judge_complete(snapshot, stack, snapshot.memory)
    if stack.is_gone:
        message = f"{snapshot.owner} was deleted before the snapshot was complete; delete this StackSnapshot"
        return VolumeVerdict(phase=SnapshotPhase.FAILED, reason="StackDeleted", message=message, memory=memory)
    if not stack.has_revision:
        message = (
            f"revision {memory.revision} of {snapshot.owner} is no longer stored; delete this StackSnapshot and "
            f"create another one"
        )
        return VolumeVerdict(phase=SnapshotPhase.FAILED, reason="RevisionNotFound", message=message, memory=memory)
    if failure := _find_failure(volumes):
        return VolumeVerdict(phase=SnapshotPhase.FAILED, reason=failure.reason, message=failure.message, memory=memory)
    pending = [describe(each.volume) for each in volumes if each.state is not VolumeState.READY]
    if not pending:
        return _judge_complete(snapshot, stack, memory)
    unknown = next((f": {each.message}" for each in volumes if each.state is VolumeState.UNKNOWN), "")
    message = f"waits until {enumerate_names(pending)} is ready to use{unknown}"
    return VolumeVerdict(
        phase=SnapshotPhase.IN_PROGRESS, reason="VolumeSnapshotsNotReady", message=message, memory=memory
    )


def _judge_complete(snapshot: ParsedSnapshot, stack: ObservedStack, memory: SnapshotMemory) -> VolumeVerdict:
    """Return the verdict of a complete snapshot, which stays complete."""
    memory = replace(memory, phase=SnapshotPhase.COMPLETE)
    count = len(memory.volumes)
    volumes = f"{count} volume{'' if count == 1 else 's'}" if count else "no volumes"
    message = f"contains revision {memory.revision} of {snapshot.owner} and {volumes}"
    if memory.warnings:
        message = f"{message}; {'; '.join(memory.warnings)}"
    if stack.is_gone:
        message = (
            f"{message}. {snapshot.owner} is deleted and its revisions with it: only the VolumeSnapshots can "
            f"still be used, as dataSource of new PersistentVolumeClaims"
        )
    return VolumeVerdict(phase=SnapshotPhase.COMPLETE, reason="Complete", message=message, memory=memory)


def _find_failure(volumes: Sequence[ObservedVolume]) -> SnapshotProblem | None:
    """Return the first failure of a VolumeSnapshot."""
    for each in volumes:
        name = describe(each.volume)
        if each.is_lost:
            message = (
                f"{name} was deleted before the snapshot was complete; delete this StackSnapshot and create another one"
            )
            return SnapshotProblem(reason="VolumeSnapshotLost", message=message)
        if each.state is VolumeState.OTHER:
            message = (
                f"{name} exists already and was not created for this StackSnapshot and its revision; delete it, or delete "
                f"this StackSnapshot"
            )
            return SnapshotProblem(reason="NameTaken", message=message)
        if each.state is VolumeState.FAILED:
            message = f"{name} of {each.volume.claim_text} failed: {each.message}"
            return SnapshotProblem(reason="VolumeSnapshotFailed", message=message)
    return None


def _find_missing(volumes: Sequence[ObservedVolume]) -> SnapshotProblem | None:
    """Return the first VolumeSnapshot of a restored snapshot that does not exist, or that cannot be read."""
    for each in volumes:
        match each.state:
            case VolumeState.ABSENT:
                cause = "does not exist"
            case VolumeState.OTHER:
                cause = "was not created for this StackSnapshot and its revision"
            case VolumeState.UNKNOWN | VolumeState.FAILED if not each.volume.uid:
                cause = f"cannot be read: {each.message}"
            case _:
                continue
        message = (
            f"{describe(each.volume)} {cause}; restore it from a backup. To take the snapshot again, delete this "
            f"StackSnapshot and create it without the annotation {names.ANNOTATION_CONTENT}"
        )
        return SnapshotProblem(reason="VolumeSnapshotsNotFound", message=message)
    return None


def describe(volume: SnapshotVolume) -> str:
    """Return the VolumeSnapshot as messages name it."""
    return f"volumesnapshot/{volume.snapshot}"


def _write(
    snapshot: ParsedSnapshot, verdict: VolumeVerdict, *, shown_phase: SnapshotPhase | None = None, now: float
) -> SnapshotDecision:
    """Write the status of that verdict if it differs. shown_phase: the phase of its conditions; None: the verdict's
    own.
    """
    status = {
        "phase": str(verdict.phase),
        "observedGeneration": snapshot.generation,
        **encode(verdict.memory),
        "conditions": conditions.build_conditions(
            CONDITIONS[shown_phase or verdict.phase],
            headline=(verdict.reason, verdict.message),
            generation=snapshot.generation,
            before=snapshot.status.get("conditions") or (),
            now=format_time(now),
        ),
    }
    return SnapshotDecision(status=status if status != snapshot.status else None)


def encode(memory: SnapshotMemory) -> Object:
    """Encode the objects that a bound snapshot refers to, as fields of a status without its phase."""
    if memory.revision is None:
        return {}
    encoded: Object = {
        "stackUID": memory.stack_uid,
        "revision": memory.revision,
        "volumes": [_encode_volume(each) for each in memory.volumes],
    }
    if memory.account:
        encoded["serviceAccountName"] = memory.account
    if memory.warnings:
        encoded["warnings"] = list(memory.warnings)
    return encoded


def _encode_volume(volume: SnapshotVolume) -> Object:
    encoded: Object = {
        "claim": volume.claim,
        "namespace": volume.namespace,
        "resource": volume.resource,
        "snapshot": volume.snapshot,
        "ready": volume.is_ready,
    }
    if volume.uid:
        encoded["snapshotUID"] = volume.uid
    if volume.is_of_stateful_set:
        encoded["statefulSet"] = True
    return encoded


def decode(status: Mapping[str, Any]) -> SnapshotMemory:
    """Decode a status with a valid signature. Raises KeyError, TypeError or ValueError for any other."""
    phase = SnapshotPhase(status["phase"])
    if "revision" not in status:
        return SnapshotMemory(phase=phase)
    return SnapshotMemory(
        phase=phase,
        stack_uid=str(status["stackUID"]),
        revision=int(status["revision"]),
        account=str(status.get("serviceAccountName", "")),
        volumes=tuple(_decode_volume(each) for each in status["volumes"][: limits.SNAPSHOT_VOLUMES]),
        warnings=tuple(map(str, status.get("warnings") or ())),
    )


def _decode_volume(encoded: Mapping[str, Any]) -> SnapshotVolume:
    return SnapshotVolume(
        claim=str(encoded["claim"]),
        namespace=str(encoded["namespace"]),
        resource=str(encoded["resource"]),
        snapshot=str(encoded["snapshot"]),
        uid=str(encoded.get("snapshotUID", "")),
        is_ready=bool(encoded["ready"]),
        is_of_stateful_set=bool(encoded.get("statefulSet")),
    )
