"""Status of a resource whose object runs to completion: finished and deleted, or failed and restarted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from hearth.model import names
from hearth.model.child import Child, Object
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.resource import readiness
from hearth.plan.resource.resource_context import ResourceContext
from hearth.plan.retry.backoff import FailedObject
from hearth.plan.state import requirements, run_policy
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.requirements import CollectionStatus, Required
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus, WorkFinished, WorkForgotten
from hearth.template.blueprint import Pending, ResourceBlueprint, Values

FINISHED = "Finished"
"""Reason of a resource that is ready although its object is deleted or being deleted."""
VALUE_GONE = "ValueGone"
"""Reason of a resource that needs a value of a finished and deleted object."""
GONE_TEXT = "has finished; its object was deleted at the end of its lifetime and is not recreated"
GOING_TEXT = "has finished; its object is being deleted and is not recreated"


def plan(context: ResourceContext, child: Child | None, desired: DesiredObject) -> ResourceStatus | None:
    """Return the status of a resource whose work has finished and whose object does not stay, otherwise None."""
    run, finished = context.desired.run, context.memory.finished
    if run is None or not run.is_once:
        return None
    if child is not None and child.hash == desired.hash:
        return _plan_going(context, child) if child.deleting and child.unhealthy_reason is None else None
    is_known = finished.has(context.name, desired.hash) or (
        desired.resource.is_name_pinned and finished.has_object(desired.ref, desired.hash)
    )
    if is_known:
        return make_gone(desired)
    ref = desired.ref if desired.resource.is_name_pinned else None
    if child is not None or not finished.has_former(context.name, ref, desired.resource.hash_of_stack):
        return None
    resources = context.blueprint.resources
    update = WorkFinished(resource=context.name, ref=desired.ref, hash=desired.hash, wanted=resources)
    return dataclasses.replace(make_gone(desired), memory_updates=(update,))


def _plan_going(context: ResourceContext, child: Child) -> ResourceStatus | None:
    """Return the status of a resource whose object succeeded and is being deleted, or None if it did not succeed."""
    if not context.memory.finished.has(context.name, child.hash) and not _has_finished_going(context, child):
        return None
    status = readiness.make_status(child, ResourceState.READY, FINISHED, GOING_TEXT)
    return dataclasses.replace(status, memory_updates=find_updates(context, status))


def _has_finished_going(context: ResourceContext, child: Child) -> bool:
    """Return whether an object that is being deleted would be ready, and has finished."""
    present = dataclasses.replace(child, deleting=False)
    is_ready = readiness.assess(context.resource, present, context.values, context.rules).is_ready
    run = context.desired.run
    return is_ready and run is not None and run_policy.has_finished(child, run)


def make_gone(desired: DesiredObject) -> ResourceStatus:
    """Return the status of a resource whose object has finished and was deleted."""
    ref = desired.ref
    metadata = {"name": ref.name, **({"namespace": ref.namespace} if ref.namespace else {})}
    kind = desired.kind
    return ResourceStatus(
        state=ResourceState.READY,
        reason=FINISHED,
        message=GONE_TEXT,
        planned_ref=ref,
        finished_fields={"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata},
    )


def find_updates(context: ResourceContext, status: ResourceStatus) -> tuple[Any, ...]:
    """Return the memory updates of a status, including work that has just finished or must be repeated."""
    run, child, finished = context.desired.run, status.child, context.memory.finished
    if run is None or not run.is_once or child is None or not child.is_identified:
        return status.memory_updates
    if child.unhealthy_reason is not None:
        is_known = finished.has(context.name, child.hash)
        forgotten = (WorkForgotten(resource=context.name, hash=child.hash),) if is_known else ()
        return (*status.memory_updates, *forgotten)
    is_new = status.is_ready and child.hash == context.desired.hash and not finished.has(context.name, child.hash)
    if not is_new or not run_policy.has_finished(child, run):
        return status.memory_updates
    resources = context.blueprint.resources
    update = WorkFinished(resource=context.name, ref=child.ref, hash=child.hash, wanted=resources)
    return (*status.memory_updates, update)


def finish(context: ResourceContext, status: ResourceStatus) -> ResourceStatus:
    """Return the status of a resource whose object runs to completion, with the facts to remember about it.

    A failed resource stays failed while it runs again, so that its phase does not flicker.
    """
    updates = find_updates(context, status)
    if updates is not status.memory_updates:
        status = dataclasses.replace(status, memory_updates=updates)
    attempt = context.memory.attempts.get(context.name)
    is_again = attempt is not None and attempt.attempt_id == FailedObject(hash=context.desired.hash)
    if attempt is None or not is_again or not attempt.is_exhausted or status.state is not ResourceState.PROGRESSING:
        return status
    message = f"{attempt.message}; it is being run again"
    return dataclasses.replace(
        status, state=ResourceState.FAILED, reason=attempt.reason, cause=Cause.OTHER, message=message
    )


def hold_object(context: ResourceContext, manifest: Object, hash_: str) -> Object:
    """Return the manifest with the finalizer that keeps the object until its success is recorded, if it needs one."""
    run = context.desired.run
    if run is None or not run.is_once or context.memory.finished.has(context.name, hash_):
        return manifest
    metadata = manifest["metadata"]
    stated = metadata.get("finalizers") or []
    if names.FINALIZER_COMPLETION in stated:
        return manifest
    return {**manifest, "metadata": {**metadata, "finalizers": [*stated, names.FINALIZER_COMPLETION]}}


def keep_dependent(
    resource: ResourceBlueprint,
    required: Required,
    children: tuple[Child, ...],
    outcome: Pending,
    *,
    values: Values,
    rules: HealthRules,
) -> ResourceStatus | None:
    """Return the status of a resource that reads a value of finished, deleted work, or None if it reads none.

    An object with that value stays unchanged. A new one cannot be created without it.
    """
    gone = dict(find_gone(required))
    lost = [each for each in outcome.missing if find_root(each) in gone]
    if not lost:
        return None
    child = requirements.find_current(children)
    if child is not None and not child.deleting:
        status = readiness.assess(resource, child, values, rules)
        reason, message = (VALUE_GONE, explain_unchanged(lost)) if status.is_ready else (status.reason, status.message)
        return dataclasses.replace(status, is_terminal=False, reason=reason, message=message)
    name = find_root(lost[0])
    message = (
        f"needs {', '.join(lost)}, which no longer exists: {gone[name]} has finished and was deleted; read only its "
        f"metadata.name, or run it again: kubectl stack retry STACK {name}"
    )
    return ResourceStatus(state=ResourceState.WAITING, reason=VALUE_GONE, message=message, cause=Cause.VALUE_MISSING)


def explain_unchanged(lost: list[str]) -> str:
    """Explain that an object stays unchanged, even if its definition changes."""
    return (
        f"keeps its object as it is, because it depends on {', '.join(lost)}, which was deleted with its finished "
        "object; a "
        f"change of its definition is not applied before that is rerun"
    )


def find_gone(required: Required) -> Iterable[tuple[str, str]]:
    """Yield each required resource whose object has finished and was deleted, by name, with the object."""
    for name, found in required.items():
        if isinstance(found, CollectionStatus):
            if any("uid" not in fields["metadata"] for fields in found.fields or ()):
                yield requirements.find_value_name(name), "one of its objects"
        elif found.child is None and found.finished_fields is not None:
            yield name, str(found.ref)


def find_root(path: str) -> str:
    """Return the first name of a path: `migrate` for `migrate.status.succeeded`."""
    return path.partition(".")[0].partition("[")[0]
