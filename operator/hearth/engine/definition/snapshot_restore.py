"""Resolves `spec.rollback.toSnapshot` to the revision and the VolumeSnapshots to restore, or explains why that fails.

Only reads. Each request is resolved at most once.
"""

from __future__ import annotations

from hearth.engine import stack_snapshots, verified_revisions
from hearth.engine.cluster_objects import StackObject, StackSnapshotObject
from hearth.engine.services import Services
from hearth.engine.stack_snapshots import VolumeSnapshots
from hearth.model import names
from hearth.model.child import Child
from hearth.model.errors import SnapshotNotUsable, SourceNotFound
from hearth.model.text.enumeration import enumerate_names
from hearth.plan import snapshot_decision
from hearth.plan.environment import environment_rules
from hearth.plan.resource import enforcement, step_planning
from hearth.plan.resource.enforcement import CLAIM_ACTIONS
from hearth.plan.snapshot_decision import ParsedSnapshot, SnapshotMemory, SnapshotPhase, SnapshotVolume, VolumeState
from hearth.plan.state import requirements
from hearth.plan.status import conditions
from hearth.plan.target import volume_restore
from hearth.plan.target.target import RestoredClaim, RollbackRequest
from hearth.template.blueprint import Blueprint
from hearth.template.parser import policies

PATH = "spec.rollback.toSnapshot"


async def resolve(services: Services, stack: StackObject, name: str, *, is_restored: bool) -> RollbackRequest:
    """Return the request to restore the StackSnapshot with this name. Raises SnapshotNotUsable.

    is_restored: whether the data may be restored already, so that only the definition is used.
    """
    snapshot = services.snapshots.find_snapshot_by_name(stack.namespace, name)
    if snapshot is None:
        raise SnapshotNotUsable("SnapshotNotFound", explain_absence(services, stack, name))
    state = stack_snapshots.parse_snapshot(snapshot, services.hashes)
    check(stack, snapshot, state)
    memory = state.memory
    revision = memory.revision or 0
    if verified_revisions.load(services.management_cluster, services.hashes, stack).find(revision) is None:
        message = f"{PATH}: revision {revision} of StackSnapshot {name} is not stored; use another snapshot"
        raise SnapshotNotUsable("RevisionNotFound", message)
    if not is_restored:
        await check_volumes(services, stack, snapshot, memory)
    return RollbackRequest(
        to_revision=revision,
        spec_hash="",
        revision=revision,
        snapshot=name,
        snapshot_uid=snapshot.uid,
        token=names.digest(snapshot.uid, str(stack.generation)),
        claims=tuple(map(make_claim, memory.volumes)),
        is_restored=is_restored,
    )


def require_claims(blueprint: Blueprint, rollback: RollbackRequest | None) -> None:
    """Raise SourceNotFound if the requested revision does not have all claims of the snapshot."""
    if rollback is not None and (missing := volume_restore.find_missing(blueprint, rollback)):
        raise SourceNotFound(f"it has no PersistentVolumeClaims {', '.join(missing)}, which the snapshot contains")


def make_claim(volume: SnapshotVolume) -> RestoredClaim:
    """Convert one volume of a snapshot to a claim to restore."""
    claim = volume.claim if volume.is_of_stateful_set else ""
    return RestoredClaim(resource=volume.resource, snapshot=volume.snapshot, claim=claim)


def explain_missing_set(volume: SnapshotVolume, child: Child | None, *, revision: int | None) -> str:
    """Explain why the claim of a StatefulSet cannot be restored now. Returns "" if it can. child: the object of the resource."""
    made = f"was made by a StatefulSet of resource {volume.resource} that no longer exists"
    if child is None or child.kind.name != "StatefulSet":
        return f"{made}; request toRevision: {revision} first, then toSnapshot"
    if volume.claim.rpartition("-")[0].endswith(f"-{child.name}"):
        return ""
    return (
        f"{made}: statefulset/{child.name} replaced it, and a rollback would replace that under another name; use "
        f"{snapshot_decision.describe(volume)} as dataSource of a PersistentVolumeClaim"
    )


