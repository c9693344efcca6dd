"""Decides whether a Stack may read an object, by the rights of the Stack's account.

The operator reads objects with its own rights. Expressions and statuses use only objects that the account may get.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Protocol

from hearth.model import value_class
from hearth.model.child import Child
from hearth.model.kinds import Kind
from hearth.model.tenancy import Boundary
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.template.blueprint import ResourceBlueprint

FORBIDDEN = "Forbidden"
"""The reason of a resource if the account is not allowed to get its object, or an object that it reads."""


class Access(enum.Enum):
    """Whether an account may get an object. A closed set."""

    GRANTED = "granted"
    DENIED = "denied"
    UNKNOWN = "unknown"
    """The API server has been asked. Its answer enqueues the Stack."""


class ReadAccess(Protocol):
    """Answers of the API server about one Stack's account."""

    def expect(self, kind: Kind, namespace: str, boundary: Boundary) -> None:
        """Ask early about the objects of a kind that the Stack is about to have there. Cheap if the answer is known."""

    def find(self, child: Child, boundary: Boundary) -> Access:
        """Return whether the account of that boundary may get the object. Asks if that is unknown; cheap."""

    def find_at(self, kind: Kind, namespace: str, name: str, boundary: Boundary) -> Access:
        """Return the access to an object, existing or not, or to a list (name: "") in a namespace, "" for all."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The account that reads the Stack's objects."""

    boundary: Boundary
    access: ReadAccess | None = None
    """None: everything within the boundary may be read."""

    @property
    def _limit(self) -> ReadAccess | None:
        """The access of the Stack's account, or None if all that the boundary allows may be read."""
        return self.access if self.boundary.account else None

    @property
    def is_limited(self) -> bool:
        """Return whether the Stack has an account that is asked about, so that not everything may be readable."""
        return self._limit is not None

    def expect(self, kind: Kind, namespace: str) -> None:
        """Ask early about the objects of a kind that the Stack is about to have there. Cheap if the answer is known."""
        if (limit := self._limit) is not None:
            limit.expect(kind, namespace, self.boundary)

    def find(self, child: Child) -> Access:
        """Return whether the fields of the object may be shown and used. Asks if that is unknown; cheap."""
        limit = self._limit
        return limit.find(child, self.boundary) if limit is not None else Access.GRANTED

    def find_at(self, kind: Kind, namespace: str, name: str) -> Access:
        """Return whether an object, or a list (name: ""), may be read, whether it exists or not. Asks as `find` does."""
        limit = self._limit
        return limit.find_at(kind, namespace, name, self.boundary) if limit is not None else Access.GRANTED

    def explain(self, child: Child) -> str:
        """Return why no field of the object is shown or used, with the commands that change it."""
        return self.boundary.explain_read_denial(child.kind, child.ref)


# Statuses of resources whose objects the account cannot get, or whose access is not known yet. The operator watches all
# children with its own rights, so the API server decides what the account may read.

EVALUATING = "Evaluating"
ASKING = "waits until the API server answers whether the ServiceAccount of the Stack may get the object"


def find_unreadable(
    resource: ResourceBlueprint, objects: Mapping[str, Sequence[Child]], reader: Reader, *, child: Child | None
) -> ResourceStatus | None:
    """Return the status of a resource that reads an object which the account cannot get; otherwise None.

    objects: of the required resources, by the names under which expressions read them; child: the resource's own
    object.
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
    return ResourceStatus(state=ResourceState.FAILED, reason=FORBIDDEN, message=message, child=child)


def _await_answer(state: ResourceState, child: Child | None) -> ResourceStatus:
    return ResourceStatus(state=state, reason=EVALUATING, message=ASKING, cause=Cause.EVALUATING, child=child)


def find_read_names(resource: ResourceBlueprint) -> dict[str, None]:
    """Return the names that expressions of the resource read, possibly its own, in a stable order."""
    parts = (resource.manifest, *resource.ready_when, *resource.failed_when)
    return {name: None for part in parts for name in part.reads}


def withhold_rules(resource: ResourceBlueprint, child: Child, reader: Reader) -> ResourceStatus | None:
    """Return the status of an object that the resource's rules read without permission; otherwise None."""
    if not any(resource.own_name in rule.reads for rule in (*resource.ready_when, *resource.failed_when)):
        return None
    match reader.find(child):
        case Access.DENIED:
            return _deny(f"its readyWhen and failedWhen rules read it, but {reader.explain(child)}", child)
        case Access.UNKNOWN:
            return _await_answer(ResourceState.PROGRESSING, child)
        case Access.GRANTED:
            return None


def withhold_words(child: Child, status: ResourceStatus, reader: Reader) -> ResourceStatus:
    """Return the status of an object that is not ready, without its own message if the account cannot get it."""
    match reader.find(child):
        case Access.DENIED:
            message = f"is not ready, and its report is not shown: {reader.explain(child)}"
            return dataclasses.replace(status, reason=FORBIDDEN, message=message)
        case Access.UNKNOWN:
            cause = Cause.EVALUATING if status.cause in (Cause.OTHER, Cause.NOT_OBSERVED) else status.cause
            return dataclasses.replace(status, reason=EVALUATING, message=ASKING, cause=cause)
        case Access.GRANTED:
            return status


def describe_mark(reader: Reader, child: Child) -> str:
    """Describe the health mark of an object, including its reason only if the account may get the object."""
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
