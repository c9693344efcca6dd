"""Rolling updates: chooses the members of a collection that may change now, in batches with pauses.

Each batch is chosen from the current members, so the only data that must survive a restart is the end of the last
batch. The arithmetic is in `hearth.model.rolling_batches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hearth.model import rolling_batches, value_class
from hearth.template.blueprint import RollingPolicy


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """A change of a member that its batch must permit."""

    is_available: bool
    """Whether the member is ready, so that the change takes it out of service."""
    is_outdated: bool
    """Whether its object has another definition. Otherwise it is only replaced, because it failed or is marked."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class BatchEnd:
    """The end of the last batch of one collection."""

    collection: str
    since: float
    """Monotonic seconds."""
    updated: int
    """How many members were up to date at that time."""


@dataclass(slots=True, kw_only=True)
class RollingUpdate:
    """The rolling update of one collection."""

    policy: RollingPolicy
    last_end: BatchEnd | None = None
    is_resumed: bool = False
    """Whether an earlier process worked on this target, so that a batch may have ended without a record."""
    carried: frozenset[str] | None = None
    """The batch that was running when the size or template changed in this process; None: unknown."""
    updated: frozenset[str] | None = None
    """That batch, and the members that were up to date at that time; None: unknown."""
    batch: dict[str, None] = field(default_factory=dict)
    """The members that may change now, until they are ready."""
    waiting: dict[str, PendingChange] = field(default_factory=dict)
    """The members that must wait for a batch."""
    settled: set[str] = field(default_factory=set)
    """The members that are up to date and ready, or that must not change."""
    unsettled: dict[str, None] = field(default_factory=dict)
    """All other members: missing, or up to date and not ready."""
    _out_of_service: set[str] = field(default_factory=set)
    """The waiting members that are not ready."""
    _broken: set[str] = field(default_factory=set)
    """The settled members that are not ready."""
    _is_started: bool = False
    _has_ended: bool = False
    """Whether the last member of a batch became ready since the last choice."""

    def note_waiting(self, name: str, change: PendingChange) -> bool:
        """Record a change that is planned; return whether it may start now."""
        self._unsettle(name)
        self.unsettled.pop(name, None)
        if name in self.batch:
            return True
        self.waiting[name] = change
        if change.is_available:
            self._out_of_service.discard(name)
        else:
            self._out_of_service.add(name)
        return False

    def note_settled(self, name: str, *, is_available: bool = True) -> None:
        """Record a member that is up to date and ready, or that must not change and does not delay others.

        is_available: whether it is ready.
        """
        self._stop_waiting(name)
        self.unsettled.pop(name, None)
        self.settled.add(name)
        if is_available:
            self._broken.discard(name)
        else:
            self._broken.add(name)
        if name in self.batch:
            del self.batch[name]
            self._has_ended = self._has_ended or not self.batch

    def note_unsettled(self, name: str) -> None:
        """Record a member that is not ready, and whose change needs no permission."""
        self._stop_waiting(name)
        self._unsettle(name)
        if name not in self.batch:
            self.unsettled[name] = None

    @property
    def is_known(self) -> bool:
        """Whether every member was seen, so that `batch` is complete."""
        known = len(self.settled) + len(self.unsettled) + len(self.waiting) + len(self.batch)
        return known >= len(self.policy.members)

    def _unsettle(self, name: str) -> None:
        self.settled.discard(name)
        self._broken.discard(name)

    def _stop_waiting(self, name: str) -> None:
        self.waiting.pop(name, None)
        self._out_of_service.discard(name)

    @property
    def waiting_in_service(self) -> int:
        """How many members are ready and wait for their change."""
        return len(self.waiting) - len(self._out_of_service)

    @property
    def available(self) -> int:
        """How many members are in service."""
        return len(self.settled) - len(self._broken) + self.waiting_in_service

    @property
    def is_short(self) -> bool:
        """Whether fewer members are in service than required."""
        return self.available < self.policy.min_ready

    @property
    def needs_surge(self) -> bool:
        """Whether members in service wait for their change."""
        return any(change.is_available and change.is_outdated for change in self.waiting.values())

    def choose(self, *, now: float) -> list[str]:
        """Return the members that may change from now on, in their order; they leave the waiting ones."""
        if not self.is_known:
            return []
        if not (self.waiting or self.unsettled or self.batch):
            # The set is no longer needed, and it is as large as the collection.
            self.updated = None
        ended, self._has_ended = self._has_ended, False
        if self.waiting and not self._is_started:
            ended = self._start() or ended
        if ended and self.policy.pause > 0:
            self.last_end = BatchEnd(collection=self.policy.collection, since=now, updated=len(self.settled))
        chosen = list(self._find_next(now)) if self.waiting else []
        for name in chosen:
            self._stop_waiting(name)
            self.batch[name] = None
        return chosen

    def find_due(self, *, now: float) -> float | None:
        """Return the monotonic time when the pause ends, or None if nothing waits for it."""
        if not self.waiting or self.batch or self.last_end is None or now >= self._paused_until:
            return None
        return self._paused_until

    @property
    def _paused_until(self) -> float:
        return self.last_end.since + self.policy.pause if self.last_end is not None else float("-inf")

    def _start(self) -> bool:
        """Find the batch in progress when the first change waits; return whether a batch ended unnoticed."""
        self._is_started = True
        # A process that starts in the middle of a batch finds its members not ready. New members are no batch, so a group
        # that grows does not wait for another pause.
        present = [name for name in self.unsettled if self.carried is None or name in self.carried]
        self.batch.update(dict.fromkeys(present))
        for name in present:
            del self.unsettled[name]
        if not self._has_updated:
            # This is the first batch of another update.
            self.last_end = None
            return False
        return self._is_end_lost() or self._is_carried_done()

    @property
    def _has_updated(self) -> bool:
        """Whether a batch led to the current template. Not if none has ended, or if the template was changed back."""
        known = self.settled if self.updated is None else self.updated
        still = known.intersection(self.policy.members)
        # Removed members give no information, and the pause continues.
        return not self.settled.isdisjoint(still) if still else bool(known)

    def _is_carried_done(self) -> bool:
        """Return whether the batch that was carried over is ready or was removed."""
        return bool(self.carried) and self.settled.issuperset((self.carried or frozenset()) & set(self.policy.members))

    def _is_end_lost(self) -> bool:
        """Return whether an earlier process ended a batch and could not record it. The pause then starts again."""
        recorded = self.last_end.updated if self.last_end is not None else 0
        return self.is_resumed and not self.batch and len(self.settled) > recorded

    def _find_next(self, now: float) -> Iterator[str]:
        """Yield the members that are already out of service, then as many others as may leave service together."""
        room, is_paused = self.policy.max_batch - len(self.batch), now < self._paused_until
        in_service = rolling_batches.find_next(batch=room, available=self.available, in_service=self.policy.min_ready)
        if self.batch or self.unsettled or is_paused:
            in_service = 0
        for is_available in (False, True):
            # This runs at each change of a member and usually finds nothing.
            if room <= 0 or (in_service <= 0 if is_available else not self._out_of_service):
                continue
            for name in self.policy.members:
                change = self.waiting.get(name)
                if change is None or change.is_available is not is_available:
                    continue
                if is_paused and change.is_outdated:
                    continue
                in_service -= is_available
                room -= 1
                yield name
                if room <= 0 or (is_available and in_service <= 0):
                    break


