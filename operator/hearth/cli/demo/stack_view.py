"""View of a Stack at one moment: one row for each resource. Pure: from plain objects to values.

Judges children by the same rules as the engine, because a status names only resources with problems. Must not know how
a row is drawn.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hearth.model import members, names
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.health import health_rules
from hearth.plan.resource import blocked_status
from hearth.template.blueprint import Blueprint, Known, Pending, ResourceBlueprint

NAMED_AT_MOST = 3
"""Maximum number of names in a note, so that it fits on its line."""
PATIENT = frozenset({blocked_status.KIND_NOT_AVAILABLE, blocked_status.VALUE_MISSING})
"""Reasons of problems that are no failure: something does not exist yet."""


class RowState(enum.StrEnum):
    """State of a resource in one word."""

    READY = "ready"
    PROGRESSING = "progressing"
    WAITING = "waiting"
    FAILED = "failed"
    OBSOLETE = "obsolete"
    """Obsolete, but not deleted yet."""
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """One resource."""

    resource: str
    object: str
    """`deployment/web`; only the kind while the object does not exist."""
    state: RowState
    note: str = ""
    """The first problem, or what the resource waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackView:
    """Everything to show of a Stack."""

    name: str
    namespace: str
    exists: bool = True
    phase: str = ""
    summary: str = ""
    """`3/7`."""
    revision: int | None = None
    is_ready: bool = False
    is_stalled: bool = False
    message: str = ""
    """Message of the condition Ready."""
    rows: tuple[ResourceRow, ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """State of the cluster at one moment."""

    stack: Object
    blueprint: Blueprint | None
    """None while no template was readable."""
    children: Sequence[tuple[Kind, Object]]
    """Every object with the Stack's label."""


def describe(snapshot: ClusterSnapshot) -> StackView:
    """Return the view of a snapshot."""
    metadata, status = snapshot.stack["metadata"], snapshot.stack.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    is_current = status.get("observedGeneration") == metadata.get("generation")
    return StackView(
        name=metadata["name"],
        namespace=metadata["namespace"],
        phase=status.get("phase") or "New",
        summary=status.get("summary") or "",
        revision=status.get("revision"),
        is_ready=is_current and ready.get("status") == "True",
        is_stalled=is_current and (conditions.get("Stalled") or {}).get("status") == "True",
        message=ready.get("message") or "the operator has not processed it yet",
        rows=tuple(describe_rows(snapshot, status)),
        outputs=tuple((name, str(value)) for name, value in sorted((status.get("outputs") or {}).items())),
    )


def describe_rows(snapshot: ClusterSnapshot, status: Mapping[str, Any]) -> list[ResourceRow]:
    """Return a row for each resource in the order of creation, then one for each obsolete object."""
    resources = snapshot.blueprint.resources if snapshot.blueprint is not None else {}
    problems = {problem["resource"]: problem for problem in status.get("problems") or ()}
    named = {names.resource_label(name): name for name in resources}
    chosen = choose(snapshot.children, named)
    is_deleting = "deletionTimestamp" in snapshot.stack["metadata"]
    rows: list[ResourceRow] = []
    values: dict[str, Object | None] = {name: child for name, (_, child) in chosen.items()}
    unready: set[str] = set()
    for name, resource in resources.items():
        row = describe_resource(resource, chosen.get(name), values=values, problem=problems.get(name), unready=unready)
        if is_deleting:
            row = describe_deleting(row, chosen.get(name))
        if row.state is not RowState.READY:
            unready.add(name)
        rows.append(row)
    for kind, child in snapshot.children:
        name = find_resource(child, named)
        if name not in resources or child is not values[name]:
            rows.append(
                ResourceRow(
                    resource=name,
                    object=name_object(kind, child),
                    state=RowState.OBSOLETE,
                    note=describe_deletion(child),
                )
            )
    return rows


def find_resource(child: Object, named: Mapping[str, str]) -> str:
    """Return the resource of an object. named: the resources by their labels."""
    label = child["metadata"]["labels"].get(names.LABEL_RESOURCE, "")
    return named.get(label, label)


def choose(children: Sequence[tuple[Kind, Object]], named: Mapping[str, str]) -> dict[str, tuple[Kind, Object]]:
    """Return by resource the newest object with its label. named: the resources by their labels."""
    chosen: dict[str, tuple[Kind, Object]] = {}
    for kind, child in sorted(children, key=lambda pair: pair[1]["metadata"].get("creationTimestamp") or ""):
        chosen[find_resource(child, named)] = (kind, child)
    return chosen


def describe_resource(
    resource: ResourceBlueprint,
    found: tuple[Kind, Object] | None,
    *,
    values: Mapping[str, Object | None],
    problem: Mapping[str, Any] | None,
    unready: set[str],
) -> ResourceRow:
    """Return the row of one resource.

    problem: its entry in the status; unready: the preceding resources that are not ready.
    """
    name = name_object(*found) if found is not None else resource.kind.lower()
    waits_for = [other for other in sorted(unready) if members.is_among(other, resource.requires)]
    if problem is not None:
        state = RowState.WAITING if problem.get("reason") in PATIENT else RowState.FAILED
        note = f"{problem.get('reason')}: {problem.get('message')}"
    elif found is None and waits_for:
        state, note = RowState.WAITING, f"waits for {enumerate_names(waits_for)}"
    elif found is None:
        state, note = RowState.PROGRESSING, "is being applied"
    elif "deletionTimestamp" in found[1]["metadata"]:
        state, note = RowState.PROGRESSING, "is being deleted, and is created again"
    elif resource.ready_when:
        state, note = assess_by_rules(resource, values)
    else:
        state, note = assess_by_kind(*found)
    return ResourceRow(resource=resource.name, object=name, state=state, note=note)


def assess_by_kind(kind: Kind, child: Object) -> tuple[RowState, str]:
    """Judge a child by the built-in rule of its kind."""
    verdict = health_rules.assess(child, kind=kind)
    match verdict.state:
        case health_rules.HealthState.READY:
            return RowState.READY, ""
        case health_rules.HealthState.FAILED:
            return RowState.FAILED, verdict.message
        case _:
            return RowState.PROGRESSING, verdict.message


def assess_by_rules(resource: ResourceBlueprint, values: Mapping[str, Object | None]) -> tuple[RowState, str]:
    """Judge a child by the rules of its resource."""
    for rule in resource.ready_when:
        match rule.evaluate({**values, resource.own_name: values.get(resource.name)}):
            case Known(value=True):
                continue
            case Pending(missing=missing):
                return RowState.PROGRESSING, f"waits for {enumerate_names(missing)}"
            case _:
                return RowState.PROGRESSING, "its readyWhen rule is not met yet"
    return RowState.READY, ""


def describe_deleting(row: ResourceRow, found: tuple[Kind, Object] | None) -> ResourceRow:
    """Return the row of a resource whose Stack is being deleted."""
    if found is None:
        return ResourceRow(resource=row.resource, object=row.object, state=RowState.GONE)
    return ResourceRow(
        resource=row.resource, object=row.object, state=RowState.OBSOLETE, note=describe_deletion(found[1])
    )


def describe_deletion(child: Object) -> str:
    """Describe the deletion of an obsolete object."""
    if "deletionTimestamp" not in child["metadata"]:
        return "is to go"
    finalizers = child["metadata"].get("finalizers")
    return f"is being deleted, held by {', '.join(finalizers)}" if finalizers else "is being deleted"


def name_object(kind: Kind, child: Object) -> str:
    """Return the name as kubectl prints it: `deployment/web`."""
    metadata = child["metadata"]
    reference = ObjectRef(
        group=kind.group, kind=kind.name, namespace=metadata.get("namespace", ""), name=metadata["name"]
    )
    return str(reference)


def enumerate_names(named: Sequence[str]) -> str:
    """List the names: `a, b and 3 more`."""
    if len(named) <= NAMED_AT_MOST:
        return ", ".join(named)
    return f"{', '.join(named[:NAMED_AT_MOST])} and {len(named) - NAMED_AT_MOST} more"
