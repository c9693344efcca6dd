"""What a pass looks at: the observed children, and the little that the process remembers besides. Values only."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hearth.model.child import Child, FieldOwnership, Object
from hearth.plan.ownership.field_ownership import DriftFinding, LostField
from hearth.plan.retry import backoff
from hearth.plan.retry.backoff import Attempt
from hearth.plan.retry.drift_conflict import DriftConflict
from hearth.plan.retry.retry_triggers import RetryTrigger
from hearth.plan.state import steps
from hearth.plan.state.altered_values import Altered
from hearth.plan.state.healing import MarkBackoff
from hearth.plan.state.steps import Delete, Release, Step

SLACK = 100
"""Objects that are gone and may be remembered all the same."""


class ObservedChildren(Protocol):
    """The observed children of one Stack."""

    def of(self, resource: str) -> tuple[Child, ...]:
        """Those that carry this resource's label."""

    def resources(self) -> Iterable[str]:
        """The resource labels of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerQuery:
    """Who holds these fields of an object?"""

    child: Child
    lost: tuple[LostField, ...]
    manifest: Object
    """What the places of the fields lead into."""


@dataclass(slots=True)
class InMemoryState:
    """What one process remembers of a Stack. All of it may be lost: that costs a look or a try, never a mistake."""

    attempts: dict[str, Attempt] = field(default_factory=dict)
    """Failures, by the key of the step that failed."""
    in_flight: dict[str, Step] = field(default_factory=dict)
    """Steps that are being taken now, by their keys; no cache may know yet of what they come to."""
    missed_triggers: dict[str, set[RetryTrigger]] = field(default_factory=dict)
    """By key what changed while its step was on its way, which may have been too late for it."""
    ownership_baseline: dict[str, tuple[str, FieldOwnership | None]] = field(default_factory=dict)
    """By UID the definition's hash and our ownership when nothing of it was to be taken back."""
    tolerated: dict[str, DriftFinding] = field(default_factory=dict)
    """By UID what was left to others then, where that is anything."""
    drift_conflicts: dict[str, DriftConflict] = field(default_factory=dict)
    """By resource what is remembered of somebody who keeps taking fields of its object."""
    altered: dict[str, Altered] = field(default_factory=dict)
    """By UID the values that the last check found to be others than stated, although we own them."""
    field_managers: dict[str, tuple[tuple[LostField, ...], str]] = field(default_factory=dict)
    """By UID which fields were asked about last, and who holds them, in words."""
    manager_queries: dict[str, ManagerQuery] = field(default_factory=dict)
    """By resource what is to be asked so that its remark can name somebody."""
    immutable: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By UID the hash of a definition that the server will not change the object to, and the field that stands in the way."""
    counted_failures: set[str] = field(default_factory=set)
    """UIDs of objects whose terminal failure was counted as an attempt, or whose mark was counted."""
    mark_backoffs: dict[str, MarkBackoff] = field(default_factory=dict)
    """By resource what is remembered of marks on its objects."""
    created: set[str] = field(default_factory=set)
    """UIDs of objects that were watched since they were made."""
    ready: set[str] = field(default_factory=set)
    """UIDs of those among them that have been ready."""
    tidy_above: int = SLACK
    """Objects of which so much may be remembered before it is worth a look who of them is gone."""

    def prune(self, children: ObservedChildren) -> None:
        """Forget objects that are gone, once many may be: one that is deleted and made again all day is another each time."""
        if max(len(self.ownership_baseline), len(self.created), len(self.counted_failures)) <= self.tidy_above:
            return
        live = {child.uid for name in children.resources() for child in children.of(name)}
        books: tuple[dict[str, Any], ...] = (
            self.ownership_baseline,
            self.tolerated,
            self.field_managers,
            self.immutable,
            self.altered,
        )
        for book in books:
            for uid in book.keys() - live:
                del book[uid]
        for uids in (self.created, self.ready, self.counted_failures):
            uids.intersection_update(live)
        self.tidy_above = 2 * len(live) + SLACK

    def record_ownership(self, uid: str, seen: tuple[str, FieldOwnership | None], finding: DriftFinding) -> None:
        """Nothing but what is left to others is lost of an object while `seen` stays the same (see `whole`)."""
        self.ownership_baseline[uid] = seen
        if finding.tolerated:
            self.tolerated[uid] = finding
        else:
            self.tolerated.pop(uid, None)

    def find_contest(self, name: str, *, now: float) -> DriftConflict | None:
        """What is remembered of a contest for the object of a resource. now: monotonic seconds."""
        contest = self.drift_conflicts.get(name)
        if contest is not None and contest.expires_at <= now:
            del self.drift_conflicts[name]
            return None
        return contest

    def is_being_used(self, place: str) -> bool:
        """Whether something is being written at this moment that is made of what is there."""
        return any(place in steps.find_inputs(step) for step in self.in_flight.values())

    def is_leaving(self, child: Child) -> bool:
        """Whether somebody is asked at this moment to delete or release that object."""
        found = (self.in_flight.get(child.uid), self.in_flight.get(child.resource))
        return any(isinstance(step, Delete | Release) and step.child.uid == child.uid for step in found)

    def forget_failures(self, key: str, subject: str) -> None:
        """What was tried under that key came to pass: earlier failures at it are forgotten."""
        attempt = self.attempts.get(key)
        if attempt is not None and attempt.attempt_id == subject:
            del self.attempts[key]

    def on_trigger(self, cause: RetryTrigger, *, now: float) -> list[str]:
        """Something that refusals hang on changed: the keys that are due sooner by that. now: monotonic seconds."""
        for key in self.in_flight:
            self.missed_triggers.setdefault(key, set()).add(cause)
        sooner = []
        for key, attempt in self.attempts.items():
            if cause in attempt.triggers:
                hurried = backoff.expedite(attempt, now=now)
                if hurried is not attempt:
                    self.attempts[key] = hurried
                    sooner.append(key)
        return sooner

    def finish(self, key: str) -> set[RetryTrigger]:
        """A step is on its way no longer: what changed meanwhile."""
        self.in_flight.pop(key, None)
        return self.missed_triggers.pop(key, set())

    def reset_for_target(self, wanted: Container[str]) -> None:
        """Another definition is wanted, of these resources: what was tried for others, deletions too, begins anew."""
        self.attempts = {key: attempt for key, attempt in self.attempts.items() if key in wanted}

    def retry(self, now: float) -> None:
        """Forget how often anything failed, and have all of it tried at once. now: monotonic seconds."""
        self.attempts = {key: backoff.reset(attempt, now=now) for key, attempt in self.attempts.items()}
        self.immutable.clear()

    def note_ready(self, name: str, uid: str) -> None:
        """The object of a resource is ready: nothing is held against the resource any more."""
        self.attempts.pop(name, None)
        if uid in self.created:
            self.ready.add(uid)
