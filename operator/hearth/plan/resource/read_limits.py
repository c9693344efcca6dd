"""Statuses of resources whose objects the account of the Stack may not get: they show and use nothing of them.

The operator watches all children with its own rights, so the API server's answer about the account decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from hearth.model.child import Child
from hearth.plan.state import read_access
from hearth.plan.state.read_access import Access, Reader
from hearth.plan.state.resource_context import ResourceContext
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.template.blueprint import ResourceBlueprint

EVALUATING = "Evaluating"
ASKING = "waits until the API server answers whether the ServiceAccount of the Stack may get the object"


def find_unreadable(
    resource: ResourceBlueprint,
    objects: Mapping[str, Sequence[Child]],
    reader: Reader,
    *,
    child: Child | None,
) -> ResourceStatus | None:
    """Return the status of a resource that reads an object of another which the account may not get; else None.

    objects: of the required resources, by the names under which expressions read them; child: the resource's own object.
    """
    for name in find_read_names(resource):
        for each in objects.get(name, ()):
            match reader.find(each):
                case Access.DENIED:
                    return _deny(f"reads resource {name}, but {reader.explain(each)}", child)
                case Access.UNKNOWN:
                    return _await_answer(ResourceState.WAITING, child)
                case Access.GRANTED:
                    pass
    return None


def _deny(message: str, child: Child | None) -> ResourceStatus:
    return ResourceStatus(state=ResourceState.FAILED, reason=read_access.FORBIDDEN, message=message, child=child)


def _await_answer(state: ResourceState, child: Child | None) -> ResourceStatus:
    return ResourceStatus(state=state, reason=EVALUATING, message=ASKING, cause=Cause.EVALUATING, child=child)


def find_read_names(resource: ResourceBlueprint) -> dict[str, None]:
    """Return the names that expressions of the resource read, possibly its own, in a stable order."""
    parts = (resource.manifest, *resource.ready_when, *resource.failed_when)
    return {name: None for part in parts for name in part.reads}


def withhold_rules(context: ResourceContext, child: Child) -> ResourceStatus | None:
    """Return the status of an object whose resource's own rules read it although the account may not; else None."""
    resource, reader = context.resource, context.reader
    if not any(resource.own_name in rule.reads for rule in (*resource.ready_when, *resource.failed_when)):
        return None
    match reader.find(child):
        case Access.DENIED:
            return _deny(f"its readyWhen and failedWhen rules read it, but {reader.explain(child)}", child)
        case Access.UNKNOWN:
            return _await_answer(ResourceState.PROGRESSING, child)
        case Access.GRANTED:
            return None


def withhold_words(context: ResourceContext, child: Child, status: ResourceStatus) -> ResourceStatus:
    """Return the status of an object that is not ready, without the object's own words if the account may not get it."""
    match context.reader.find(child):
        case Access.DENIED:
            message = f"is not ready, and what it reports is not shown: {context.reader.explain(child)}"
            return dataclasses.replace(status, reason=read_access.FORBIDDEN, message=message)
        case Access.UNKNOWN:
            cause = Cause.EVALUATING if status.cause in (Cause.OTHER, Cause.NOT_OBSERVED) else status.cause
            return dataclasses.replace(status, reason=EVALUATING, message=ASKING, cause=cause)
        case Access.GRANTED:
            return status


def describe_mark(reader: Reader, child: Child) -> str:
    """Return that the object is marked, with the reason that others wrote on it if the account may get it."""
    if reader.find(child) is Access.GRANTED:
        return f"is marked unhealthy: {child.unhealthy_reason}"
    return "is marked unhealthy"


def await_access(status: ResourceStatus, reader: Reader) -> ResourceStatus:
    """Return the status of a ready resource that expressions read: it is not ready before the access is known."""
    if status.child is None or reader.find(status.child) is not Access.UNKNOWN:
        return status
    return dataclasses.replace(
        status, state=ResourceState.PROGRESSING, reason=EVALUATING, message=ASKING, cause=Cause.EVALUATING
    )
