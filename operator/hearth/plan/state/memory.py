"""What a pass looks at: the observed children, and the little that the process remembers besides. Values only."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hearth.model.child import Child, Object, Ownership
from hearth.plan.ownership.field_ownership import Finding, Lost
from hearth.plan.retry import backoff
from hearth.plan.retry.backoff import Attempt
from hearth.plan.retry.drift_conflict import Contest
from hearth.plan.retry.retry_triggers import Cause
from hearth.plan.state import steps
from hearth.plan.state.altered_values import Altered
from hearth.plan.state.healing import Spell
from hearth.plan.state.steps import Delete, Release, Step

SLACK = 100
"""Objects that are gone and may be remembered all the same."""


class Children(Protocol):
    """The observed children of one Stack."""

    def of(self, resource: str) -> tuple[Child, ...]:
        """Those that carry this resource's label."""

    def resources(self) -> Iterable[str]:
        """The resource labels of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Who holds these fields of an object?"""

    child: Child
    lost: tuple[Lost, ...]
    manifest: Object
    """What the places of the fields lead into."""


@dataclass(slots=True)
class Memory:
    """What one process remembers of a Stack. All of it may be lost: that costs a look or a try, never a mistake."""

    attempts: dict[str, Attempt] = field(default_factory=dict)
    """Failures, by the key of the step that failed."""
    in_flight: dict[str, Step] = field(default_factory=dict)
    """Steps that are being taken now, by their keys; no cache may know yet of what they come to."""
    missed: dict[str, set[Cause]] = field(default_factory=dict)
    """By key what changed while its step was on its way, which may have been too late for it."""
    whole: dict[str, tuple[str, Ownership | None]] = field(default_factory=dict)
    """By UID the definition's hash and our ownership when nothing of it was to be taken back."""
    left: dict[str, Finding] = field(default_factory=dict)
    """By UID what was left to others then, where that is anything."""
    contests: dict[str, Contest] = field(default_factory=dict)
    """By resource what is remembered of somebody who keeps taking fields of its object."""
    altered: dict[str, Altered] = field(default_factory=dict)
    """By UID the values that the last check found to be others than stated, although we own them."""
    holders: dict[str, tuple[tuple[Lost, ...], str]] = field(default_factory=dict)
    """By UID which fields were asked about last, and who holds them, in words."""
    questions: dict[str, Question] = field(default_factory=dict)
    """By resource what is to be asked so that its remark can name somebody."""
    immutable: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By UID the hash of a definition that the server will not change the object to, and the field that stands in the way."""
    failed: set[str] = field(default_factory=set)
    """UIDs of objects whose terminal failure was counted as an attempt, or whose mark was counted."""
    spells: dict[str, Spell] = field(default_factory=dict)
    """By resource what is remembered of marks on its objects."""
    made: set[str] = field(default_factory=set)
    """UIDs of objects that were watched since they were made."""
    ready: set[str] = field(default_factory=set)
    """UIDs of those among them that have been ready."""
    tidy_above: int = SLACK
    """Objects of which so much may be remembered before it is worth a look who of them is gone."""

    def tidy(self, children: Children) -> None:
        """Forget objects that are gone, once many may be: one that is deleted and made again all day is another each time."""
        if max(len(self.whole), len(self.made), len(self.failed)) <= self.tidy_above:
            return
        live = {child.uid for name in children.resources() for child in children.of(name)}
        books: tuple[dict[str, Any], ...] = (self.whole, self.left, self.holders, self.immutable, self.altered)
        for book in books:
            for uid in book.keys() - live:
                del book[uid]
        for uids in (self.made, self.ready, self.failed):
            uids.intersection_update(live)
        self.tidy_above = 2 * len(live) + SLACK

    def keep(self, uid: str, seen: tuple[str, Ownership | None], finding: Finding) -> None:
        """Nothing but what is left to others is lost of an object while `seen` stays the same (see `whole`)."""
        self.whole[uid] = seen
        if finding.left:
            self.left[uid] = finding
        else:
            self.left.pop(uid, None)

    def find_contest(self, name: str, *, now: float) -> Contest | None:
        """What is remembered of a contest for the object of a resource. now: monotonic seconds."""
        contest = self.contests.get(name)
        if contest is not None and contest.forgotten_at <= now:
            del self.contests[name]
            return None
        return contest

    def is_being_used(self, place: str) -> bool:
        """Whether something is being written at this moment that is made of what is there."""
        return any(place in steps.find_required(step) for step in self.in_flight.values())

    def is_leaving(self, child: Child) -> bool:
        """Whether somebody is asked at this moment to delete or release that object."""
        found = (self.in_flight.get(child.uid), self.in_flight.get(child.resource))
        return any(isinstance(step, Delete | Release) and step.child.uid == child.uid for step in found)

    def succeed(self, key: str, subject: str) -> None:
        """What was tried under that key came to pass: earlier failures at it are forgotten."""
        attempt = self.attempts.get(key)
        if attempt is not None and attempt.subject == subject:
            del self.attempts[key]

    def hear(self, cause: Cause, *, now: float) -> list[str]:
        """Something that refusals hang on changed: the keys that are due sooner by that. now: monotonic seconds."""
        for key in self.in_flight:
            self.missed.setdefault(key, set()).add(cause)
        sooner = []
        for key, attempt in self.attempts.items():
            if cause in attempt.causes:
                hurried = backoff.hurry(attempt, now=now)
                if hurried is not attempt:
                    self.attempts[key] = hurried
                    sooner.append(key)
        return sooner

    def land(self, key: str) -> set[Cause]:
        """A step is on its way no longer: what changed meanwhile."""
        self.in_flight.pop(key, None)
        return self.missed.pop(key, set())

    def begin(self, wanted: Container[str]) -> None:
        """Another definition is wanted, of these resources: what was tried for others, deletions too, begins anew."""
        self.attempts = {key: attempt for key, attempt in self.attempts.items() if key in wanted}

    def retry(self, now: float) -> None:
        """Forget how often anything failed, and have all of it tried at once. now: monotonic seconds."""
        self.attempts = {key: backoff.renew(attempt, now=now) for key, attempt in self.attempts.items()}
        self.immutable.clear()

    def note_ready(self, name: str, uid: str) -> None:
        """The object of a resource is ready: nothing is held against the resource any more."""
        self.attempts.pop(name, None)
        if uid in self.made:
            self.ready.add(uid)
