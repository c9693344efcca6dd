"""`ResourceStatus`, the plan of one resource: state, next step, conditions and changes of the in-memory state."""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from hearth.model import value_class
from hearth.model.child import Child, FieldOwnership, Object
from hearth.model.kinds import ObjectRef
from hearth.model.phases import ConditionType
from hearth.plan.health.health_result import NestedStop
from hearth.plan.ownership.field_ownership import DriftFinding, LostField
from hearth.plan.retry.backoff import Attempt
from hearth.plan.state.steps import Step


class ResourceState(enum.Enum):
    """State of a resource. Closed: every resource of a Stack has exactly one."""

    WAITING = "waiting"
    """A required resource, a value or the kind is not available yet."""
    PROGRESSING = "progressing"
    """Due to be applied, being applied, or applied and not ready yet."""
    RETRYING = "retrying"
    """Rejected, and retried before it counts as failed."""
    STOPPED = "stopped"
    """Waits at a breakpoint: before an action, or finished but not yet available to dependents."""
    READY = "ready"
    FAILED = "failed"
    """The retry limit is reached, the child failed, or no retry can help. Retries continue anyway."""

    # `enum.Enum` implements `__hash__` in Python, and each reconcile hashes states to count resources.
    __hash__ = object.__hash__


class Cause(enum.Enum):
    """Cause of a status, for the decisions that depend on it. A closed set; reasons and messages are for users only."""

    OTHER = "other"
    ORDER = "order"
    """A required resource comes first, or a dependent while suspending."""
    KIND_NOT_AVAILABLE = "kind not available"
    """The kind is not served, or not watched yet."""
    EVALUATING = "evaluating"
    """Its expressions, or its health, are being evaluated outside the reconcile."""
    NOT_OBSERVED = "not observed"
    """The child has no status although its kind declares one."""
    VALUE_MISSING = "value missing"
    """A value is missing although the required resources are ready."""
    EXTERNAL = "external"
    """An object that the Stack only reads is missing or not ready."""
    APPLYING = "applying"
    """The resource only needs an apply, and nothing prevents it."""
    MARKED_UNHEALTHY = "marked unhealthy"
    INTERNAL_ERROR = "internal error"
    """The planning ended in an unexpected exception."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceStatus:
    """Status of one resource at the end of a reconcile."""

    state: ResourceState
    reason: str
    """One CamelCase word."""
    message: str
    cause: Cause = Cause.OTHER
    planned_ref: ObjectRef | None = None
    """The reference of its planned object, if it differs from `child`."""
    child: Child | None = None
    """The object that represents the resource now."""
    step: Step | None = None
    """The next step."""
    is_terminal: bool = False
    """Whether the child has failed so that only another object can help."""
    requeue_at: float | None = None
    """Monotonic seconds when the resource must be planned again even without an event."""
    conditions: tuple[ResourceCondition, ...] = ()
    """Further conditions for the Stack, each of a different type."""
    stopped_at: str = ""
    """The hook that stops the resource, or "" for none."""
    nested_stops: tuple[NestedStop, ...] = ()
    """The stopped resources of a nested Stack, if the resource waits only for them."""
    nested_sources: Mapping[ObjectRef, str] = field(default_factory=dict)
    """The versions of the sources of a nested Stack or instance that this status describes."""

    is_held: bool = False
    """Whether `spec.paused` prevents a repair of the object, or of one that it was made from. Dependents keep their
    values.
    """
    restore_step: Step | None = None
    """The separate step that restores the child in the meantime, so that it runs as before."""
    is_stuck: bool = False
    """Whether the definition cannot be applied soon, and the existing object keeps running unchanged."""
    finished_fields: Mapping[str, Any] | None = None
    """The known fields of a deleted object that had finished; None otherwise."""
    memory_updates: tuple[MemoryUpdate, ...] = ()
    """Facts that the caller must remember after planning. The `StackPlanner` passes them on and does not keep them."""

    @property
    def ref(self) -> ObjectRef | None:
        """Return the reference of the existing or planned object, or None if it is unknown."""
        return self.planned_ref or (self.child.ref if self.child is not None else None)

    @property
    def is_ready(self) -> bool:
        """Return whether dependents may proceed."""
        return self.state is ResourceState.READY

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Return the state that dependents depend on. While it is unchanged, they are not planned again."""
        state = (self.is_ready, self.is_held, self.is_stuck)
        if self.child is not None:
            return (*state, self.child.uid, self.child.resource_version)
        return (*state, self.planned_ref, 0) if self.finished_fields is not None else (*state, "", 0)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ManagerQuery:
    """Query for the field managers that own these fields of an object."""

    child: Child
    lost: tuple[LostField, ...]
    manifest: Object
    """The manifest that the fields' paths refer to."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCondition:
    """Condition of one resource."""

    type: ConditionType
    reason: str
    """One CamelCase word."""
    message: str
    """Bounded text that begins with the name of the resource."""
    query: ManagerQuery | None = field(default=None, repr=False, compare=False)
    """The query whose answer the message still needs, or None."""


# Changes of the in-memory state that planning finds necessary. Planning only reads that state; the caller applies them
# afterwards (`InMemoryState.apply_updates`).


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
    """An object has no status although its kind declares one."""

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
