"""Execution of one step on the cluster; classifies the response as done or failed. Must not know Stacks or queues."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias, assert_never

import orjson

from hearth.engine.ports import WorkloadCluster
from hearth.engine.writes import nested_accounts, obstacle_removal, permanent_drift
from hearth.model import child, names, tenancy, value_class
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.signatures import Signatures
from hearth.model.tenancy import Boundary
from hearth.plan.ownership import adoption, apply_obstacles, merge_patch
from hearth.plan.ownership.adoption import StackMayExist
from hearth.plan.ownership.field_ownership import LostField
from hearth.plan.resource import drift
from hearth.plan.retry import api_errors, retry_triggers
from hearth.plan.retry.backoff import ServerResponse, StepFailure
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType
from hearth.plan.state import desired, internal_errors
from hearth.plan.state.steps import Apply, Delete, Release, Step, Suspend, WriteHealthMark

CREATE_ONLY = "1"
"""A resourceVersion that no object has. An apply with it creates the object or fails with 409."""


REASONS: Mapping[type[object], str] = {
    api_errors.InvalidManifest: "Invalid",
    api_errors.MaybeImmutable: "Immutable",
    api_errors.Denied: "Denied",
    api_errors.ApplyConflict: "Conflict",
    api_errors.StaleRead: "Conflict",
    api_errors.ObjectNotFound: "Conflict",
    api_errors.NamespaceNotFound: "NamespaceNotFound",
    api_errors.NamespaceTerminating: "NamespaceTerminating",
    api_errors.KindNotServed: "KindNotServed",
    api_errors.Unavailable: "Unavailable",
}
"""Reason in the status, by error class."""
FORBIDDEN = "Forbidden"
"""Reason of a step that the account of the Stack has no right to."""
FINAL = api_errors.InvalidManifest | api_errors.MaybeImmutable
"""Error classes that only a changed definition resolves."""


@value_class.dataclass(frozen=True, slots=True)
class StepDone:
    """An executed step."""

    child: Child | None
    """The object as written; None if it was deleted or released, or is gone."""
    tolerated: tuple[LostField, ...] = ()
    """Manifest fields left to other field managers."""
    reverted: str = ""
    """What a repair reverted, if that was read before it."""


StepResult: TypeAlias = StepDone | StepFailure


async def execute_step(
    step: Step,
    *,
    cluster: WorkloadCluster,
    manager: str,
    may_exist: StackMayExist,
    ours: Signatures,
    boundary: Boundary,
) -> StepResult:
    """Execute the step and return its result. Never raises for an API error.

    boundary: of the Stack. A step beyond it sends no request, even if it was planned.
    """
    _, ref, verb = _subject(step)
    if message := boundary.find_denial(ref):
        return StepFailure(reason=tenancy.REASON, message=f"cannot {verb} {ref}: it {message}", is_final=True)
    try:
        match step:
            case Apply():
                refused = await nested_accounts.refuse(step, cluster=cluster, boundary=boundary)
                return refused or await _apply(
                    step, cluster=cluster, manager=manager, may_exist=may_exist, ours=ours, boundary=boundary
                )
            case Delete():
                await cluster.delete(step.child)
                return StepDone(None)
            case Release():
                await cluster.release(step.child)
                return StepDone(None)
            case WriteHealthMark():
                return StepDone(await cluster.mark(step.child, step.reason))
            case Suspend():
                kind, manager = step.child.kind, names.SUSPEND_FIELD_MANAGER
                return StepDone(await cluster.apply(step.manifest, kind=kind, manager=manager, force=True))
            case _:
                assert_never(step)
    except Unreachable as error:
        message = f"cannot reach the API server: {error}; the operator retries"
        return StepFailure(
            reason="Unreachable", message=message, causes=(retry_triggers.SERVER,), server=ServerResponse.SILENT
        )
    except ApiStatusError as error:
        result = await _resolve(error, step, cluster=cluster, manager=manager)
        result = await permanent_drift.explain(step, result, cluster=cluster, boundary=boundary)
        return _add_grant(result, step, boundary)


def explain_internal_error(step: Step) -> StepResult:
    """Return the result of a step that raised an unexpected exception."""
    _, ref, verb = _subject(step)
    return internal_errors.make_trouble(f"{verb} {ref}")


async def _apply(
    step: Apply,
    *,
    cluster: WorkloadCluster,
    manager: str,
    may_exist: StackMayExist,
    ours: Signatures,
    boundary: Boundary,
) -> StepResult:
    if step.uid is not None:
        return await _change(step, uid=step.uid, cluster=cluster, manager=manager)
    try:
        manifest = with_preconditions(step.manifest, resourceVersion=CREATE_ONLY)
        return StepDone(await cluster.apply(manifest, kind=step.kind, manager=manager, force=False))
    except ApiStatusError as error:
        if not isinstance(_classify(error, step), api_errors.StaleRead | api_errors.ApplyConflict):
            raise
    try:
        live = await cluster.get(step.ref, kind=step.kind)
    except ApiStatusError as error:
        if not error.is_forbidden or not boundary.account:
            raise
        return _leave_unseen(step, boundary)
    return await _take_over(step, live, cluster=cluster, manager=manager, may_exist=may_exist, ours=ours)


async def _change(step: Apply, *, uid: str, cluster: WorkloadCluster, manager: str) -> StepDone:
    """Change an object of the Stack, or one that it adopts."""
    written = await _empty_maps(step, cluster=cluster, manager=manager) if step.leaves_null else None
    if written is None:
        manifest = with_preconditions(step.sent_manifest, uid=uid)
        written = await cluster.apply(manifest, kind=step.kind, manager=manager, force=True)
    return StepDone(written, step.tolerated)


async def _empty_maps(step: Apply, *, cluster: WorkloadCluster, manager: str) -> Child | None:
    """Remove what the apply would make null of, and apply; return None if the apply does no harm or cannot be tried."""
    try:
        live = await cluster.get(step.ref, kind=step.kind)
    except ApiStatusError as error:
        if not error.is_forbidden:
            raise
        return None
    return await obstacle_removal.apply_without_obstacle(step, live, cluster=cluster, manager=manager)


def _leave_unseen(step: Apply, boundary: Boundary) -> StepFailure:
    """Leave an existing object alone that the account may not get. The message tells nothing but that it exists."""
    rights = RetryTrigger(type=TriggerType.RIGHTS, namespace=step.ref.namespace)
    return StepFailure(
        reason=FORBIDDEN,
        message=f"{step.ref} exists already, but {boundary.explain_read_denial(step.kind, step.ref)}",
        causes=(rights, retry_triggers.object_trigger(step.kind, step.ref)),
    )


async def _take_over(
    step: Apply, live: Object, *, cluster: WorkloadCluster, manager: str, may_exist: StackMayExist, ours: Signatures
) -> StepResult:
    """Handle an existing object of the same name: update one that is or may become a child, else leave it alone."""
    metadata, manifest = live["metadata"], step.manifest
    annotations = metadata.get("annotations") or {}
    stack_uid = manifest["metadata"]["labels"][names.LABEL_STACK_UID]
    is_ours = adoption.is_child_of(live, step.ref, stack_uid=stack_uid, ours=ours) or is_taken_up(metadata, step)
    if not is_ours:
        objection = adoption.find_adoption_denial(
            live, ref=step.ref, adopts=step.may_adopt, may_exist=may_exist, ours=ours
        )
        if objection is not None:
            message = f"{step.ref} exists already and {objection.message}"
            taken = retry_triggers.object_trigger(step.kind, step.ref)
            return StepFailure(reason=objection.reason, message=message, is_final=objection.is_final, causes=(taken,))
    if not is_ours or annotations.get(names.ANNOTATION_ADOPTED) == names.ADOPTED:
        step = dataclasses.replace(step, manifest=desired.with_adopted(manifest))
    step = dataclasses.replace(step, uid=metadata["uid"])
    if is_ours:
        # The cache did not contain the object, so the owners of its fields are known only now.
        present = child.parse_child(live, kind=step.kind, paths=())
        step = dataclasses.replace(
            step,
            tolerated=drift.check_before_change(present, step).tolerated,
            leaves_null=apply_obstacles.leaves_null(step.manifest, present),
        )
    return await _change(step, uid=metadata["uid"], cluster=cluster, manager=manager)


def is_taken_up(metadata: Mapping[str, Any], step: Apply) -> bool:
    """Return whether the object is the unsigned one that the step takes over, still labeled by the operator."""
    return metadata["uid"] == step.takes_up and child.is_labelled(metadata)


def with_preconditions(manifest: Object, **metadata: str) -> Object:
    """Return a copy of the manifest with preconditions on its object."""
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


async def _resolve(error: ApiStatusError, step: Step, *, cluster: WorkloadCluster, manager: str) -> StepResult:
    """Resolve an API error: send further requests if the answer is unclear, and remove what is in the way of an apply."""
    kind, ref, verb = _subject(step)
    right = "delete" if isinstance(step, Delete) else "patch"
    first = reaction = _classify(error, step)
    try:
        if isinstance(reaction, api_errors.NeedsAccessReview):
            is_allowed = await cluster.is_allowed(right, kind=kind, namespace=ref.namespace)
            reaction = api_errors.after_access_review(reaction, is_allowed=is_allowed)
        elif isinstance(reaction, api_errors.NeedsDryRun | api_errors.MaybeImmutable) and isinstance(step, Apply):
            outcome = await _try_change(reaction, step, cluster=cluster, manager=manager)
            if isinstance(outcome, StepDone):
                return outcome
            reaction = outcome
        elif isinstance(reaction, api_errors.NeedsDryRun | api_errors.MaybeImmutable) and isinstance(step, Suspend):
            live = await cluster.get(ref, kind=kind)
            written = await obstacle_removal.suspend_without_obstacle(step, live, cluster=cluster)
            if written is not None:
                return StepDone(written)
        elif isinstance(reaction, api_errors.KindNotServed):
            await cluster.refresh_kinds()
    except (ApiStatusError, Unreachable) as unanswered:
        message = f"cannot {verb} {ref}: {reaction.message}; the query for the cause also failed: {unanswered}"
        after, server = unanswered.retry_after or 0.0, _judge_server(unanswered)
        return StepFailure(
            reason="Unreachable", message=message, retry_after=after, causes=(retry_triggers.SERVER,), server=server
        )
    # The requested delay of the API server counts in any case.
    after = max(error.retry_after or 0.0, _find_delay(reaction))
    return StepFailure(
        reason=REASONS.get(type(reaction), "Rejected"),
        message=f"cannot {verb} {ref}: {reaction.message}",
        is_final=isinstance(reaction, FINAL),
        retry_after=after,
        immutable=", ".join(reaction.fields) if isinstance(reaction, api_errors.MaybeImmutable) else "",
        causes=retry_triggers.find_triggers(first, reaction, code=error.code, kind=kind, ref=ref),
        server=_judge_server(error),
    )


def _find_delay(reaction: api_errors.ErrorClass) -> float:
    """Return the seconds that the API server asks to wait in its `Status`; 0 for none."""
    return reaction.after or 0.0 if isinstance(reaction, api_errors.Unavailable) else 0.0


def _add_grant(result: StepResult, step: Step, boundary: Boundary) -> StepResult:
    """Add the commands that grant a missing right to the account, if the API server denies it that right."""
    is_denied = isinstance(result, StepFailure) and any(
        cause.type is TriggerType.RIGHTS for cause in result.causes if result.reason == REASONS[api_errors.Denied]
    )
    if not boundary.account or not isinstance(result, StepFailure) or not is_denied:
        return result
    kind, ref, _ = _subject(step)
    message = f"{result.message}; to allow it, run: {boundary.explain_grant(kind, ref.namespace)}"
    return dataclasses.replace(result, reason=FORBIDDEN, message=message)


def _judge_server(error: ApiStatusError | Unreachable) -> ServerResponse:
    """Classify the state of the API server itself."""
    if isinstance(error, Unreachable):
        return ServerResponse.SILENT
    is_busy = api_errors.is_throttled(error.code, error.status, after=error.retry_after)
    return ServerResponse.BUSY if is_busy else ServerResponse.ANSWERS


def _subject(step: Step) -> tuple[Kind, ObjectRef, str]:
    """Return kind and reference of the object that a step writes, and the verb."""
    match step:
        case Apply():
            return step.kind, step.ref, "apply"
        case Delete():
            return step.child.kind, step.child.ref, "delete"
        case Release():
            return step.child.kind, step.child.ref, "release"
        case WriteHealthMark():
            return step.child.kind, step.child.ref, "mark"
        case Suspend():
            return step.child.kind, step.child.ref, str(step.purpose)
        case _:
            assert_never(step)


def _classify(error: ApiStatusError, step: Step) -> api_errors.ErrorClass:
    size = len(orjson.dumps(step.manifest)) if isinstance(step, Apply) else 0
    hidden = step.sensitive_texts if isinstance(step, Apply) else None
    return api_errors.classify(error.code, error.status, kind=_subject(step)[0], body_size=size, hidden=hidden)


async def _try_change(
    refused: api_errors.NeedsDryRun | api_errors.MaybeImmutable,
    step: Apply,
    *,
    cluster: WorkloadCluster,
    manager: str,
) -> api_errors.ErrorClass | StepDone:
    """Find out by dry runs why the API server rejects the apply, and remove an obstacle if there is one."""
    verdict = await _probe(step, cluster=cluster)
    reaction = api_errors.after_dry_run(refused, verdict)
    if verdict is not None or (step.uid is None and not isinstance(reaction, api_errors.MaybeImmutable)):
        return reaction
    live = await cluster.get(step.ref, kind=step.kind)
    if isinstance(reaction, api_errors.MaybeImmutable) and await _is_immutable(step, live, cluster=cluster):
        return reaction
    # Items of others or an emptied map cause the error, so a replacement would not help.
    written = await obstacle_removal.apply_without_obstacle(step, live, cluster=cluster, manager=manager)
    return StepDone(written, step.tolerated) if written is not None else api_errors.Denied(message=reaction.message)


async def _probe(step: Apply, *, cluster: WorkloadCluster) -> api_errors.ErrorClass | None:
    """Test the same definition as a new object; return the error, or None if the API server accepts it."""
    try:
        await cluster.create_dry_run(step.manifest, kind=step.kind)
    except ApiStatusError as error:
        return _classify(error, step)
    return None


async def _is_immutable(step: Apply, live: Object, *, cluster: WorkloadCluster) -> bool:
    """Return whether the API server rejects a mere change of the applied fields, regardless of other owners' fields."""
    change = merge_patch.make_merge_patch(step.sent_manifest, live)
    try:
        await cluster.change_dry_run(step.ref, change, kind=step.kind)
    except ApiStatusError as error:
        return error.code in (400, 422)
    return False
