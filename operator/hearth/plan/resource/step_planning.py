"""Status of a resource that needs a write or a deletion, with the step or the time of the next retry.

`plan_removal` returns the step that removes an obsolete object.
"""

from __future__ import annotations

import dataclasses

from hearth.model import containers, limits, members, names
from hearth.model.child import Child, FieldOwnership
from hearth.plan.ownership import apply_obstacles
from hearth.plan.ownership.field_ownership import DriftFinding
from hearth.plan.resource import drift, exclusive_things, finished_run, readiness, replica_counts, suspend_object
from hearth.plan.resource.resource_context import ResourceContext
from hearth.plan.state import steps
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.stack_tree import FindContents
from hearth.plan.state.steps import Apply, Delete, Detach, Release, Restart, Step
from hearth.template.blueprint import Blueprint


def plan_apply(
    context: ResourceContext,
    desired: DesiredObject,
    child: Child | None,
    finding: DriftFinding = drift.NOTHING,
    *,
    repairs: str = "",
    reclaims_uid: str | None = None,
) -> ResourceStatus:
    """Plan an apply: the status while it is due, in flight, or rejected.

    repairs: the fields to repair, if that is the only reason for the write; reclaims_uid: see `steps.Apply`.
    """
    manifest = desired.manifest
    if child is not None and context.records.is_suspended(child):
        manifest = suspend_object.mark_resumed(manifest, child, finding, context.records)
    manifest = finished_run.hold_object(context, manifest, desired.hash)
    kept_count = replica_counts.find_kept_count(context, desired, child)
    if kept_count is not None:
        manifest = replica_counts.with_count(manifest, kept_count)
    step = Apply(
        resource=context.name,
        kind=desired.kind,
        ref=desired.ref,
        manifest=manifest,
        hash=desired.hash,
        uid=child.uid if child is not None else None,
        applied_fields=desired.applied_fields,
        inherited_rules=desired.inherited_rules,
        tolerated=finding.tolerated,
        repaired_fields=repairs,
        lost=finding.to_repair if repairs else (),
        leaves_null=child is not None and apply_obstacles.leaves_null(manifest, child),
        owned_before=find_former(context, child) if child is not None and child.hash != desired.hash else None,
        reclaims=child is not None and child.hash != desired.hash and has_claims(child),
        reclaims_uid=reclaims_uid,
        kept_replicas=kept_count,
        may_adopt=context.adopts,
        has_generated_name=not context.desired.is_name_pinned,
        sensitive_texts=context.resource.hidden,
    )
    status = ResourceStatus(
        state=ResourceState.PROGRESSING,
        reason="Applying",
        cause=Cause.APPLYING,
        message="is being applied",
        planned_ref=desired.ref,
        child=child,
        step=step,
    )
    due = _when_due(context, status, step)
    if child is None and due.state in (ResourceState.FAILED, ResourceState.RETRYING):
        policy = context.resource.replacement
        is_pinned = context.desired.is_name_pinned
        holder = exclusive_things.describe_holder(
            desired.manifest, None, context.children, policy, is_name_pinned=is_pinned
        )
        due = dataclasses.replace(due, message=f"{due.message}{holder}")
    return due


STRING_DATA = b'"f:stringData"'
"""Present in the ownership of a Secret that was applied with `stringData`, which Hearth no longer does."""


def find_former(context: ResourceContext, child: Child) -> FieldOwnership | None:
    """Return the fields of the object that the operator owns, or owned before another client cleared the record."""
    baseline = context.memory.ownership_baseline.get(child.uid)
    return child.ownership or (baseline[1] if baseline is not None else None)


def has_claims(child: Child) -> bool:
    """Return whether an apply alone may fail to remove fields that leave the definition."""
    has_texts = child.kind.name == "Secret" and child.ownership is not None and STRING_DATA in child.ownership.fields
    return child.is_shared or has_texts


def plan_delete(context: ResourceContext, child: Child, message: str) -> ResourceStatus:
    """Plan the deletion of an object before its successor is made."""
    status = readiness.make_status(child, ResourceState.PROGRESSING, "Replacing", message)
    step = Delete(child=child, kept_replicas=replica_counts.read_former_count(child, context.records))
    return _when_due(context, dataclasses.replace(status, step=step), step)


