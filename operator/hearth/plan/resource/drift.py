"""What is done about stated fields that are not ours any more: taken back, or left to those who took them, and told.

Decides from ownership and the record of what was stated (`hearth.plan.ownership.applied_fields`); compares no values of the live object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Protocol

from hearth.model import field_paths, names
from hearth.model.child import Child, Object
from hearth.model.field_paths import ElementPath
from hearth.plan.environment import inherited_rules
from hearth.plan.environment.inherited_rules import InheritedRules
from hearth.plan.ownership import applied_fields, field_ownership
from hearth.plan.ownership.applied_fields import AppliedFields
from hearth.plan.ownership.field_ownership import DriftFinding, LostField
from hearth.plan.resource.readiness import enumerate_names
from hearth.plan.retry.drift_conflict import DriftConflict
from hearth.plan.state.altered_values import Altered
from hearth.plan.state.memory import InMemoryState, ManagerQuery
from hearth.plan.state.resource_conditions import ResourceCondition
from hearth.template.blueprint import DriftPolicy, ResourceBlueprint

TRACKING_METADATA = frozenset({("metadata", "labels"), ("metadata", "annotations")})
NOTHING = DriftFinding()
SIGNATURE = LostField(
    path=("metadata", "annotations", names.ANNOTATION_SIGNATURE),
    text=f"metadata.annotations[{names.ANNOTATION_SIGNATURE}]",
)
UNKNOWN_HOLDER = "taken by somebody"


class AppliedObject(Protocol):
    """What an object is to be: complete, and what of it others may keep."""

    @property
    def manifest(self) -> Object:
        """Complete."""

    @property
    def hash(self) -> str:
        """Of the definition, keyed."""

    @property
    def applied_fields(self) -> AppliedFields | None:
        """None where others may keep nothing."""

    @property
    def inherited_rules(self) -> InheritedRules | None:
        """What of the manifest comes from the parent's environment; None where nothing."""


def find(child: Child, desired: AppliedObject, memory: InMemoryState) -> DriftFinding:
    """What of the definition is not ours, as far as anybody has to know."""
    record = desired.applied_fields.record if desired.applied_fields is not None else ""
    if child.hash == desired.hash and applied_fields.read_applied_record(child) == record:
        finding = check_applied(child, desired, memory)
    else:
        finding = check_before_change(child, desired)
    if memory.altered and (altered := memory.altered.get(child.uid)) is not None and altered.hash == desired.hash:
        finding = with_altered(finding, altered, child, desired)
    return finding if child.is_signed else with_signature(finding)


def with_altered(finding: DriftFinding, altered: Altered, child: Child, desired: AppliedObject) -> DriftFinding:
    """The same with what was changed under our own name: taken back, or told, as if others held it.

    It is left out of no apply: what we own and state no longer the server would remove.
    """
    told = [lost for lost in altered.fields if is_tolerated(lost.path, child, desired)]
    taken = [lost for lost in altered.fields if lost not in told]
    return dataclasses.replace(finding, to_repair=(*finding.to_repair, *taken), altered=tuple(told))


def with_signature(finding: DriftFinding) -> DriftFinding:
    """The same for an object without a valid signature: to be written again, even where the annotation is still ours."""
    if any(lost.path == SIGNATURE.path for lost in finding.to_repair):
        return finding
    return dataclasses.replace(finding, to_repair=(*finding.to_repair, SIGNATURE))


def check_applied(child: Child, desired: AppliedObject, memory: InMemoryState) -> DriftFinding:
    """What was lost of an object that has this very definition; remembered while its ownership stays the same."""
    seen = (desired.hash, child.ownership)
    if memory.ownership_baseline.get(child.uid) == seen:
        return memory.tolerated.get(child.uid, NOTHING)
    finding = compare(child, desired)
    if not finding.to_repair:
        memory.record_ownership(child.uid, seen, finding)
    return finding


def check_before_change(child: Child, desired: AppliedObject) -> DriftFinding:
    """What of another definition than the object's is left out, as its value is the old one and others hold it."""
    statement = desired.applied_fields
    is_scaled = child.ownership is not None and child.ownership.is_scaled
    if statement is None or not (statement.covers_all or statement.ignored or is_scaled):
        return NOTHING
    return compare(child, desired)