def find_guard(stack: StackObject, volume: SnapshotVolume, child: Child | None) -> str:
    """Explain why the claim of a StatefulSet must not be replaced. Empty if it can be replaced.

    child: the object of the resource. Checked before any workload is suspended. Breakpoints do not count, because the
    restore stops at them.
    """
    rules = environment_rules.parse(
        stack.spec.get("environment"), has_parents=names.ANNOTATION_INHERITED_RULES in stack.annotations
    )
    if (denial := enforcement.find_denial(rules, volume.resource, CLAIM_ACTIONS)) is not None:
        return enforcement.explain_restriction(*denial)
    if child is not None and (child.must_not_delete or stack.spec.get("deletionPolicy") == policies.ABANDON):
        return step_planning.explain_retained_data(child)
    return ""


def explain_absence(services: Services, stack: StackObject, name: str) -> str:
    """Explain that the snapshot does not exist, and list the Stack's snapshots."""
    if not services.snapshots.is_synced:
        return f"{PATH}: the StackSnapshots could not be listed yet; the operator retries"
    found = sorted(each.name for each in services.snapshots.snapshots_of(stack.namespace, stack.owner_key))
    there = f"this Stack has: {enumerate_names(found)}" if found else "this Stack has none"
    return f"{PATH}: namespace {stack.namespace} has no StackSnapshot {name}; {there}"


def check(stack: StackObject, snapshot: StackSnapshotObject, parsed: ParsedSnapshot) -> None:
    """Raise SnapshotNotUsable unless the snapshot is complete and belongs to this Stack."""
    name, memory = snapshot.name, parsed.memory
    if snapshot.owner_key != stack.owner_key:
        owner = names.describe_owner(snapshot.owner_key)
        message = f"{PATH}: StackSnapshot {name} is one of {owner}, not of {stack.name}"
        raise SnapshotNotUsable("SnapshotOfOtherStack", message)
    if snapshot.deleting:
        raise SnapshotNotUsable("SnapshotDeleting", f"{PATH}: StackSnapshot {name} is being deleted")
    if memory.phase is not SnapshotPhase.COMPLETE:
        ready = conditions.find(parsed.status, "Ready")
        cause = ready.get("message") or "the operator has not processed it yet"
        if ready.get("reason") == "StackNotComplete":
            # Deadlock: a Stack whose request is rejected never completes, and the snapshot waits for the Stack.
            cause += f"; remove {PATH} until the StackSnapshot is complete"
        phase = SnapshotPhase.FAILED if parsed.is_tampered else memory.phase or SnapshotPhase.IN_PROGRESS
        message = f"{PATH}: StackSnapshot {name} is not complete (phase {phase}): {cause}"
        raise SnapshotNotUsable("SnapshotNotComplete", message)
    if memory.stack_uid != stack.uid:
        message = (
            f"{PATH}: StackSnapshot {name} was taken of an earlier Stack {stack.name}, whose revisions are deleted; use "
            f"its VolumeSnapshots as dataSource of PersistentVolumeClaims"
        )
        raise SnapshotNotUsable("SnapshotOfOtherStack", message)


async def check_volumes(
    services: Services, stack: StackObject, snapshot: StackSnapshotObject, memory: SnapshotMemory
) -> None:
    """Raise SnapshotNotUsable unless every volume can be restored now."""
    for volume in memory.volumes:
        if not volume.is_of_stateful_set:
            continue
        children = services.find_children_cluster(stack.uid).children_of(stack.uid, volume.resource)
        child = requirements.find_current(children)
        if why := find_guard(stack, volume, child):
            message = f"{PATH}: claim {volume.claim} of StackSnapshot {snapshot.name} cannot be replaced: {why}"
            raise SnapshotNotUsable("Restricted", message)
        if why := explain_missing_set(volume, child, revision=memory.revision):
            message = f"{PATH}: claim {volume.claim} of StackSnapshot {snapshot.name} {why}"
            raise SnapshotNotUsable("RestoreNotSupported", message)
    boundary = services.find_boundary(stack)
    volumes = VolumeSnapshots(
        snapshot=snapshot,
        memory=memory,
        cluster=services.find_cluster(stack),
        boundary=boundary,
        hashes=services.hashes,
    )
    for volume in memory.volumes:
        found = await volumes.observe(volume)
        if found.state is not VolumeState.READY or found.is_deleting:
            state = "is being deleted" if found.is_deleting else f"cannot be restored ({found.state.value})"
            cause = f": {found.message}" if found.message else ""
            message = f"{PATH}: {snapshot_decision.describe(volume)} of StackSnapshot {snapshot.name} {state}{cause}"
            raise SnapshotNotUsable("VolumeSnapshotNotReady", message)
