"""Plans a suspended Stack: suspends its objects, dependents first.

The order comes from the records on the objects, not from the definition, so a Stack with an invalid or incomplete
definition can be suspended as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from hearth.graph import order
from hearth.model import chunked_work, members, value_class
from hearth.model.child import Child
from hearth.model.phases import ConditionType
from hearth.plan.health import suspend_rules
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership.field_ownership import LostField
from hearth.plan.resource import drift, readiness, suspend_object
from hearth.plan.resource.suspend_object import SuspendRecords
from hearth.plan.stack import cleanup
from hearth.plan.state import internal_errors, read_access, requirements, steps
from hearth.plan.state.internal_errors import OnError, Retry
from hearth.plan.state.memory import InMemoryState, Observation, ObservedChildren
from hearth.plan.state.read_access import Reader
from hearth.plan.state.resource_status import Cause, ManagerQuery, ResourceCondition, ResourceState, ResourceStatus
from hearth.plan.state.steps import Suspend

# Order of suspension: a resource is scaled down after all its direct and indirect dependents. Like a deletion, it uses
# the dependencies that are recorded on the objects. It is incremental: the cost of a change depends only on its
# dependencies.


@dataclass(slots=True)
class SuspendOrder:
    """Resources that still run, and the ones among them that may be suspended now."""

    running: dict[str, None] = field(default_factory=dict)
    """The resources that still run."""
    changed: set[str] = field(default_factory=set)
    """Resources that became suspendable, or no longer are suspendable, since the planner last emptied this set."""
    _requires: dict[str, AbstractSet[str]] = field(default_factory=dict)
    """By resource: the resources that its objects were made from. A collection as a whole, which is one name here,
    requires all its members."""
    _above: dict[str, int] = field(default_factory=dict)
    """By resource: the number of direct dependents that still run, or that have a direct or indirect dependent that
    runs."""
    _free: set[str] = field(default_factory=set)
    """The resources in `running` that no dependent blocks."""
    _heads: set[str] | None = None
    """See `_find_heads`, or None if unknown."""

    def update(self, name: str, requires: frozenset[str], *, is_running: bool) -> None:
        """Update dependencies and running state of a resource."""
        requires = requires - {name}
        if members.is_member(name):
            self._join(name, members.name_all(members.root_of(name)))
        known = self._requires.get(name, frozenset())
        if known == requires and is_running == (name in self.running):
            return
        self._forget_heads()
        # Remove its weight on others first: in a dependency cycle, that weight returns to itself.
        was_down = self._is_down(name)
        self._requires[name] = frozenset()
        if not was_down:
            self._weigh(known, -1)
        if is_running:
            self.running[name] = None
        else:
            self.running.pop(name, None)
        self._update_free(name)
        self._requires[name] = requires
        if not self._is_down(name):
            self._weigh(requires, 1)

    def _join(self, name: str, collection: str) -> None:
        """Make a collection as a whole require its member, so that its dependents also depend on the member."""
        joined = self._requires.setdefault(collection, set())
        if isinstance(joined, set) and name not in joined:
            self._forget_heads()
            joined.add(name)
            if not self._is_down(collection):
                self._weigh((name,), 1)

    def may_suspend(self, name: str) -> bool:
        """Whether the resource may be suspended now.

        Objects in a dependency cycle (records of revisions that reversed a dependency) would block each other forever.
        If only these objects and their requirements are left, each cycle that nothing else requires may be suspended.
        """
        return name in (self._free or self._find_heads())

    def _find_heads(self) -> set[str]:
        """Return the running resources that only running resources of their own cycle require, even indirectly."""
        if self._heads is None:
            requires = {name: tuple(required) for name, required in self._requires.items()}
            knots = {name: knot for knot in chunked_work.finish(order.find_knots(requires)) for name in knot}
            blocked: set[str] = set()
            for name in self.running:
                knot = knots.get(name, {name: None})
                below = {required for each in knot for required in requires.get(each, ()) if required not in knot}
                while below:
                    blocked |= below
                    below = {required for each in below for required in requires.get(each, ())} - blocked
            self._heads = {name for name in self.running if name not in blocked}
        return self._heads

    def _forget_heads(self) -> None:
        """Find the resources in cycles again, because others may be suspended now."""
        if self._heads is not None:
            self.changed.update(self.running)
            self._heads = None

    def take_changed(self) -> set[str]:
        """Return the resources to refresh, and clear the set."""
        changed, self.changed = self.changed, set()
        return changed

    def _is_down(self, name: str) -> bool:
        return name not in self.running and not self._above.get(name)

    def _weigh(self, names: Iterable[str], weight: int) -> None:
        """Count a dependent of `names` that went down (-1) or came up (1), and propagate that to their requirements."""
        queue = [(name, weight) for name in names]
        while queue:
            name, by = queue.pop()
            was_down = self._is_down(name)
            self._above[name] = self._above.get(name, 0) + by
            self._update_free(name)
            if was_down != self._is_down(name):
                queue += [(below, 1 if was_down else -1) for below in self._requires.get(name, ())]

    def _update_free(self, name: str) -> None:
        """Add a resource to `_free`, or remove it."""
        is_free = name in self.running and not self._above.get(name)
        if is_free == (name in self._free):
            return
        self.changed.add(name)
        if is_free:
            self._free.add(name)
            if len(self._free) == 1:
                self.changed.update(self.running)
        else:
            self._free.discard(name)
            if not self._free:
                self.changed.update(self.running)


REASON = "Suspended"
WORST_FIRST = (
    ResourceState.FAILED, ResourceState.RETRYING, ResourceState.PROGRESSING, ResourceState.WAITING, ResourceState.READY,
)  # fmt: skip
ABSENT = ResourceStatus(
    state=ResourceState.READY, reason=REASON, message="has no object; it is created when the Stack is resumed"
)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedResource:
    """Plan for one resource of a suspended Stack."""

    name: str
    children: tuple[Child, ...]
    status: ResourceStatus
    plans: dict[str, tuple[Suspend | None, float | None]]
    """The step to execute now, or the time of the next refresh, by UID of its objects."""


@dataclass(slots=True)
class SuspendPlanner:
    """Planner of one suspended Stack."""

    rules: HealthRules
    records: SuspendRecords
    reader: Reader
    """Decides which parts of objects the status may show."""
    on_error: OnError = internal_errors.ignore_nothing
    """Receives an unexpected exception and its resource."""
    suspend_order: SuspendOrder = field(default_factory=SuspendOrder)
    _resources: dict[str, str] = field(default_factory=dict)
    """The resource of an object, by UID."""
    _errors: dict[str, Retry] = field(default_factory=dict)
    """Consecutive internal errors, by resource."""

    @property
    def is_complete(self) -> bool:
        """Return whether nothing runs any longer."""
        return not self.suspend_order.running

    def refresh(self, dirty: Iterable[str], observation: Observation) -> Iterator[SuspendedResource]:
        """Plan the resources in `dirty` again, and everything that depends on them.

        dirty: resource names (also from labels) and keys of steps.
        """
        names = {self._resources.get(key, key) for key in dirty}
        for name in names:
            found = find_children(observation.children, name)
            self._resources.update((child.uid, name) for child in found)
            self.suspend_order.update(name, find_required(found), is_running=self._are_running(name, found))
        for name in names | self.suspend_order.take_changed():
            found = find_children(observation.children, name)
            try:
                view = self._view(name, found, observation)
            except Exception as error:  # noqa: BLE001 -- the other resources continue; `on_error` reports it
                self.on_error(name, error)
                view = self._fail(name, found, now=observation.now)
            else:
                if self._errors.pop(name, None) is not None:
                    view.plans[name] = (None, None)
            yield view

    def _are_running(self, name: str, found: tuple[Child, ...]) -> bool:
        """Return whether any object of a resource may still run; True after an internal error."""
        try:
            return any(self.is_running(child) for child in found)
        except Exception as error:  # noqa: BLE001 -- as above
            self.on_error(name, error)
            return True

    def _fail(self, name: str, found: tuple[Child, ...], *, now: float) -> SuspendedResource:
        """Make the plan for a resource after an internal error."""
        # It may still run.
        self.suspend_order.update(name, find_required(found), is_running=True)
        retry = self._errors[name] = internal_errors.after_failure(self._errors.get(name), now=now)
        child, message = requirements.find_current(found), internal_errors.explain("suspend it")
        status = ResourceStatus(state=ResourceState.FAILED, reason=internal_errors.REASON, message=message, child=child)
        return SuspendedResource(name=name, children=found, status=status, plans={name: (None, retry.due)})

    def is_running(self, child: Child) -> bool:
        """Return whether any workload of the object may still run."""
        rule = self.rules.find_suspension(child.kind)
        if rule is None or rule.is_exempt(child):
            return False
        return child.deleting or not (rule.is_set(child) and rule.is_done(child))

    def _view(self, name: str, children: tuple[Child, ...], observation: Observation) -> SuspendedResource:
        current = requirements.find_current(children)
        plans: dict[str, tuple[Suspend | None, float | None]] = {child.uid: (None, None) for child in children}
        statuses = [
            add_conditions(self._assess(child, plans, observation), self.records.describe(child)) for child in children
        ]
        worst = min(statuses, key=lambda each: WORST_FIRST.index(each.state), default=ABSENT)
        status = dataclasses.replace(worst, child=current) if current is not None else worst
        if current is not None and current.unhealthy_reason is not None:
            status = add_conditions(status, (self._describe_mark(name, current),))
        return SuspendedResource(name=name, children=children, status=status, plans=plans)

    def _describe_mark(self, name: str, child: Child) -> ResourceCondition:
        """Return that the object is marked unhealthy, which has no effect before the Stack is resumed."""
        mark = read_access.describe_mark(self.reader, child)
        message = f"{name} ({child.ref}) {mark}; it is not replaced while spec.suspended is true"
        return ResourceCondition(type=ConditionType.UNHEALTHY, reason=REASON, message=message)

    def _assess(
        self, child: Child, plans: dict[str, tuple[Suspend | None, float | None]], observation: Observation
    ) -> ResourceStatus:
        """Assess one object, and add its step to `plans`."""
        rule = self.rules.find_suspension(child.kind)
        if not self.is_running(child) or rule is None:
            message = "runs nothing" if rule is not None else "is not changed"
            return readiness.make_status(child, ResourceState.READY, REASON, message)
        if child.deleting:
            return readiness.make_status(child, ResourceState.PROGRESSING, "Terminating", "is being deleted")
        if rule.is_set(child):
            return readiness.make_status(
                child, ResourceState.PROGRESSING, "Suspending", "is suspended; its last runs are finishing"
            )
        if not self.suspend_order.may_suspend(child.resource):
            status = readiness.make_status(
                child, ResourceState.WAITING, "Waiting", "is suspended after all that require it"
            )
            return dataclasses.replace(status, cause=Cause.ORDER)
        step = suspend_object.suspend(child, rule, self.records)
        status = readiness.make_status(child, ResourceState.PROGRESSING, "Suspending", "is being suspended")
        if child.uid in observation.memory.in_flight:
            return status
        due, status = find_due(step, status, observation.memory, now=observation.now)
        plans[child.uid] = (step, None) if due <= observation.now else (None, due)
        return status


def add_conditions(status: ResourceStatus, conditions: tuple[ResourceCondition, ...]) -> ResourceStatus:
    """Add conditions to a status."""
    return dataclasses.replace(status, conditions=status.conditions + conditions) if conditions else status


def find_children(children: ObservedChildren, name: str) -> tuple[Child, ...]:
    """Find the current and the former objects of a resource."""
    return tuple(child for child in children.of(name) if child.is_identified)


def find_required(found: tuple[Child, ...]) -> frozenset[str]:
    """Find the resources that the objects were made from."""
    return frozenset(cleanup.resource_of(required) for child in found for required in child.requires)


def find_due(
    step: Suspend, status: ResourceStatus, memory: InMemoryState, *, now: float
) -> tuple[float, ResourceStatus]:
    """Find the earliest time of the step, and the status until then.

    A failed attempt or a conflict with another field manager delays the step.
    """
    attempt = memory.attempts.get(step.child.uid)
    if attempt is not None and attempt.attempt_id == steps.attempt_id(step):
        state = ResourceState.FAILED if attempt.is_exhausted else ResourceState.RETRYING
        refused = dataclasses.replace(status, state=state, reason=attempt.reason, message=attempt.message)
        return attempt.retry_at, refused
    conflict = memory.find_conflict(step.child.resource, now=now)
    if conflict is None or not step.repaired_paths:
        return now, status
    if not conflict.is_conflict:
        return conflict.next_repair, status
    lost = tuple(LostField(path=path, text=suspend_rules.write_path(path)) for path in step.repaired_paths)
    holder = drift.find_manager(step.child, memory)
    query = drift.find_open_query(ManagerQuery(child=step.child, lost=lost, manifest=step.manifest), memory)
    message = (
        f"{step.child.resource} ({step.child.ref}): {suspend_rules.write_paths(step.repaired_paths)}, {holder}, changed "
        f"repeatedly while the Stack is suspended; repairs are delayed: stop that writer"
    )
    condition = ResourceCondition(
        type=ConditionType.DRIFT_CONFLICT, reason="FieldOwnershipLostAgain", message=message, query=query
    )
    return conflict.next_repair, dataclasses.replace(status, conditions=(condition,))
