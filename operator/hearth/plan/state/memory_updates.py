"""Changes of the in-memory state that planning finds necessary, as data.

Planning only reads the state. The caller applies the changes afterwards (`InMemoryState.apply`).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import field
from typing import TypeAlias

from hearth.model import value_class
from hearth.model.child import FieldOwnership
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership.field_ownership import DriftFinding
from hearth.plan.retry.backoff import Attempt
from hearth.plan.state.resource_conditions import ManagerQuery


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipSeen:
    """An object has lost only tolerated fields, as long as its baseline is unchanged."""

    uid: str
    baseline: tuple[str, FieldOwnership | None]
    """The definition's hash and the operator's ownership."""
    finding: DriftFinding = field(repr=False)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ManagerUnknown:
    """A condition of the resource needs the answer to a query to name a field manager."""

    resource: str
    query: ManagerQuery


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReady:
    """The object of a resource is ready, which ends the resource's failures."""

    resource: str
    uid: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """Planning of a step failed."""

    key: str
    attempt: Attempt


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptObsolete:
    """The step under a key has happened, regardless of the response to it."""

    key: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SilenceNoticed:
    """An object says nothing of itself although its kind declares that it reports."""

    uid: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WorkFinished:
    """The object of a resource that runs once has succeeded."""

    resource: str
    ref: ObjectRef
    hash: str
    """Keyed hash of its definition."""
    wanted: Container[str] = field(repr=False)
    """The resources of the blueprint."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WorkForgotten:
    """Finished work must run again, because its object is marked unhealthy."""

    resource: str
    hash: str


MemoryUpdate: TypeAlias = (
    OwnershipSeen
    | ManagerUnknown
    | ResourceReady
    | AttemptFailed
    | AttemptObsolete
    | SilenceNoticed
    | WorkFinished
    | WorkForgotten
)
