"""Delays steps that repeat although the definition of their resource does not change, for any cause.

It covers writes that succeed and become necessary again, for example because another client undoes them. Failures and
drift conflicts have longer delays of their own.

Every step is counted when it is taken (`StackReconciler.take_step`) and offered only after its delay
(`PlanIndex.plan`), so no step bypasses the limit. The counts are in memory; a new process starts at zero.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace

from hearth.model import value_class
from hearth.plan.retry.backoff import BackoffPolicy

FREE = 4.0
"""Repetition level from which steps are delayed. A creation, an update after it, a repair and one more write need no
delay."""
REWORK = 2.0
"""Level of the first write after the target was completed, because no user caused it."""
FOLLOWED = 0.25
"""Weight of a write whose definition differs only because the values that it reads changed. Sixteen of these writes are
free. If the values change for an hour, the delay grows to some minutes."""
FOLLOWED_FREELY = 60.0
"""If values change only once in this many seconds, every change is applied without delay."""
OTHER_VALUES = 8
"""Number of steps with different content after which changing values count as the cause."""
UNSTEADY = 4.0
"""Levels above `FREE` from which changing values count as a problem. A long rolling update changes many values."""
EXPIRY_FACTOR = 2.0
"""A record expires after this multiple of the maximum delay without a write, so later than any delay."""
LASTING = 30.0
"""Maximum seconds that a repeatedly vanished object must exist before it counts as ready."""
VANISHED = 3
"""Creations of one definition from which its object counts as vanishing. A person may delete an object once or
twice."""
PRUNED_EVERY = 60.0
"""Seconds."""


class WorkType(enum.Enum):
    """Kinds of requests for a resource, counted separately. A closed set."""

    APPLY = "apply"
    REMOVE = "remove"
    """Deletion or release."""
    MARK = "mark"
    SUSPEND = "suspend"
    """Suspend, resume or restore."""
    LOOK_UP = "look up"
    """A read for a message."""

    # `enum.Enum` implements `__hash__` in Python, and each step hashes a member.
    __hash__ = object.__hash__


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The identity of a step for counting repetitions."""

    resource: str
    type: WorkType
    content: str = ""
    """The content it writes: equal for a repetition."""
    creates: bool = False
    """Whether it creates the object."""
    share: float = 1.0
    """The weight of one repetition."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """In-memory record of the steps of one type for one resource."""

    level: float
    """Repetition level, see `after_step`."""
    content: str
    edition: int
    """The edition of the user's definition at the last step."""
    taken_at: float
    """Monotonic seconds of the last step."""
    due: float
    """Monotonic seconds of the next one."""
    expires_at: float
    """Monotonic seconds when the record expires without a further step."""
    since: float
    """Monotonic seconds of the first step."""
    done: int = 0
    """Number of successful steps, without the first step after the user changed the definition."""
    creations: int = 0
    """Number of these steps that created the object with this content."""
    limit: int = 5
    """Delayed repetitions after which the resource counts as failed."""
    follows: int = 0
    """Steps whose content differed from the previous step."""
    evidence: str = ""
    """The cause that undoes the steps, if known."""

    @property
    def is_unsteady(self) -> bool:
        """Return whether changed values made most of the steps necessary."""
        return self.follows >= OTHER_VALUES

    @property
    def is_problem(self) -> bool:
        """Return whether to report it to the owner of the Stack."""
        return self.done >= FREE and self.level >= (FREE + UNSTEADY if self.is_unsteady else FREE + 1.0)

    @property
    def is_exhausted(self) -> bool:
        """Return whether the resource counts as failed. Changing values are not a failure."""
        return not self.is_unsteady and self.done >= FREE + self.limit

    @property
    def is_vanishing(self) -> bool:
        """Return whether its object keeps disappearing."""
        return self.is_problem and self.creations >= VANISHED

    @property
    def lasts_from(self) -> float:
        """Monotonic seconds from which its object, if it still exists, counts as lasting."""
        return self.taken_at + min(self.due - self.taken_at, LASTING)


def after_step(
    before: StepRecord | None, work: Work, *, edition: int, is_settled: bool, now: float, backoff: BackoffPolicy
) -> StepRecord:
    """Return the record after one more step.

    edition: of the user's definition; is_settled: whether that definition was completed before; now: monotonic seconds.
    """
    if before is not None and now >= before.expires_at:
        before = None
    is_same = before is not None and before.content == work.content
    level, since = REWORK if is_settled else 1.0, now
    is_repeated = before is not None and (is_same or before.edition == edition)
    if before is not None and is_repeated:
        level, since = _raise(before, share=work.share if is_same else 0.0, now=now), before.since
    due = now + find_delay(level, backoff)
    return StepRecord(
        level=level,
        content=work.content,
        edition=edition,
        taken_at=now,
        due=due,
        expires_at=due + EXPIRY_FACTOR * backoff.max_backoff,
        since=since,
        done=before.done if before is not None and is_repeated else 0,
        creations=before.creations if before is not None and is_same else 0,
        limit=backoff.limit,
        follows=(before.follows + (not is_same)) if before is not None and is_repeated else 0,
        evidence=before.evidence if before is not None and is_same else "",
    )


