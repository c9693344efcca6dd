"""Decides which drifted fields of an object to repair and which to tolerate and report.

The decision uses field ownership and the record of applied fields (`hearth.plan.ownership.applied_fields`), not the
values of the live object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from hearth.model import field_paths, names
from hearth.model.child import Child, Object
from hearth.model.field_paths import ElementPath, PathPattern
from hearth.model.phases import ConditionType
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.environment import inherited_rules
from hearth.plan.ownership import applied_fields, field_ownership
from hearth.plan.ownership.applied_fields import AppliedFields
from hearth.plan.ownership.field_ownership import DriftFinding, LostField
from hearth.plan.resource import reverted_values
from hearth.plan.resource.resource_context import ResourceContext
from hearth.plan.retry.backoff import DriftConflict
from hearth.plan.state.altered_values import Altered
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import ManagerQuery, OwnershipSeen, ResourceCondition
from hearth.plan.state.steps import Apply
from hearth.template.blueprint import DriftPolicy, ResourceBlueprint

TRACKING_METADATA = frozenset({("metadata", "labels"), ("metadata", "annotations")})
NOTHING = DriftFinding()
SIGNATURE = LostField(
    path=("metadata", "annotations", names.ANNOTATION_SIGNATURE),
    text=f"metadata.annotations[{names.ANNOTATION_SIGNATURE}]",
)
AppliedObject: TypeAlias = DesiredObject | Apply
"""A complete manifest with its hash and the fields that other managers may take: before an apply, or in its step."""


def find(child: Child, applied: AppliedObject, memory: InMemoryState) -> tuple[DriftFinding, OwnershipSeen | None]:
    """Find the fields of the definition that the operator does not own. Irrelevant losses are skipped.

    The second result is the finding to remember for the next call, or None if it is already known.
    """
    record = applied.applied_fields.record if applied.applied_fields is not None else ""
    if child.hash == applied.hash and applied_fields.is_record_current(child, record):
        finding, seen = check_applied(child, applied, memory)
    else:
        finding, seen = check_before_change(child, applied), None
    if memory.altered and (altered := memory.altered.get(child.uid)) is not None and altered.hash == applied.hash:
        finding = with_altered(finding, altered, child, applied)
    return (finding if child.is_signed else with_signature(finding)), seen


def with_altered(finding: DriftFinding, altered: Altered, child: Child, applied: AppliedObject) -> DriftFinding:
    """Add values that were changed under the operator's own field manager name: repaired or reported like other drift.

    They stay in every apply: the API server would remove an owned field that an apply omits.
    """
    kept = [lost for lost in altered.fields if is_tolerated(lost.path, child, applied)]
    taken = [lost for lost in altered.fields if lost not in kept]
    return dataclasses.replace(finding, to_repair=(*finding.to_repair, *taken), altered=tuple(kept))


def with_signature(finding: DriftFinding) -> DriftFinding:
    """Add the signature of an unsigned object to the fields to repair, even if the operator owns the annotation."""
    if any(lost.path == SIGNATURE.path for lost in finding.to_repair):
        return finding
    return dataclasses.replace(finding, to_repair=(*finding.to_repair, SIGNATURE))


def check_applied(
    child: Child, applied: AppliedObject, memory: InMemoryState
) -> tuple[DriftFinding, OwnershipSeen | None]:
    """Find lost fields of an object that has this definition. A remembered result is valid for the same ownership."""
    baseline = (applied.hash, child.ownership)
    if memory.ownership_baseline.get(child.uid) == baseline:
        return memory.tolerated.get(child.uid, NOTHING), None
    finding = compare(child, applied)
    seen = None if finding.to_repair else OwnershipSeen(uid=child.uid, baseline=baseline, finding=finding)
    return finding, seen


def check_before_change(child: Child, desired: AppliedObject) -> DriftFinding:
    """Find fields to omit when the definition changes: their value is unchanged and another field manager owns them."""
    applied = desired.applied_fields
    is_scaled = child.ownership is not None and child.ownership.is_scaled
    if applied is None or not (applied.covers_all or applied.ignored or is_scaled):
        return NOTHING
    return compare(child, desired)


def compare(child: Child, applied: AppliedObject) -> DriftFinding:
    """Find the fields that the operator does not own, classified as tolerated or to repair."""
    left: list[LostField] = []
    taken: list[LostField] = []
    for lost in find_lost(child, applied):
        (left if is_tolerated(lost.path, child, applied) else taken).append(lost)
    if not (left or taken):
        return NOTHING
    return DriftFinding(tolerated=tuple(left), to_repair=tuple(taken))


def find_lost(child: Child, desired: AppliedObject) -> Iterator[LostField]:
    """Find the fields that the operator no longer owns.

    A map without any owned key is one lost field. It is split into its keys if other managers may keep some of them.
    """
    applied, manifest = desired.applied_fields, desired.manifest
    for lost in field_ownership.find_all_lost(manifest, child.ownership):
        ignored = applied.ignored if applied is not None else ()
        yield from split(lost, field_paths.read(manifest, lost.path), manifest, ignored) if ignored else (lost,)


def split(lost: LostField, value: Any, manifest: Object, ignored: Sequence[PathPattern]) -> Iterator[LostField]:
    """Split a lost map into its keys if `ignored` names a field below it. value: of the field."""
    if not isinstance(value, dict) or not any(
        field_paths.leads_below(pattern, lost.path, manifest) for pattern in ignored
    ):
        yield lost
        return
    for key, inner in value.items():
        text = field_ownership.join(lost.text, key)
        if field_ownership.find_first_field(inner, path=text) is not None:
            yield from split(LostField(path=(*lost.path, key), text=text), inner, manifest, ignored)


def is_tolerated(place: ElementPath, child: Child, desired: AppliedObject) -> bool:
    """Return whether drift of this field is tolerated: the definition allows it, and the applied value is unchanged."""
    applied = desired.applied_fields
    if applied is None or is_tracking_metadata(place) or inherited_rules.is_inherited(place, desired.inherited_rules):
        return False
    is_scaled = child.ownership is not None and child.ownership.is_scaled
    if not applied.is_tolerable(place, is_scaled=is_scaled):
        return False
    return is_unchanged(applied, place, child, desired)


def is_unchanged(applied: AppliedFields, place: ElementPath, child: Child, desired: AppliedObject) -> bool:
    """Return whether the value was applied before.

    A hash made with a lost key cannot be compared, so the value counts as unchanged.
    """
    is_known = child.hash.partition(":")[0] == desired.hash.partition(":")[0]
    return (
        child.hash == desired.hash
        or not is_known
        or applied.is_recorded(place, applied_fields.read_applied_record(child))
    )


def is_tracking_metadata(place: ElementPath) -> bool:
    """Whether Hearth uses this label or annotation to track its objects."""
    return place[:2] in TRACKING_METADATA and str(place[-1]).startswith(f"{names.GROUP}/")


def describe(lost: Iterable[LostField]) -> str:
    """Describe the first few fields."""
    return enumerate_names([each.text for each in lost])


def describe_drift(
    context: ResourceContext, child: Child, finding: DriftFinding, applied: AppliedObject
) -> tuple[ResourceCondition, ...]:
    """Describe drift that stays because of `driftPolicy` or `spec.paused`, for the Stack's owner."""
    if not (finding.tolerated or finding.altered or finding.to_repair):
        # This is the usual case. Building the manifest would take longer than the rest of the decision.
        return ()
    resource, manifest = context.resource, applied.manifest
    tolerated = (*finding.tolerated, *finding.altered) if resource.drift_policy is DriftPolicy.REPORT else ()
    reported = tuple(lost for lost in tolerated if not is_ignored(lost.path, resource, child, manifest))
    outlook = "it is not repaired because driftPolicy is Report"
    is_same = child.is_identified and (child.hash == applied.hash or context.awaits_repair)
    if context.is_paused and is_same and finding.to_repair:
        reported, outlook = (*finding.to_repair, *reported), "spec.paused keeps it so"
    if not reported:
        return ()
    question = ManagerQuery(child=child, lost=reported, manifest=manifest)
    message = f"{resource.name} ({child.ref}): {describe(reported)}, {find_manager(child, context.memory)}; {outlook}"
    query = find_open_query(question, context.memory)
    return (ResourceCondition(type=ConditionType.DRIFTED, reason="FieldOwnershipLost", message=message, query=query),)


