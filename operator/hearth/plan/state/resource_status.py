"""Where one resource stands, and the words for it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.plan.health.health_result import NestedStop
from hearth.plan.state.resource_conditions import ResourceCondition
from hearth.plan.state.steps import Step


class ResourceState(enum.Enum):
    """Closed: every resource of a Stack is in exactly one of these."""

    WAITING = "waiting"
    """Something that it requires, a value or its kind is not there yet."""
    PROGRESSING = "progressing"
    """To be applied, being applied, or applied and not ready yet."""
    RETRYING = "retrying"
    """Refused, and tried again before anybody calls it failed."""
    STOPPED = "stopped"
    """It waits at a breakpoint: before what is to happen to it, or done already but not to be used yet."""
    READY = "ready"
    FAILED = "failed"
    """Its limit is used up, its child failed, or no retry can mend it; trying goes on all the same."""

    # Enum's own is written in Python, and books by state are kept of everything that every pass looks at.
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceStatus:
    """One resource at the end of a pass."""

    state: ResourceState
    reason: str
    """One CamelCase word."""
    message: str
    planned_ref: ObjectRef | None = None
    """Where its object is to be, if that is somewhere else than `child`."""
    child: Child | None = None
    """The object that stands for it now."""
    step: Step | None = None
    """What is to be done next."""
    is_terminal: bool = False
    """Whether the child has failed so that only another object can help."""
    requeue_at: float | None = None
    """Monotonic seconds at which to look again though nothing happened."""
    conditions: tuple[ResourceCondition, ...] = ()
    """What the Stack's conditions are to say of it besides, each of another type."""
    stopped_at: str = ""
    """The hook at which it stops, "" for none."""
    nested_stops: tuple[NestedStop, ...] = ()
    """Who waits within it, where it stops for that alone."""

    restore_step: Step | None = None
    """What is to be done to the child meanwhile, by itself, so that it runs on as it was."""
    is_stuck: bool = False
    """Whether it will not get its definition soon, and what it has runs on as it was."""

    @property
    def ref(self) -> ObjectRef | None:
        """Where its object is or is to be, None where that is not known yet."""
        return self.planned_ref or (self.child.ref if self.child is not None else None)

    @property
    def is_ready(self) -> bool:
        """Whether what requires it may go on."""
        return self.state is ResourceState.READY

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What dependents see of it: while this stays the same they need not look again."""
        version = self.child.resource_version if self.child is not None else 0
        return (self.is_ready, self.is_stuck, self.child.uid if self.child is not None else "", version)