def _raise(before: StepRecord, *, share: float, now: float) -> float:
    """Return the level after one more step under the same user definition. share: weight of a repetition; 0: none."""
    if share:
        return before.level + share
    is_slow = now - before.taken_at >= FOLLOWED_FREELY
    return max(1.0, before.level - FOLLOWED) if is_slow else before.level + FOLLOWED


def find_delay(level: float, backoff: BackoffPolicy) -> float:
    """Return the seconds until the next step."""
    return backoff.find_delay(level - FREE + 1, first=backoff.first_delay) if level >= FREE else 0.0


@dataclass(slots=True)
class StepGovernor:
    """The records of one Stack. Nothing is kept of a resource at rest."""

    records: dict[tuple[str, WorkType], StepRecord] = field(default_factory=dict)
    edition: int = 0
    """Counts the user's changes: of the definition, or of an option of the Stack."""
    is_settled: bool = False
    """Whether the target was completed since the user changed it."""
    _prune_at: float = 0.0

    def find_due(self, work: Work) -> float:
        """Return the monotonic time in seconds from which the step may start."""
        record = self.records.get((work.resource, work.type))
        if record is None or (record.content != work.content and record.edition != self.edition):
            return 0.0
        return record.due if record.content == work.content else min(record.due, record.taken_at + FOLLOWED_FREELY)

    def count(self, work: Work, *, now: float, backoff: BackoffPolicy) -> None:
        """Count a step that starts now."""
        key = (work.resource, work.type)
        self.records[key] = after_step(
            self.records.get(key), work, edition=self.edition, is_settled=self.is_settled, now=now, backoff=backoff
        )

    def find_problem(self, resource: str, *, now: float) -> StepRecord | None:
        """Return the record of a resource whose applies do not last, if there is one."""
        record = self.records.get((resource, WorkType.APPLY))
        return record if record is not None and record.is_problem and now < record.expires_at else None

    def note_done(self, work: Work) -> None:
        """Record that the step succeeded, if it repeats another one."""
        record = self.records.get((work.resource, work.type))
        if record is not None and record.level >= REWORK:
            creations = record.creations + work.creates
            self.records[work.resource, work.type] = replace(record, done=record.done + 1, creations=creations)

    def note_own_removal(self, resource: str) -> None:
        """Record that the operator deleted the object, so that nothing else undid its steps. The delays stay."""
        record = self.records.get((resource, WorkType.APPLY))
        if record is not None:
            self.records[resource, WorkType.APPLY] = replace(record, done=0, creations=0)

    def is_repeating(self, resource: str) -> bool:
        """Return whether the applies of a resource do not last, so that they will be reported."""
        record = self.records.get((resource, WorkType.APPLY))
        return record is not None and record.done >= FREE - 1.0 and not record.is_unsteady

    def note_evidence(self, resource: str, evidence: str) -> None:
        """Record the reason why the applies of a resource are undone."""
        record = self.records.get((resource, WorkType.APPLY))
        if record is not None and record.evidence != evidence:
            self.records[resource, WorkType.APPLY] = replace(record, evidence=evidence)

    def allow(self, resource: str | None = None, *, now: float) -> None:
        """Let each step start once without delay, at the request of a user. resource: None for all resources."""
        for key, record in self.records.items():
            if resource in (None, key[0]):
                self.records[key] = replace(record, due=min(record.due, now))

    def has_repetitions(self, now: float) -> bool:
        """Return whether any step was repeated recently. Losing that record would shorten a delay."""
        return any(each.level >= REWORK and each.expires_at > now for each in self.records.values())

    def on_edit(self, wanted: Container[str] | None = None) -> None:
        """Note that the user changed the definition, which now has these resources, or an option of the Stack."""
        self.edition += 1
        self.is_settled = False
        if wanted is not None and self.records:
            self._keep_records(key for key in self.records if key[0] in wanted)

    def settle(self) -> None:
        """Note that the target is completed, and forget steps that it needed only once."""
        if not self.is_settled:
            self.is_settled = True
            if self.records:
                self._keep_records(key for key, record in self.records.items() if record.level >= REWORK)

    def prune(self, now: float) -> None:
        """Forget expired records once in a while. now: monotonic seconds."""
        if now >= self._prune_at:
            self._prune_at = now + PRUNED_EVERY
            self._keep_records(key for key, record in self.records.items() if record.expires_at > now)

    def _keep_records(self, keys: Iterator[tuple[str, WorkType]]) -> None:
        # Build another map, because an emptied one would keep the memory of its entries.
        self.records = {key: self.records[key] for key in keys}