class RollingUpdates:
    """All rolling updates of one Stack."""

    def __init__(
        self,
        policies: Mapping[str, RollingPolicy],
        *,
        ends: Iterable[BatchEnd] = (),
        is_resumed: bool = False,
        was_at_rest: bool = False,
        before: RollingUpdates | None = None,
    ) -> None:
        """Start with the members as they are.

        ends: of the last batches, as recorded; is_resumed: see `RollingUpdate`; was_at_rest: whether no batch was in
        progress, if there is no previous planner; before: the updates of the previous planner.
        """
        last = {each.collection: each for each in ends}
        known = before.by_collection if before is not None else {}
        self.by_collection: Mapping[str, RollingUpdate] = {
            name: RollingUpdate(policy=policy, last_end=last.get(name), carried=frozenset())
            if was_at_rest and before is None
            else continue_update(policy, known.get(name), end=last.get(name), is_resumed=is_resumed)
            for name, policy in policies.items()
        }
        self._updates = tuple(self.by_collection.values())
        self._by_member = {name: each for each in self._updates for name in each.policy.members}

    def find(self, name: str) -> RollingUpdate | None:
        """Return the rolling update that a resource is part of, or None if it may change at any time."""
        return self._by_member.get(name)

    def choose(self, *, now: float) -> list[str]:
        """Return the members that may change from now on."""
        return [name for each in self._updates for name in each.choose(now=now)]

    def find_due(self, *, now: float) -> float | None:
        """Return the monotonic time when the next pause ends, or None if nothing waits for one."""
        due = (each.find_due(now=now) for each in self._updates)
        return min((each for each in due if each is not None), default=None)

    def ends(self) -> list[BatchEnd]:
        """Return the ends of the last batches, to be recorded."""
        return [each.last_end for each in self._updates if each.last_end is not None]

    def find_surge(self) -> int:
        """Return how many members a group needs beyond its size, so that a change leaves enough of them in service."""
        return max((each.policy.surge for each in self._updates if each.needs_surge), default=0)

    def find_short(self) -> tuple[str, ...]:
        """Return the collections with fewer members in service than required."""
        return tuple(each.policy.collection for each in self._updates if each.is_short)

    def find_warnings(self) -> Iterator[str]:
        """Yield a warning for each group that was scaled below its minimum in service."""
        for policy in (each.policy for each in self._updates):
            if policy.min_ready < policy.min_ready_stated:
                yield rolling_batches.describe_low_size(policy.min_ready_stated, size=policy.min_ready)

    def count_in_service(self) -> int:
        """Return how many members are ready and wait for their change."""
        return sum(each.waiting_in_service for each in self._updates)


def continue_update(
    policy: RollingPolicy, before: RollingUpdate | None, *, end: BatchEnd | None, is_resumed: bool
) -> RollingUpdate:
    """Return the update under a policy. before: the previous update in this process; end: the end of its last batch."""
    if before is None or not before.is_known:
        is_resumed = is_resumed or (before is not None and before.is_resumed)
        return RollingUpdate(policy=policy, last_end=end, is_resumed=is_resumed)
    carried = frozenset(before.batch)
    return RollingUpdate(
        policy=policy, last_end=before.last_end, carried=carried, updated=carried.union(before.settled)
    )
