"""Status of one resource."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from hearth.model import value_class
from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.plan.health.health_result import NestedStop
from hearth.plan.state.memory_updates import MemoryUpdate
from hearth.plan.state.resource_conditions import ResourceCondition
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
    """The retry limit is used up, the child failed, or no retry can help. Retries continue anyway."""

    # `enum.Enum` implements it in Python, and every reconcile hashes states to count resources.
    __hash__ = object.__hash__


class Cause(enum.Enum):
    """Cause of a status, as far as other decisions depend on it. A closed set; reasons and messages are for users only."""

    OTHER = "other"
    ORDER = "order"
    """A required resource, or while suspending a dependent, comes first."""
    KIND_NOT_AVAILABLE = "kind not available"
    """The kind is not served, or not watched yet."""
    EVALUATING = "evaluating"
    """Its expressions, or its health, are being evaluated outside the reconcile."""
    NOT_OBSERVED = "not observed"
    """The child says nothing of itself although its kind declares that it reports."""
    VALUE_MISSING = "value missing"
    """A value is missing although the required resources are ready."""
    EXTERNAL = "external"
    """An object that the Stack only reads is missing or not ready."""
    APPLYING = "applying"
    """Only an apply is missing, and nothing speaks against it."""
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
    """Monotonic seconds at which to plan the resource again even without an event."""
    conditions: tuple[ResourceCondition, ...] = ()
    """Further conditions for the Stack, each of a different type."""
    stopped_at: str = ""
    """The hook at which the resource stops, or "" for none."""
    nested_stops: tuple[NestedStop, ...] = ()
    """The stopped resources of a nested Stack, if the resource waits only for them."""

    is_held: bool = False
    """Whether `spec.paused` prevents a repair of the object, or of one that it was made from. Dependents keep what they
    have."""
    restore_step: Step | None = None
    """The separate step that restores the child meanwhile, so that it runs as before."""
    is_stuck: bool = False
    """Whether the definition cannot be applied soon, and the existing object keeps running unchanged."""
    finished_fields: Mapping[str, Any] | None = None
    """What is known of the object although it is gone, because it had finished; None otherwise."""
    memory_updates: tuple[MemoryUpdate, ...] = ()
    """What the caller must remember of the planning. The `StackPlanner` passes it on and does not keep it."""

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
        """Return what dependents depend on. While it is unchanged, they need no new planning."""
        state = (self.is_ready, self.is_held, self.is_stuck)
        if self.child is not None:
            return (*state, self.child.uid, self.child.resource_version)
        return (*state, self.planned_ref, 0) if self.finished_fields is not None else (*state, "", 0)
