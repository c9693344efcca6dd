"""Takes one step to the cluster, and sorts what comes back into done or trouble. Knows nothing of Stacks or queues."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import orjson

from hearth.engine.ports import Cluster
from hearth.model import child, names
from hearth.model.child import Child, Object
from hearth.model.errors import Refused, Unreachable
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.signatures import Signatures
from hearth.plan.ownership import adoption, merge_patch
from hearth.plan.ownership.adoption import MayExist
from hearth.plan.ownership.field_ownership import Lost
from hearth.plan.resource import drift
from hearth.plan.retry import api_errors, retry_triggers
from hearth.plan.retry.backoff import Server, Trouble
from hearth.plan.state import desired, internal_errors
from hearth.plan.state.steps import Apply, Delete, Mark, Release, Step, Suspend

CREATE_ONLY = "1"
"""A resourceVersion that no object has: an apply that states it creates, or is refused with 409."""


REASONS: Mapping[type[object], str] = {
    api_errors.UserEdits: "Invalid",
    api_errors.MaybeImmutable: "Immutable",
    api_errors.Denied: "Denied",
    api_errors.SomebodyElse: "Conflict",
    api_errors.ObserveAgain: "Conflict",
    api_errors.ObjectGone: "Conflict",
    api_errors.NamespaceMissing: "NamespaceMissing",
    api_errors.NamespaceTerminating: "NamespaceTerminating",
    api_errors.KindGone: "KindNotAvailable",
    api_errors.TryLater: "Unavailable",
}
"""By reaction the reason that a status shows."""
FINAL = api_errors.UserEdits | api_errors.MaybeImmutable
"""What only a change of the definition mends."""


@dataclass(frozen=True, slots=True)
class Done:
    """A step was taken."""

    child: Child | None
    """The object as written; None where it was deleted or released, or is gone."""
    left: tuple[Lost, ...] = ()
    """What of the manifest was left to others."""


Result: TypeAlias = Done | Trouble


async def take(step: Step, *, cluster: Cluster, manager: str, may_exist: MayExist, ours: Signatures) -> Result:
    """What came of the step. Never raises for anything that the world does."""
    try:
        match step:
            case Apply():
                return await _apply(step, cluster=cluster, manager=manager, may_exist=may_exist, ours=ours)
            case Delete():
                await cluster.delete(step.child)
                return Done(None)
            case Release():
                await cluster.release(step.child)
                return Done(None)
            case Mark():
                return Done(await cluster.mark(step.child, step.reason))
            case Suspend():
                kind, manager = step.child.kind, names.SUSPENDER
                return Done(await cluster.apply(step.manifest, kind=kind, manager=manager, force=True))
            case _:
                assert_never(step)
    except Unreachable as error:
        message = f"cannot reach the API server: {error}; it is tried again"
        return Trouble(reason="Unreachable", message=message, causes=(retry_triggers.SERVER,), server=Server.SILENT)
    except Refused as error:
        return await _explain(error, step, cluster=cluster)


def explain_internal_error(step: Step) -> Result:
    """What came of a step that raised what no code expects."""
    _, ref, verb = _subject(step)
    return internal_errors.make_trouble(f"{verb} {ref}")


async def _apply(step: Apply, *, cluster: Cluster, manager: str, may_exist: MayExist, ours: Signatures) -> Result:
    if step.uid is not None:
        manifest = guarded(step.stated, uid=step.uid)
        return Done(await cluster.apply(manifest, kind=step.kind, manager=manager, force=True), step.left)
    try:
        manifest = guarded(step.manifest, resourceVersion=CREATE_ONLY)
        return Done(await cluster.apply(manifest, kind=step.kind, manager=manager, force=False))
    except Refused as error:
        if not isinstance(_classify(error, step), api_errors.ObserveAgain | api_errors.SomebodyElse):
            raise
    return await _take_over(step, cluster=cluster, manager=manager, may_exist=may_exist, ours=ours)


async def _take_over(step: Apply, *, cluster: Cluster, manager: str, may_exist: MayExist, ours: Signatures) -> Result:
    """Something stands under the name already: bring it up to date where it is ours or may be, else leave it alone."""
    live = await cluster.get(step.ref, kind=step.kind)
    metadata, manifest = live["metadata"], step.manifest
    annotations = metadata.get("annotations") or {}
    stack_uid = manifest["metadata"]["labels"][names.LABEL_STACK_UID]
    is_ours = adoption.is_child_of(live, step.ref, stack_uid=stack_uid, ours=ours) or is_taken_up(metadata, step)
    if not is_ours:
        objection = adoption.object_to(live, ref=step.ref, adopts=step.adopts, may_exist=may_exist, ours=ours)
        if objection is not None:
            message = f"{step.ref} exists already and {objection.message}"
            taken = retry_triggers.of_object(step.kind, step.ref)
            return Trouble(reason=objection.reason, message=message, is_final=objection.is_final, causes=(taken,))
    if not is_ours or annotations.get(names.ANNOTATION_ADOPTED) == names.ADOPTED:
        step = dataclasses.replace(step, manifest=desired.adopted(manifest))
    left: tuple[Lost, ...] = ()
    if is_ours:
        # The cache did not know it, so what others keep of it is only seen now.
        left = drift.look_before_change(child.parse_child(live, kind=step.kind, paths=()), step).left
    stated = dataclasses.replace(step, left=left).stated
    manifest = guarded(stated, uid=metadata["uid"])
    return Done(await cluster.apply(manifest, kind=step.kind, manager=manager, force=True), left)


def is_taken_up(metadata: Mapping[str, Any], step: Apply) -> bool:
    """Whether that is the unsigned object which the step is for, and still labelled by an apply of ours."""
    return metadata["uid"] == step.takes_up and child.is_labelled(metadata)


def guarded(manifest: Object, **metadata: str) -> Object:
    """The manifest with a condition on the object that it is meant for; the original stays as it is."""
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


async def _explain(error: Refused, step: Step, *, cluster: Cluster) -> Trouble:
    """What a refusal means; a second question to the server where its first answer does not tell."""
    kind, ref, verb = _subject(step)
    right = "delete" if isinstance(step, Delete) else "patch"
    first = reaction = _classify(error, step)
    try:
        if isinstance(reaction, api_errors.AskAccess):
            is_allowed = await cluster.can(right, kind=kind, namespace=ref.namespace)
            reaction = api_errors.after_access_review(reaction, is_allowed=is_allowed)
        elif isinstance(reaction, api_errors.AskDryRun | api_errors.MaybeImmutable) and isinstance(step, Apply):
            reaction = api_errors.after_dry_run(reaction, await _probe(step, cluster=cluster))
            if isinstance(reaction, api_errors.MaybeImmutable) and not await _is_immutable(step, cluster=cluster):
                # What others added stands in the way, or a map that an apply would empty: no reason for another object.
                reaction = api_errors.Denied(message=reaction.message)
        elif isinstance(reaction, api_errors.KindGone):
            await cluster.refresh_kinds()
    except (Refused, Unreachable) as unanswered:
        message = f"cannot {verb} {ref}: {reaction.message}; nor ask why: {unanswered}"
        after, server = unanswered.retry_after or 0.0, _judge_server(unanswered)
        return Trouble(
            reason="Unreachable", message=message, after=after, causes=(retry_triggers.SERVER,), server=server
        )
    # The server's wish to wait counts however the rest is read.
    after = max(error.retry_after or 0.0, getattr(reaction, "after", None) or 0.0)
    return Trouble(
        reason=REASONS.get(type(reaction), "Refused"),
        message=f"cannot {verb} {ref}: {reaction.message}",
        is_final=isinstance(reaction, FINAL),
        after=after,
        immutable=", ".join(reaction.fields) if isinstance(reaction, api_errors.MaybeImmutable) else "",
        causes=retry_triggers.find(first, reaction, code=error.code, kind=kind, ref=ref),
        server=_judge_server(error),
    )


def _judge_server(error: Refused | Unreachable) -> Server:
    """How the server itself does."""
    if isinstance(error, Unreachable):
        return Server.SILENT
    is_busy = api_errors.is_turned_away(error.code, error.status, after=error.retry_after)
    return Server.BUSY if is_busy else Server.ANSWERS


def _subject(step: Step) -> tuple[Kind, ObjectRef, str]:
    """Kind and place of what a step writes, and what it does to it."""
    match step:
        case Apply():
            return step.kind, step.ref, "apply"
        case Delete():
            return step.child.kind, step.child.ref, "delete"
        case Release():
            return step.child.kind, step.child.ref, "release"
        case Mark():
            return step.child.kind, step.child.ref, "mark"
        case Suspend():
            return step.child.kind, step.child.ref, str(step.purpose)
        case _:
            assert_never(step)


def _classify(error: Refused, step: Step) -> api_errors.Reaction:
    size = len(orjson.dumps(step.manifest)) if isinstance(step, Apply) else 0
    hidden = step.hidden if isinstance(step, Apply) else None
    return api_errors.classify(error.code, error.status, kind=_subject(step)[0], body_size=size, hidden=hidden)


async def _probe(step: Apply, *, cluster: Cluster) -> api_errors.Reaction | None:
    """What the server says of the same definition as a new object; None where it would take it."""
    try:
        await cluster.create_dry_run(step.manifest, kind=step.kind)
    except Refused as error:
        return _classify(error, step)
    return None


async def _is_immutable(step: Apply, *, cluster: Cluster) -> bool:
    """Whether the server refuses the mere change of what is stated, whoever owns what else is there."""
    live = await cluster.get(step.ref, kind=step.kind)
    change = merge_patch.find_change(step.stated, live)
    try:
        await cluster.change_dry_run(step.ref, change, kind=step.kind)
    except Refused as error:
        return error.code in (400, 422)
    return False
