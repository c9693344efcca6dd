"""How a rollback can undo a change of an object in place. Pure.

Most such changes are undone by the next apply. The rules of kinds are about fields that change only once, that delete data,
or whose former value the API server assigned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hearth.model import object_fields
from hearth.model.child import Object
from hearth.plan.ownership import field_ownership, overwritten_fields
from hearth.plan.resource import data_kinds, reversal
from hearth.plan.resource.reversal import Undo, UndoGrade
from hearth.plan.state import run_policy

MUTABLE_CLAIM_FIELDS: Final = frozenset({"volumeAttributesClassName"})
"""Fields in the spec of a claim that can change in both directions. All others can change only once."""
REPLICATED: Final = frozenset({"Deployment.apps", "ReplicaSet.apps", data_kinds.STATEFUL_SET})
"""Kinds whose number of replicas stays when the definition no longer sets it."""
DEPTH: Final = 32
"""Maximum levels of a schema to compare."""


def grade_update(kind: str, before: Object, after: Object, *, is_once: bool = False) -> Undo:
    """Return how a rollback undoes a change in place."""
    if reversal.is_running(kind, after, is_once=is_once) and not reversal.is_running(kind, before, is_once=is_once):
        return reversal.make_run_undo(kind, field="spec.suspend" if kind == run_policy.JOB else "")
    if is_once and kind not in (run_policy.JOB, run_policy.POD) and before.get("spec") != after.get("spec"):
        return reversal.make_run_undo(kind)
    specific = SPECIFIC.get(kind, find_nothing)(before, after) or reversal.COMPLETE
    if specific.grade is UndoGrade.ONE_WAY:
        return specific
    present, changed = (overwritten_fields.strip(raw) for raw in (before, after))
    owners = overwritten_fields.find_owners(before)
    overwritten = next(overwritten_fields.find_overwritten(present, changed, owners), "")
    if overwritten:
        return reversal.make_one_way(overwritten, "another program set its value, which a rollback does not restore")
    counts = [object_fields.number(raw, "spec", "replicas") for raw in (before, after)]
    if kind in REPLICATED and counts[0] != counts[1] and owners.at("f:spec").at("f:replicas").ours is None:
        return reversal.make_one_way(
            "spec.replicas", "a number that is removed from the definition is kept, for an autoscaler"
        )
    return specific


def find_nothing(before: Object, after: Object) -> Undo | None:  # noqa: ARG001 -- as for other kinds
    """Return None: no rule applies to the kind."""
    return None


def grade_claim(before: Object, after: Object) -> Undo | None:
    """Return how a rollback undoes the change of a claim; None if it is like any other change."""
    old, new = (object_fields.mapping(raw, "spec") for raw in (before, after))
    for field in overwritten_fields.find_changed_fields(old, new, path="spec"):
        if field.removeprefix("spec.") not in MUTABLE_CLAIM_FIELDS:
            is_storage = field == ".".join(reversal.STORAGE)
            return reversal.make_one_way(
                field, "a claim never shrinks" if is_storage else "a claim accepts it only once"
            )
    return None


def grade_stateful_set(before: Object, after: Object) -> Undo | None:
    """Return how another number of replicas affects the claims of a StatefulSet."""
    old, new = (object_fields.number(raw, "spec", "replicas") for raw in (before, after))
    if not data_kinds.has_claims(after) or old is None or new is None or old == new:
        return None
    if not reversal.deletes_claims(after, "whenScaled"):
        return reversal.CLAIMS_STAY if new > old else None
    reason = f"{reversal.RETENTION}.whenScaled is Delete, so claims are deleted"
    return reversal.make_one_way("spec.replicas", reason) if new < old else None


def grade_service(before: Object, after: Object) -> Undo | None:
    """Return which assigned addresses a Service loses."""
    kept = set(reversal.find_addresses("Service", after))
    # A dry run returns no new status.
    is_balanced = object_fields.text(after, "spec", "type") == "LoadBalancer"
    lost = dict.fromkeys(
        address.type
        for address in reversal.find_addresses("Service", before)
        if address not in kept and not (is_balanced and address.type == reversal.EXTERNAL)
    )
    reason = "the same object gets other addresses"
    return Undo(grade=UndoGrade.RECREATES, reason=reason, lost=tuple(lost)) if lost else None


def grade_immutable(before: Object, after: Object) -> Undo | None:
    """Return that a ConfigMap or Secret becomes immutable, so that a rollback replaces it."""
    if after.get("immutable") is True and before.get("immutable") is not True:
        return Undo(grade=UndoGrade.RECREATES, reason="immutable: true cannot be changed back in place")
    return None


def grade_pod(before: Object, after: Object) -> Undo | None:
    """Return that a Pod accepts most changes only once."""
    old, new = (object_fields.mapping(raw, "spec") for raw in (before, after))
    once = (
        each for each in overwritten_fields.find_changed_fields(old, new, path="spec") if not each.endswith(".image")
    )
    if (field := next(once, "")) != "":
        return Undo(
            grade=UndoGrade.RECREATES,
            reason=f"{field} cannot be changed back in place",
            lost=reversal.LOSSES[run_policy.POD],
        )
    return None


def grade_definition(before: Object, after: Object) -> Undo | None:
    """Return what the objects of a CustomResourceDefinition lose, or that a version cannot be removed again."""
    old, new = (
        {object_fields.text(each, "name"): each for each in object_fields.entries(raw, "spec", "versions")}
        for raw in (before, after)
    )
    for name in old.keys() - new.keys():
        return reversal.make_one_way(
            f"spec.versions[{name}]", "owners of fields that objects record in this version are lost"
        )
    for name in new.keys() - old.keys():
        if new[name].get("storage") is True:
            return reversal.make_one_way(
                f"spec.versions[{name}].storage", "a version with stored objects cannot be removed"
            )
    for name, version in old.items():
        schemas = [object_fields.mapping(each, "schema", "openAPIV3Schema") for each in (version, new[name])]
        if (field := next(find_dropped_properties(*schemas), "")) != "":
            reason = "objects lose the field when they are written"
            return reversal.make_one_way(f"spec.versions[{name}].schema: {field}", reason)
    return None


SPECIFIC: Final = {
    reversal.CLAIM: grade_claim,
    data_kinds.STATEFUL_SET: grade_stateful_set,
    "Service": grade_service,
    "ConfigMap": grade_immutable,
    "Secret": grade_immutable,
    run_policy.POD: grade_pod,
    reversal.DEFINITION: grade_definition,
}
"""By `Kind.key`."""


def find_dropped_properties(
    old: Mapping[str, Any], new: Mapping[str, Any], *, path: str = "", depth: int = DEPTH
) -> Iterator[str]:
    """Yield the paths of properties that the new schema no longer has, so that the API server drops them."""
    if not depth or new.get("x-kubernetes-preserve-unknown-fields") is True:
        return
    before, after = (object_fields.mapping(schema, "properties") for schema in (old, new))
    for name, schema in before.items():
        below = field_ownership.join(path, name)
        if name not in after:
            if not object_fields.find(new, "additionalProperties"):
                yield below
        else:
            found = (object_fields.mapping(each) for each in (schema, after[name]))
            yield from find_dropped_properties(*found, path=below, depth=depth - 1)
    for key in ("items", "additionalProperties"):
        inner = [object_fields.mapping(schema, key) for schema in (old, new)]
        if all(inner):
            yield from find_dropped_properties(inner[0], inner[1], path=f"{path}[]", depth=depth - 1)
