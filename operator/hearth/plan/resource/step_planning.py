"""The standing of a resource whose object is to be written or deleted: with the step, or with when it is tried again."""

from __future__ import annotations

import dataclasses

from hearth.model.child import Child
from hearth.plan.ownership.field_ownership import Finding
from hearth.plan.resource import drift, readiness, suspend_object
from hearth.plan.state import steps
from hearth.plan.state.desired import Desired
from hearth.plan.state.resource_context import Subject
from hearth.plan.state.resource_status import Standing, State
from hearth.plan.state.steps import Apply, Delete, Step


def to_apply(
    subject: Subject,
    desired: Desired,
    child: Child | None,
    finding: Finding = drift.NOTHING,
    *,
    repairs: str = "",
    takes_up: str | None = None,
) -> Standing:
    """The standing of a resource whose object is to be written, or is being written, or was refused.

    repairs: the fields that are taken back, where that is all that the write is for; takes_up: see `steps.Apply`.
    """
    manifest = desired.manifest
    if child is not None and subject.records.is_suspended(child):
        manifest = suspend_object.awaken(manifest, child, finding, subject.records)
    step = Apply(
        resource=subject.name,
        kind=desired.kind,
        ref=desired.ref,
        manifest=manifest,
        hash=desired.hash,
        uid=child.uid if child is not None else None,
        statement=desired.statement,
        inherited=desired.inherited,
        left=finding.left,
        repairs=repairs,
        takes_up=takes_up,
        adopts=subject.adopts,
        hidden=subject.resource.hidden,
    )
    standing = Standing(
        state=State.PROGRESSING,
        reason="Applying",
        message="is being applied",
        place=desired.ref,
        child=child,
        step=step,
    )
    return _when_due(subject, standing, step)


def to_delete(subject: Subject, child: Child, message: str) -> Standing:
    """The standing of a resource whose object is to go before the next one is made."""
    standing, step = readiness.stand(child, State.PROGRESSING, "Replacing", message), Delete(child=child)
    return _when_due(subject, dataclasses.replace(standing, step=step), step)


def to_await(child: Child) -> Standing:
    """The standing of a resource whose object is wanted again while its deletion, or its release, is on its way."""
    return readiness.stand(child, State.PROGRESSING, "Terminating", "may be gone: its deletion is on its way")


def to_resume(subject: Subject, child: Child) -> Standing:
    """The standing of a resource whose object has its definition, and is still suspended."""
    standing = readiness.stand(child, State.PROGRESSING, "Resuming", "is being resumed")
    step = suspend_object.resume(child, subject.records)
    return _when_due(subject, dataclasses.replace(standing, step=step), step)


def _when_due(subject: Subject, standing: Standing, step: Step) -> Standing:
    """The standing as it is, or without its step where that is being taken, or was refused a moment ago."""
    attempt, is_in_flight = subject.memory.attempts.get(subject.name), subject.name in subject.memory.in_flight
    if attempt is not None and attempt.subject == steps.subject(step):
        state = State.FAILED if attempt.is_exhausted else State.RETRYING
        standing = dataclasses.replace(standing, state=state, reason=attempt.reason, message=attempt.message)
        if attempt.next_try > subject.now and not is_in_flight:
            return dataclasses.replace(standing, step=None, wake_at=attempt.next_try)
    return dataclasses.replace(standing, step=None) if is_in_flight else standing
