"""Describes changes that a repair reverts, or that reverted an apply.

Reads the object just before the write, because the changes are not visible afterward. This happens only for the first
repair of a resource and for repeated applies, which are delayed, so no hot path sends this request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from hearth import answers
from hearth.engine.ports import ClusterRequests, WorkloadCluster
from hearth.model import child, names
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import ObjectRef
from hearth.model.tenancy import Boundary
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.field_ownership import LostField
from hearth.plan.resource import drift, replacement, reverted_values
from hearth.plan.retry.backoff import StepFailure
from hearth.plan.state.resource_status import ManagerQuery
from hearth.plan.state.steps import Apply, Step

Result = TypeVar("Result")
REASON = "DriftNotRepairable"
SECRET = "Secret"  # noqa: S105 -- a kind
OWNERS = 3
"""Maximum number of owners of an object that are read."""


async def describe_repair(step: Apply, *, cluster: ClusterRequests, boundary: Boundary) -> str:
    """Return the values that the repair reverts; only the fields if the account cannot read the object. Never raises
    for an API error.

    cluster: as the account of the Stack accesses it; boundary: of the Stack.
    """
    if boundary.find_denial(step.ref):
        return ""
    live = await answers.find_answer(cluster.get(step.ref, kind=step.kind), None)
    if live is None or live["metadata"].get("uid") != step.uid:
        return step.repaired_fields
    return _describe_values(step, live, child.parse_child(live, kind=step.kind, paths=()), step.lost)


def _describe_values(step: Apply, live: Object, seen: Child, lost: Sequence[LostField]) -> str:
    # A value that another client wrote into a field may be as sensitive as the one that belongs there.
    shows = step.sensitive_texts is None and step.kind.name != SECRET
    return reverted_values.describe(live, seen, step.manifest, lost, shows=shows)


async def explain_unrepairable(
    step: Step, result: Result, *, cluster: ClusterRequests, boundary: Boundary
) -> Result | StepFailure:
    """Return the failure of a repair that the API server does not allow; any other result unchanged.

    The definition did not change, so that no replacement of the object is due.
    """
    if not (isinstance(result, StepFailure) and result.immutable and isinstance(step, Apply) and step.lost):
        return result
    found = await describe_repair(step, cluster=cluster, boundary=boundary)
    message = (
        f"a change by another client cannot be undone: {found or step.repaired_fields}; {result.message}; to keep it, put "
        f"its value into the template, or name the field in ignoreFields; {_explain_replacement(step)}"
    )
    return StepFailure(reason=REASON, message=message, retry_after=result.retry_after)


def _explain_replacement(step: Apply) -> str:
    """Explain how the object gets the value of the template instead."""
    if step.kind.key not in replacement.CREATE_FIRST_KINDS:
        return "only a new object gets the value from the template, and all data in this one is lost"
    stack = step.manifest["metadata"]["labels"].get(names.LABEL_STACK, "")
    return (
        f"to replace the object with one that has the value from the template: kubectl stack mark {stack} "
        f"{step.resource} --reason drift"
    )


async def describe_repetition(step: Apply, *, cluster: WorkloadCluster, boundary: Boundary) -> str:
    """Describe what undoes the apply. Returns "" if the cause is unknown. Never raises for an API error.

    cluster: the cluster as the account of the Stack accesses it; boundary: the boundary of the Stack.
    """
    if boundary.find_denial(step.ref):
        return ""
    if step.uid is None:
        return await answers.find_answer(_describe_owners(step, cluster=cluster, boundary=boundary), "")
    live = await answers.find_answer(cluster.get(step.ref, kind=step.kind), None)
    return _describe_change(step, live) if live is not None else ""


async def _describe_owners(step: Apply, *, cluster: WorkloadCluster, boundary: Boundary) -> str:
    """Find an owner in the manifest that does not exist. The garbage collector deletes an object with such an owner."""
    owners: Sequence[Mapping[str, Any]] = step.manifest["metadata"].get("ownerReferences") or ()
    for owner in owners[:OWNERS]:
        kind = cluster.kinds.find(str(owner.get("apiVersion")), str(owner.get("kind")))
        namespace = step.ref.namespace if kind is not None and kind.namespaced else ""
        if kind is None:
            return f"metadata.ownerReferences names the kind {owner.get('kind')} of {owner.get('apiVersion')}, which is not served"
        ref = ObjectRef(kind=kind.name, group=kind.group, namespace=namespace, name=str(owner.get("name")))
        if boundary.find_denial(ref):
            continue
        try:
            live = await cluster.get(ref, kind=kind)
        except ApiStatusError as error:
            if error.code == 404:
                return f"the garbage collector deletes it, because its owner {ref} (metadata.ownerReferences) does not exist"
            continue
        if live["metadata"].get("uid") != owner.get("uid"):
            return (
                f"the garbage collector deletes it, because its owner {ref} (metadata.ownerReferences) has "
                f"another UID than {owner.get('uid')}"
            )
    return ""


def _describe_change(step: Apply, live: Object) -> str:
    """Describe the fields that are not as applied, with both values, their managers, and the ways out."""
    if live["metadata"].get("uid") != step.uid:
        return ""
    seen = child.parse_child(live, kind=step.kind, paths=())
    found = {each.path: each for each in (*_find_lost(step, seen), *_find_changed_metadata(step, live))}
    lost = tuple(each for each in found.values() if not drift.is_tracking_metadata(each.path))
    ours = tuple(each for each in found.values() if drift.is_tracking_metadata(each.path))
    if lost:
        text = _describe_values(step, live, seen, lost)
        return f"{text}; stop that writer, copy its value into the template, or leave the field to it with ignoreFields"
    if not ours:
        return ""
    managers = reverted_values.describe_managers(live, ManagerQuery(child=seen, lost=ours, manifest=step.manifest))
    # Changes of a mutating webhook in our own apply count as ours.
    writer = "removed or changed by another client, or by a mutating webhook"
    writer = writer if managers == reverted_values.REMOVED else f"changed, and {managers}"
    return f"{drift.describe(ours)}, {writer}; the operator knows its objects by these: stop that writer"


def _find_lost(step: Apply, seen: Child) -> Iterator[LostField]:
    tolerated = {each.path for each in step.tolerated}
    return (each for each in field_ownership.find_all_lost(step.manifest, seen.ownership) if each.path not in tolerated)


def _find_changed_metadata(step: Apply, live: Object) -> Iterator[LostField]:
    """Find the operator's own labels and annotations with other values."""
    for part in ("labels", "annotations"):
        found = live["metadata"].get(part) or {}
        for key, value in (step.manifest["metadata"].get(part) or {}).items():
            if names.is_ours(key) and found.get(key) != value:
                yield LostField(path=("metadata", part, key), text=f"metadata.{part}[{key}]")