def plan_detach(context: ResourceContext, child: Child, message: str) -> ResourceStatus:
    """Plan the deletion of a StatefulSet without its Pods and claims, before the next one with its name is created."""
    desired = context.desired.at(child.incarnation, child=child)
    step = Detach(
        child=child,
        manifest=desired.manifest,
        hash=desired.hash,
        keeps_larger=context.is_rollback,
        kept_replicas=replica_counts.read_former_count(child, context.records),
        sensitive_texts=context.resource.hidden,
    )
    status = readiness.make_status(child, ResourceState.PROGRESSING, "Replacing", message)
    return _when_due(context, dataclasses.replace(status, step=step), step)


def plan_restart(context: ResourceContext, child: Child, message: str) -> ResourceStatus:
    """Plan the restart of the Pods of a marked StatefulSet."""
    status, step = readiness.make_status(child, ResourceState.PROGRESSING, "Restarting", message), Restart(child=child)
    return _when_due(context, dataclasses.replace(status, step=step), step)


def await_deletion(child: Child) -> ResourceStatus:
    """Return the status of a resource whose object is desired again while its deletion or release is in flight."""
    return readiness.make_status(
        child, ResourceState.PROGRESSING, "Terminating", "may no longer exist: its deletion is in progress"
    )


def plan_resume(context: ResourceContext, child: Child) -> ResourceStatus:
    """Plan the resume of an object that has its definition and is still suspended."""
    status = readiness.make_status(child, ResourceState.PROGRESSING, "Resuming", "is being resumed")
    step = suspend_object.resume(child, context.records)
    return _when_due(context, dataclasses.replace(status, step=step), step)


def _when_due(context: ResourceContext, status: ResourceStatus, step: Step) -> ResourceStatus:
    """Remove the step from the status while it is in flight, or until the retry of a rejected attempt is due."""
    attempt, is_in_flight = context.memory.attempts.get(context.name), context.name in context.memory.in_flight
    if attempt is not None and attempt.attempt_id == steps.attempt_id(step):
        state = ResourceState.FAILED if attempt.is_exhausted else ResourceState.RETRYING
        state = ResourceState.STOPPED if attempt.is_outside_plan else state
        cause = Cause.INTERNAL_ERROR if attempt.is_internal else Cause.OTHER
        status = dataclasses.replace(status, state=state, reason=attempt.reason, cause=cause, message=attempt.message)
        if attempt.retry_at > context.now and not is_in_flight:
            return dataclasses.replace(status, step=None, requeue_at=attempt.wake_at)
    return dataclasses.replace(status, step=None) if is_in_flight else status


# Removal of an obsolete object: delete it, or release it unchanged.


def is_retained(child: Child, blueprint: Blueprint) -> bool:
    """Return whether the object outlives the target: by its metadata, by the template, or because it was adopted."""
    return child.must_not_delete or blueprint.abandons or members.root_of(child.resource) in blueprint.retained


def plan_removal(child: Child, blueprint: Blueprint, find_contents: FindContents) -> Delete | Release | None:
    """Plan the step that removes the object, or return None if its deletion has already started.

    A retained object is released even then: another client deletes it, and the Stack need not wait for that.
    """
    if is_retained(child, blueprint):
        return Release(child=child, contents=find_recorded(child))
    if child.deleting:
        return None
    kept = find_contents(child)
    return Release(child=child, contents=kept) if kept else Delete(child=child)


def find_recorded(child: Child) -> str:
    """Return the object that keeps this one, from its annotation, or "" if it is retained for its own sake."""
    annotations = child.fields["metadata"].get("annotations") or {}
    is_own = annotations.get(names.ANNOTATION_DELETION_POLICY) == names.RETAIN
    return "" if is_own else str(annotations.get(names.ANNOTATION_KEEPS, ""))[: limits.NAME_LENGTH]


def explain_retention(child: Child, contents: str) -> str:
    """Explain why an object outlives its Stack, as text that follows its name. contents: see `Release`."""
    if child.is_adopted:
        return "was adopted"
    if contents:
        return containers.describe_contents(child.ref, contents) + ", which is kept"
    return "has deletionPolicy: Retain"


def explain_retained_data(child: Child) -> str:
    """Explain why the claims of a retained object are not replaced, and what to do."""
    why = "was adopted" if child.is_adopted else "has deletionPolicy: Retain (or its Stack has Abandon)"
    return (
        f"{child.ref} {why}, so nothing deletes its data; delete the claim yourself, or use the VolumeSnapshot as "
        f"dataSource of another PersistentVolumeClaim"
    )


def describe_retained(child: Child, contents: str = "") -> str:
    """Describe why an object is retained, as a clause. contents: see `Release`."""
    return f"{child.ref} {explain_retention(child, contents or find_recorded(child))}"
