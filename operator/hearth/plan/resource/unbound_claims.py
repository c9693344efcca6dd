"""Claims without a volume that their users need not wait for: a class may bind a claim only for the Pods that mount it.

The claim and its user may be in different Stacks. A nested Stack in which everything waits for such claims reports
`CLAIMS_UNBOUND` and shows their names in its outputs. A claim reaches a nested Stack or an instance as text in its spec.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Protocol

from hearth.model import object_fields, workloads
from hearth.model.child import Child, Object
from hearth.model.kinds import make_key
from hearth.model.well_known_kinds import VOLUME_CLAIM
from hearth.plan.state import requirements, source_versions
from hearth.plan.state.requirements import Required
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.template.blueprint import Blueprint, ResourceBlueprint

CLAIMS_UNBOUND: Final = "ClaimsUnbound"
"""The reason of a Stack in which all resources are ready, or wait for claims that have no volume."""

NamesByState = Mapping[ResourceState, Collection[str]]
UnboundClaims = Mapping[str, frozenset[str]]
"""By resource: the names of its claims, among other texts for a nested Stack."""


class PlannedStack(Protocol):
    """The planned resources of one Stack."""

    @property
    def blueprint(self) -> Blueprint:
        """Return the blueprint."""

    @property
    def by_state(self) -> NamesByState:
        """Return the names of the resources by state."""

    @property
    def statuses(self) -> Mapping[str, ResourceStatus]:
        """Return the statuses by resource."""


def find_unbound(
    resource: ResourceBlueprint,
    required: Required,
    unready: Collection[str],
    children: tuple[Child, ...],
    blueprint: Blueprint,
    *,
    is_nested: bool,
) -> UnboundClaims:
    """Return the claims that a workload, nested Stack or instance need not wait for: they may be bound only for its Pods.

    is_nested: whether the resource is a nested Stack or an instance.


    The scheduler lets Pods wait for a claim of any class. An object that switches to another claim is not changed
    before the new claim is bound.
    """
    kind = make_key(resource.api_version.rpartition("/")[0], resource.kind)
    if kind not in workloads.POD_KINDS and not is_nested:
        return {}
    current, found = requirements.find_current(children), {}
    for name in unready:
        status = required.get(name)
        child = status.child if isinstance(status, ResourceStatus) else None
        if child is None or not isinstance(status, ResourceStatus) or name in resource.after:
            continue
        is_user = current is None or f"{name}/{child.incarnation}" in current.requires
        if is_user and is_unbound(child, status, blueprint.resources[name]):
            found[name] = find_names(child)
    return found


def is_unbound(child: Child, status: ResourceStatus, resource: ResourceBlueprint) -> bool:
    """Return whether the object of a resource lacks only volumes: a claim, or a nested Stack or instance with claims."""
    is_waiting = (
        status.state is ResourceState.PROGRESSING and status.step is None and status.cause is not Cause.APPLYING
    )
    if not is_waiting or child.deleting or resource.ready_when:
        return False
    phase = object_fields.find(child.fields, "status", "phase")
    is_claim = child.kind.key == VOLUME_CLAIM.key and phase in (None, "", "Pending")
    is_stack = resource.is_stack or source_versions.is_instance(child.fields)
    return is_claim or (is_stack and status.reason == CLAIMS_UNBOUND)


def find_names(child: Child) -> frozenset[str]:
    """Return the names of the claims that an object is, or shows in its status."""
    if child.kind.key == VOLUME_CLAIM.key:
        return frozenset({child.name})
    return frozenset(list_texts(child.fields.get("status")))


def find_mounted(claims: UnboundClaims, manifest: Object, *, is_nested: bool) -> set[str]:
    """Return the resources of the claims that a workload mounts, or that a nested Stack or instance gets the names of."""
    mounted = set(list_texts(manifest) if is_nested else workloads.find_claims(manifest))
    return {name for name, texts in claims.items() if not mounted.isdisjoint(texts)}


def list_texts(value: Any) -> Iterator[str]:
    """Yield all texts in a value."""
    values = [value]
    while values:
        match values.pop():
            case str() as text:
                yield text
            case Mapping() as mapping:
                values += mapping.values()
            case list() as entries:
                values += entries


def awaits_only_claims(planner: PlannedStack) -> bool:
    """Return whether all resources of a Stack are ready, are unbound claims, or wait for them."""
    states, statuses = planner.by_state, planner.statuses
    progressing = states[ResourceState.PROGRESSING]
    count = len(progressing) + len(states[ResourceState.WAITING]) + len(states[ResourceState.READY])
    return (
        bool(progressing)
        and count == len(planner.blueprint.resources)
        and all(
            (child := statuses[name].child) is not None
            and is_unbound(child, statuses[name], planner.blueprint.resources[name])
            for name in progressing
        )
    )
