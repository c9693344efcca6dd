"""The standing of a resource whose object is to be written or deleted: with the step, or with when it is tried again."""

from __future__ import annotations

import dataclasses

from hearth.model.child import Child
from hearth.plan.ownership.field_ownership import DriftFinding
from hearth.plan.resource import drift, readiness, suspend_object
from hearth.plan.state import steps
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.resource_context import ResourceContext
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.state.steps import Apply, Delete, Step


def plan_apply(
    subject: ResourceContext,
    desired: DesiredObject,
    child: Child | None,
    finding: DriftFinding = drift.NOTHING,
    *,
    repairs: str = "",
    takes_up: str | None = None,
) -> ResourceStatus:
    """The standing of a resource whose object is to be written, or is being written, or was refused.

    repairs: the fields that are taken back, where that is all that the write is for; takes_up: see `steps.Apply`.
    """
    manifest = desired.manifest
    if child is not None and subject.records.is_suspended(child):
        manifest = suspend_object.mark_resumed(manifest, child, finding, subject.records)
    step = Apply(
        resource=subject.name,
        kind=desired.kind,
        ref=desired.ref,
        manifest=manifest,
        hash=desired.hash,
        uid=child.uid if child is not None else None,
        applied_fields=desired.applied_fields,
        inherited_rules=desired.inherited_rules,
        tolerated=finding.tolerated,
        repaired_fields=repairs,
        takes_up=takes_up,
        may_adopt=subject.adopts,
        sensitive_texts=subject.resource.hidden,
    )
    standing = ResourceStatus(
        state=ResourceState.PROGRESSING,
        reason="Applying",
        message="is being applied",
        planned_ref=desired.ref,
        child=child,
        step=step,
    )
    return _when_due(subject, standing, step)


def plan_delete(subject: ResourceContext, child: Child, message: str) -> ResourceStatus:
    """The standing of a resource whose object is to go before the next one is made."""
    standing, step = readiness.make_status(child, ResourceState.PROGRESSING, "Replacing", message), Delete(child=child)
    return _when_due(subject, dataclasses.replace(standing, step=step), step)


def await_deletion(child: Child) -> ResourceStatus:
    """The standing of a resource whose object is wanted again while its deletion, or its release, is on its way."""
    return readiness.make_status(
        child, ResourceState.PROGRESSING, "Terminating", "may be gone: its deletion is on its way"
    )


def plan_resume(subject: ResourceContext, child: Child) -> ResourceStatus:
    """The standing of a resource whose object has its definition, and is still suspended."""
    standing = readiness.make_status(child, ResourceState.PROGRESSING, "Resuming", "is being resumed")
    step = suspend_object.resume(child, subject.records)
    return _when_due(subject, dataclasses.replace(standing, step=step), step)


def _when_due(subject: ResourceContext, standing: ResourceStatus, step: Step) -> ResourceStatus:
    """The standing as it is, or without its step where that is being taken, or was refused a moment ago."""
    attempt, is_in_flight = subject.memory.attempts.get(subject.name), subject.name in subject.memory.in_flight
    if attempt is not None and attempt.attempt_id == steps.attempt_id(step):
        state = ResourceState.FAILED if attempt.is_exhausted else ResourceState.RETRYING
        standing = dataclasses.replace(standing, state=state, reason=attempt.reason, message=attempt.message)
        if attempt.retry_at > subject.now and not is_in_flight:
            return dataclasses.replace(standing, step=None, requeue_at=attempt.retry_at)
    return dataclasses.replace(standing, step=None) if is_in_flight else standing
