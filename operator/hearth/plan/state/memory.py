"""Inputs of a plan other than the definition: the observed children, the in-memory state and the time."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, assert_never

from hearth.model import value_class
from hearth.model.child import Child, FieldOwnership
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership.field_ownership import DriftFinding, LostField
from hearth.plan.retry import backoff, retry_triggers
from hearth.plan.retry.backoff import Attempt, AttemptId, DriftConflict, FailedObject
from hearth.plan.retry.retry_triggers import RetryTrigger
from hearth.plan.retry.step_governor import StepGovernor, Work
from hearth.plan.state import steps
from hearth.plan.state.altered_values import Altered
from hearth.plan.state.finished_work import FinishedWork
from hearth.plan.state.healing import MarkBackoff
from hearth.plan.state.resource_status import (
    AttemptFailed,
    AttemptObsolete,
    ManagerQuery,
    ManagerUnknown,
    MemoryUpdate,
    OwnershipSeen,
    ResourceReady,
    SilenceNoticed,
    WorkFinished,
    WorkForgotten,
)
from hearth.plan.state.steps import Apply, Delete, Detach, PartStep, Release, Step

SLACK = 100
"""Deleted objects that may remain in memory."""


class ObservedChildren(Protocol):
    """Observed children of one Stack."""

    def of(self, resource: str) -> tuple[Child, ...]:
        """Return the children that carry this resource's label."""

    def resources(self) -> Iterable[str]:
        """Return the resource labels of all children."""


class RefusedChange(NamedTuple):
    """A change of an object that the API server rejects because of an immutable field."""

    hash: str
    """Keyed hash of the definition."""
    field: str
    """The field, or fields."""
    is_proven: bool = True
    """Whether it is proven that a new object of the definition would be accepted."""