def is_ignored(place: ElementPath, resource: ResourceBlueprint, child: Child, manifest: Object) -> bool:
    """Return whether the definition itself leaves the field to other field managers. Such drift is not reported."""
    if place == applied_fields.REPLICAS and child.ownership is not None and child.ownership.is_scaled:
        return True
    return any(field_paths.covers(pattern, place, manifest) for pattern in resource.ignore_fields)


def describe_conflict(
    name: str, conflict: DriftConflict | None, manager_query: ManagerQuery, memory: InMemoryState
) -> tuple[ResourceCondition, ...]:
    """Describe fields that another field manager takes repeatedly, for the Stack's owner.

    manager_query: the query for the managers of the fields that are lost now.
    """
    if conflict is None or not conflict.is_conflict:
        return ()
    # Find the managers while the fields are lost, because the repair gives the fields back to the operator.
    query = find_open_query(manager_query, memory) if manager_query.lost else None
    message = (
        f"{name} ({manager_query.child.ref}): {describe(manager_query.lost) or conflict.fields}, "
        f"{find_manager(manager_query.child, memory)}, changed repeatedly; repairs are delayed: stop that writer, or set "
        f"ignoreFields"
    )
    return (
        ResourceCondition(
            type=ConditionType.DRIFT_CONFLICT, reason="FieldOwnershipLostAgain", message=message, query=query
        ),
    )


def find_open_query(query: ManagerQuery, memory: InMemoryState) -> ManagerQuery | None:
    """Return the query, or None if its answer is known."""
    known = memory.field_managers.get(query.child.uid)
    return query if known is None or known[0] != query.lost else None


def find_manager(child: Child, memory: InMemoryState) -> str:
    """Return the field managers that the last query returned for the object."""
    known = memory.field_managers.get(child.uid)
    return known[1] if known is not None else reverted_values.UNKNOWN