def compare(child: Child, desired: AppliedObject) -> DriftFinding:
    """What of the definition is not ours, sorted by what is done about it."""
    left: list[LostField] = []
    taken: list[LostField] = []
    for lost in field_ownership.find_all_lost(desired.manifest, child.ownership):
        (left if is_tolerated(lost.path, child, desired) else taken).append(lost)
    return DriftFinding(tolerated=tuple(left), to_repair=tuple(taken))


def is_tolerated(place: ElementPath, child: Child, desired: AppliedObject) -> bool:
    """Whether what others took there is left to them: they may keep it, and it was stated with this value before."""
    statement = desired.applied_fields
    if statement is None or is_tracking_metadata(place) or inherited_rules.is_inherited(place, desired.inherited_rules):
        return False
    is_scaled = child.ownership is not None and child.ownership.is_scaled
    if not statement.is_tolerable(place, is_scaled=is_scaled):
        return False
    return is_unchanged(statement, place, child, desired)


def is_unchanged(statement: AppliedFields, place: ElementPath, child: Child, desired: AppliedObject) -> bool:
    """Whether the value was stated before. What was hashed with a key that is lost says nothing, so never «changed»."""
    is_known = child.hash.partition(":")[0] == desired.hash.partition(":")[0]
    return (
        child.hash == desired.hash
        or not is_known
        or statement.is_recorded(place, applied_fields.read_applied_record(child))
    )


def is_tracking_metadata(place: ElementPath) -> bool:
    """Whether it is a label or annotation by which Hearth knows its objects."""
    return place[:2] in TRACKING_METADATA and str(place[-1]).startswith(f"{names.GROUP}/")


def describe(lost: Iterable[LostField]) -> str:
    """The fields in words, the first few of them."""
    return enumerate_names([each.text for each in lost])


def describe_drift(
    resource: ResourceBlueprint, child: Child, finding: DriftFinding, desired: AppliedObject, memory: InMemoryState
) -> tuple[ResourceCondition, ...]:
    """What the Stack's owner is to know of the fields that are left to others."""
    if resource.drift_policy is not DriftPolicy.REPORT or not (finding.tolerated or finding.altered):
        return ()
    manifest = desired.manifest
    reported = tuple(
        lost for lost in (*finding.tolerated, *finding.altered) if not is_ignored(lost.path, resource, child, manifest)
    )
    if not reported:
        return ()
    holder = describe_manager(resource.name, ManagerQuery(child=child, lost=reported, manifest=manifest), memory)
    message = f"{resource.name} ({child.ref}): {describe(reported)}, {holder}; it is left so, as driftPolicy is Report"
    return (ResourceCondition(type="Drifted", reason="FieldsTaken", message=message),)


def is_ignored(place: ElementPath, resource: ResourceBlueprint, child: Child, manifest: Object) -> bool:
    """Whether the definition itself leaves the field to others, so that there is nothing to tell."""
    if place == applied_fields.REPLICAS and child.ownership is not None and child.ownership.is_scaled:
        return True
    return any(field_paths.covers(pattern, place, manifest) for pattern in resource.ignore_fields)


def describe_conflict(
    name: str, contest: DriftConflict | None, question: ManagerQuery, memory: InMemoryState
) -> tuple[ResourceCondition, ...]:
    """What the Stack's owner is to know of fields that somebody keeps taking back. question: about those lost now."""
    if contest is None or not contest.is_conflict:
        return ()
    # Asked while they are lost: a moment later the answer would be that they are ours.
    holder = describe_manager(name, question, memory) if question.lost else find_manager(question.child, memory)
    message = (
        f"{name} ({question.child.ref}): {describe(question.lost) or contest.fields}, {holder} again and again; "
        f"it is taken back more and more slowly: end this, or set ignoreFields"
    )
    return (ResourceCondition(type="Contested", reason="FieldsTakenAgain", message=message),)


def describe_manager(name: str, question: ManagerQuery, memory: InMemoryState) -> str:
    """Who holds fields, in words, as far as that is known; the question is noted where it is not."""
    known = memory.field_managers.get(question.child.uid)
    if known is None or known[0] != question.lost:
        memory.manager_queries[name] = question
    return find_manager(question.child, memory)


def find_manager(child: Child, memory: InMemoryState) -> str:
    """Who held fields of the object when that was last asked."""
    known = memory.field_managers.get(child.uid)
    return known[1] if known is not None else UNKNOWN_HOLDER