@dataclass(slots=True)
class InMemoryState:
    """In-memory state of one Stack. Losing it costs at most one extra read or retry, never correctness.

    Planning only reads it, and returns the changes that it finds necessary (`apply_updates`).
    """

    attempts: dict[str, Attempt] = field(default_factory=dict)
    plan_uid: str = ""
    """UID of the approved plan that restricted the last steps; "" for none."""
    """Failures, by the key of the step that failed."""
    in_flight: dict[str, Step] = field(default_factory=dict)
    """Steps in flight by key. No cache may have their results yet."""
    parts: dict[str, PartStep] = field(default_factory=dict)
    """The due steps for parts of resources, by key, from the engine. The planner decides when each may start."""
    missed_triggers: dict[str, set[RetryTrigger]] = field(default_factory=dict)
    """By key: the triggers that occurred while the step was in flight, possibly too late for it."""
    ownership_baseline: dict[str, tuple[str, FieldOwnership | None]] = field(default_factory=dict)
    """By UID, the definition's hash and the operator's ownership when there was nothing to repair."""
    tolerated: dict[str, DriftFinding] = field(default_factory=dict)
    """By UID: the drift that was tolerated at that time, if any."""
    drift_conflicts: dict[str, DriftConflict] = field(default_factory=dict)
    """By resource: the backoff while another field manager repeatedly takes fields of its object."""
    governor: StepGovernor = field(default_factory=StepGovernor)
    """The delays of steps that repeat."""
    altered: dict[str, Altered] = field(default_factory=dict)
    """By UID, values that differ from the applied ones although the operator owns them, as found by the last check."""
    field_managers: dict[str, tuple[tuple[LostField, ...], str]] = field(default_factory=dict)
    """By UID, the fields of the last manager query and the text of its result."""
    manager_queries: dict[str, ManagerQuery] = field(default_factory=dict)
    """By resource, the query that its condition needs to name a field manager."""
    immutable: dict[str, RefusedChange] = field(default_factory=dict)
    """By UID, the change of the object that the API server rejects because of an immutable field."""
    taken: dict[str, frozenset[ObjectRef]] = field(default_factory=dict)
    """By resource: the references at which objects of other Stacks have its generated name."""
    counted_failures: dict[str, None] = field(default_factory=dict)
    """UIDs of objects whose terminal failure or whose mark is already counted."""
    mark_backoffs: dict[str, MarkBackoff] = field(default_factory=dict)
    """By resource, the backoff for marks on its objects."""
    replica_counts: dict[str, int] = field(default_factory=dict)
    """By resource, the number of replicas of an object that was deleted to be replaced, until the next one exists."""
    never_ready: dict[str, None] = field(default_factory=dict)
    """UIDs of objects watched since their creation that have not been ready yet."""
    silent_since: dict[str, float] = field(default_factory=dict)
    """By UID of an object without a status: when it was first planned, in monotonic seconds."""
    finished: FinishedWork = field(default_factory=FinishedWork)
    """Finished work that does not run again. It is stored in the status."""
    asked: dict[str, None] = field(default_factory=dict)
    """Resources whose failed object the user asked to run again, until the run begins."""
    asks_all: bool = False
    """Whether that request also covers failures that this process has not counted yet."""
    tidy_above: int = SLACK
    """Number of stored objects above which pruning is worthwhile."""

    def is_replaceable(self, now: float) -> bool:
        """Return whether planning can restore all of this state, without losing a request or a delay.

        now: monotonic seconds.
        """
        has_work = (
            self.parts
            or self.attempts
            or self.in_flight
            or self.missed_triggers
            or self.manager_queries
            or self.has_open_runs
        )
        has_findings = self.tolerated or self.altered or self.immutable or self.counted_failures or self.mark_backoffs
        has_conflict = any(conflict.expires_at > now for conflict in self.drift_conflicts.values())
        return not (has_work or has_findings or has_conflict or self.governor.has_repetitions(now))

    def prune(self, children: ObservedChildren) -> None:
        """Remove deleted objects once there may be many.

        An object that is deleted and recreated all day has a new UID each time.
        """
        if max(len(self.ownership_baseline), len(self.never_ready), len(self.counted_failures)) <= self.tidy_above:
            return
        live = {child.uid for name in children.resources() for child in children.of(name)}
        tables: tuple[dict[str, Any], ...] = (
            self.ownership_baseline,
            self.tolerated,
            self.field_managers,
            self.immutable,
            self.altered,
            self.silent_since,
            self.counted_failures,
            self.never_ready,
        )
        for table in tables:
            for uid in table.keys() - live:
                del table[uid]
        self.tidy_above = 2 * len(live) + SLACK

    def apply_updates(self, updates: Iterable[MemoryUpdate], *, now: float) -> None:
        """Apply the updates that planning returned, and forget expired drift conflicts. now: monotonic seconds."""
        for update in updates:
            match update:
                case OwnershipSeen():
                    self.record_ownership(update.uid, update.baseline, update.finding)
                case ManagerUnknown():
                    self.manager_queries[update.resource] = update.query
                case ResourceReady():
                    self._note_ready(update.resource, update.uid)
                case AttemptFailed():
                    self.attempts[update.key] = update.attempt
                case AttemptObsolete():
                    self.attempts.pop(update.key, None)
                case SilenceNoticed():
                    self.silent_since.setdefault(update.uid, now)
                case WorkFinished() | WorkForgotten():
                    self.finished.apply_update(update)
                case _:
                    assert_never(update)
        self._forget_expired(now)

    def _forget_expired(self, now: float) -> None:
        if self.governor.records:
            self.governor.prune(now)
        for name in [name for name, conflict in self.drift_conflicts.items() if conflict.expires_at <= now]:
            del self.drift_conflicts[name]

    def record_ownership(self, uid: str, seen: tuple[str, FieldOwnership | None], finding: DriftFinding) -> None:
        """Record that an object lost only tolerated fields while `seen` is unchanged (see `ownership_baseline`)."""
        self.ownership_baseline[uid] = seen
        if finding.tolerated:
            self.tolerated[uid] = finding
        else:
            self.tolerated.pop(uid, None)

    def find_conflict(self, name: str, *, now: float) -> DriftConflict | None:
        """Return the drift conflict about the object of a resource, if it has not expired. now: monotonic seconds."""
        conflict = self.drift_conflicts.get(name)
        return conflict if conflict is not None and conflict.expires_at > now else None

    def offer_parts(self, owner: str, found: Iterable[PartStep]) -> bool:
        """Replace the steps for parts that a component of the engine considers due; return whether any step changed.

        owner: that component. A step in flight is not offered again.
        """
        offered = {steps.make_part_key(owner, step.ref): step for step in found}
        offered = {key: step for key, step in offered.items() if key not in self.in_flight}
        before = {key: step for key, step in self.parts.items() if key.startswith(f"/{owner}/")}
        if not offered and not before:
            return False
        others = {key: step for key, step in self.parts.items() if key not in before}
        self.parts = {**others, **offered}
        return identify(offered) != identify(before)

    def find_part_failure(self, owner: str) -> Attempt | None:
        """Return the failure of a step for a part that is still due, or None if none failed."""
        for key, step in self.parts.items():
            attempt = self.attempts.get(key) if key.startswith(f"/{owner}/") else None
            if attempt is not None and attempt.attempt_id == steps.attempt_id(step):
                return attempt
        return None

    def find_due(self, key: str, step: Step, work: Work | None = None) -> float:
        """Return the monotonic time in seconds from which the step under a key may start. work: of the step, if known."""
        if not self.governor.records:
            return 0.0
        attempt = self.attempts.get(key)
        if attempt is not None and attempt.attempt_id == steps.attempt_id(step):
            # The failure has its own, longer delay. An event that resolves the failure shortens it.
            return 0.0
        return self.governor.find_due(work or steps.find_work(step))

    def is_being_used(self, place: str) -> bool:
        """Return whether a write in flight uses values of that incarnation."""
        return any(place in steps.find_inputs(step) for step in self.in_flight.values())

    def is_creating_besides(self, wanted: Container[str]) -> bool:
        """Whether a write in flight may create an object of a resource that is no longer wanted."""
        return any(
            isinstance(step, Apply) and step.uid is None and step.resource not in wanted
            for step in self.in_flight.values()
        )

    def is_leaving(self, child: Child) -> bool:
        """Return whether a deletion or release of that object is in flight."""
        found = (self.in_flight.get(child.uid), self.in_flight.get(child.resource))
        return any(isinstance(step, Delete | Detach | Release) and step.child.uid == child.uid for step in found)

    def forget_failures(self, key: str, subject: AttemptId) -> None:
        """Forget earlier failures of the attempt, which has now succeeded."""
        attempt = self.attempts.get(key)
        if attempt is not None and attempt.attempt_id == subject:
            del self.attempts[key]

    def on_trigger(self, trigger: RetryTrigger, *, now: float) -> list[str]:
        """Expedite the attempts that wait for this trigger. Return their keys. now: monotonic seconds."""
        for key in self.in_flight:
            self.missed_triggers.setdefault(key, set()).add(trigger)
        sooner = []
        for key, attempt in self.attempts.items():
            if trigger in attempt.triggers:
                asks_again = trigger.type in retry_triggers.NOTICED_LATE
                hurried = backoff.expedite(attempt, now=now, asks_again=asks_again)
                if hurried is not attempt:
                    self.attempts[key] = hurried
                    sooner.append(key)
        return sooner

    def finish(self, key: str) -> set[RetryTrigger]:
        """Remove a step that is no longer in flight. Return the triggers that occurred in the meantime."""
        self.in_flight.pop(key, None)
        return self.missed_triggers.pop(key, set())

    def reset_for_target(self, wanted: Container[str]) -> None:
        """Forget all attempts, including deletions, except those for resources that the target now contains.

        `follow_plan` forgets steps outside of the approved plan: until another plan runs, they stay outside.
        """
        self.attempts = {
            key: attempt for key, attempt in self.attempts.items() if key in wanted or attempt.is_outside_plan
        }
        self.parts.clear()
        self.asked = {key: None for key in self.asked if key in wanted}
        self.governor.on_edit(wanted)

    def retry(self, now: float) -> None:
        """Reset the failure counts and make all attempts due immediately. now: monotonic seconds."""
        failed = (key for key, attempt in self.attempts.items() if isinstance(attempt.attempt_id, FailedObject))
        self.asked.update(dict.fromkeys(failed))
        self.attempts = {key: backoff.reset(attempt, now=now) for key, attempt in self.attempts.items()}
        self.immutable.clear()
        self.governor.allow(now=now)

    @property
    def has_unplanned(self) -> bool:
        """Return whether a step waits because the approved plan does not contain it."""
        return any(attempt.is_outside_plan for attempt in self.attempts.values())

    def follow_plan(self, plan_uid: str) -> bool:
        """Forget the steps that an earlier plan did not contain; return whether there were any. plan_uid: "" for none."""
        is_other, self.plan_uid = plan_uid != self.plan_uid, plan_uid
        if not (is_other and self.has_unplanned):
            return False
        self.attempts = {key: attempt for key, attempt in self.attempts.items() if not attempt.is_outside_plan}
        return True

    @property
    def has_open_runs(self) -> bool:
        """Return whether the user asked for runs that have not begun."""
        return self.asks_all or bool(self.asked)

    def set_limit(self, limit: int) -> bool:
        """Count the failures so far against this limit; return whether the limit changed.

        Errors of the operator have their own limit.
        """
        counted = {key: each for key, each in self.attempts.items() if not each.is_internal}
        changed = {key: replace(each, limit=limit) for key, each in counted.items() if each.limit != limit}
        self.attempts |= changed
        return bool(changed)

    def is_news(self, name: str, uid: str) -> bool:
        """Return whether it changes anything that the object of a resource is ready. Usually it does not."""
        return name in self.attempts or uid in self.never_ready or uid in self.silent_since

    def _note_ready(self, name: str, uid: str) -> None:
        """Record that the object of a resource is ready, and forget the resource's failures."""
        self.attempts.pop(name, None)
        self.asked.pop(name, None)
        self.never_ready.pop(uid, None)
        self.silent_since.pop(uid, None)
        if not self.never_ready:
            # An emptied map keeps the memory of its entries until it is cleared.
            self.never_ready.clear()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Inputs of one refresh of a Stack's plan, other than the definition."""

    children: ObservedChildren
    memory: InMemoryState
    """Only read."""
    now: float
    """Monotonic seconds."""
    is_evaluated: bool = False
    """Whether an evaluation has a result that a resource waits for."""


def identify(parts: Mapping[str, PartStep]) -> dict[str, AttemptId]:
    """Return the effects of the steps, by key, regardless of when their objects were read."""
    return {key: steps.attempt_id(step) for key, step in parts.items()}
