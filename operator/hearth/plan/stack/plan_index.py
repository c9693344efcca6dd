"""Indexes the statuses, conditions and steps of one Stack, so that a status reads only the entries that it shows."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hearth.model import value_class
from hearth.model.child import Child
from hearth.model.phases import ConditionType
from hearth.plan.state.condition_types import ExtraCondition
from hearth.plan.state.resource_status import (
    ManagerUnknown,
    MemoryUpdate,
    ResourceCondition,
    ResourceState,
    ResourceStatus,
)
from hearth.plan.state.rolling_updates import BatchEnd
from hearth.plan.state.run_policy import RunPolicy
from hearth.plan.state.steps import Step

NAMED_AT_MOST = 5
"""Number of resources that one condition names. The others are counted."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class FailedResource:
    """A resource whose object has failed permanently."""

    name: str
    status: ResourceStatus
    child: Child
    run: RunPolicy | None
    """The policy of work that runs to completion; None for other resources."""


@dataclass(slots=True)
class PlanResult:
    """Result of one plan, apart from the statuses and steps that the planner keeps."""

    dirty: Collection[str] = ()
    """The names and keys that were planned again, without their dependents."""
    planned: list[str] = field(default_factory=list)
    """The keys of the newly planned steps."""
    memory_updates: list[MemoryUpdate] = field(default_factory=list)
    """The changes of the in-memory state, in order."""
    failures: Sequence[FailedResource] = ()
    """The resources with a permanent failure that is not counted yet."""
    unconfirmed: Sequence[str] = ()
    """The collections that only wait for one answer: whether the kinds that they are made from still exist."""
    parting: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The deletions to record before they start, by resource, with its requirements."""
    batch_ends: Sequence[BatchEnd] = ()
    """The ends of the last batches of rolling updates."""
    surge: int = 0
    """How many members a group needs beyond its size."""
    offered: Sequence[Child] = ()
    """The obsolete objects that a Stack of another process may want."""
    is_complete: bool = False
    """Whether nothing is left to do, see `StackPlanner.is_complete`."""
    is_stopped: bool = False
    """Whether a resource waits for a person, and no step can proceed, see `breakpoint_waits.is_stopped`."""


class NamesByState(dict[ResourceState, dict[str, None]]):
    """The names of the resources in each state. A state without resources takes no memory."""

    __slots__ = ()

    def __missing__(self, _state: ResourceState) -> dict[str, None]:
        """Return no names. The caller must not add one."""
        return {}

    def move(self, name: str, *, before: ResourceState | None, after: ResourceState | None) -> None:
        """Move a name from one state to another; None for neither."""
        if before is not None:
            names = self[before]
            del names[name]
            if not names:
                del self[before]
        if after is not None:
            self.setdefault(after, {})[name] = None


@dataclass(slots=True)
class ConditionAggregator:
    """Resource conditions by type."""

    by_type: dict[ConditionType, dict[str, ResourceCondition]] = field(default_factory=dict)

    def replace(self, name: str, old: Iterable[ResourceCondition], new: Iterable[ResourceCondition]) -> None:
        """Replace the conditions `old` of a resource with `new`."""
        kept = {condition.type: condition for condition in new}
        for condition in old:
            if condition.type not in kept and name in self.by_type.get(condition.type, {}):
                del self.by_type[condition.type][name]
        for condition in kept.values():
            self.by_type.setdefault(condition.type, {})[name] = condition

    def first(self, type_: ConditionType) -> Mapping[str, ResourceCondition]:
        """Return, by resource, the conditions that the Stack's condition names.

        They are sorted by name, so that a restart does not change them.
        """
        found = self.by_type.get(type_, {})
        return {name: found[name] for name in heapq.nsmallest(NAMED_AT_MOST, found)}

    def conditions(self) -> Iterator[ExtraCondition]:
        """Return the Stack's conditions that are true because of resource conditions."""
        for type_, conditions in self.by_type.items():
            if conditions:
                named = list(self.first(type_).values())
                more = f"; and {len(conditions) - len(named)} more" if len(conditions) > len(named) else ""
                message = "; ".join(condition.message for condition in named) + more
                yield ExtraCondition(type=type_, reason=named[0].reason, message=message)


@dataclass(slots=True)
class PlanIndex:
    """Statuses and steps of one Stack."""

    statuses: dict[str, ResourceStatus] = field(default_factory=dict)
    """By resource."""
    by_state: NamesByState = field(default_factory=NamesByState)
    ready_steps: dict[str, Step] = field(default_factory=dict)
    """The steps to execute now, by key."""
    requeues: dict[str, float] = field(default_factory=dict)
    """Monotonic seconds of the next refresh, by key."""
    conditions: ConditionAggregator = field(default_factory=ConditionAggregator)
    stopped: dict[str, str] = field(default_factory=dict)
    """The hook that stops a resource, by resource."""
    result: PlanResult = field(default_factory=PlanResult)
    """The result of the current plan so far."""
    newly_failed: dict[str, None] = field(default_factory=dict)
    """The resources with a permanent failure that was found by the current plan."""
    find_due: Callable[[str, Step], float] = lambda _key, _step: 0.0
    """Returns the monotonic time in seconds from which the step under a key may start."""
    now: float = 0.0
    """Monotonic seconds of the current refresh."""

    @property
    def has_stuck(self) -> bool:
        """Whether any resource has failed or is stopped, so that others keep their state."""
        return bool(self.by_state[ResourceState.FAILED] or self.by_state[ResourceState.STOPPED])

    def note(self, name: str, before: ResourceStatus | None, status: ResourceStatus) -> None:
        """Replace the status `before` of a resource."""
        if before is None or before.state is not status.state:
            self.by_state.move(name, before=before.state if before is not None else None, after=status.state)
        if status.stopped_at:
            self.stopped[name] = status.stopped_at
        else:
            self.stopped.pop(name, None)
        self.statuses[name] = status
        if status.conditions or (before is not None and before.conditions):
            self.conditions.replace(name, before.conditions if before is not None else (), status.conditions)
            self.result.memory_updates.extend(
                ManagerUnknown(resource=name, query=condition.query)
                for condition in status.conditions
                if condition.query is not None
            )

    def forget(self, name: str) -> None:
        """Forget the status of a resource without steps, stops and conditions, if it has one."""
        if (known := self.statuses.pop(name, None)) is not None:
            self.by_state.move(name, before=known.state, after=None)

    def plan(self, key: str, *, step: Step | None, wake_at: float | None) -> None:
        """Replace the step under a key, and the time of the next refresh of that key.

        Every step is offered only here, and only when its delay is over.
        """
        if step is not None and (due := self.find_due(key, step)) > self.now:
            step, wake_at = None, due if wake_at is None else min(due, wake_at)
        if step is not None:
            self.ready_steps[key] = step
            self.result.planned.append(key)
        else:
            self.ready_steps.pop(key, None)
        if wake_at is not None:
            self.requeues[key] = wake_at
        else:
            self.requeues.pop(key, None)

    def forget_steps(self) -> None:
        """Forget all steps and refresh times."""
        self.ready_steps.clear()
        self.requeues.clear()
