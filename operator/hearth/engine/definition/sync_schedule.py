"""Schedules the syncs of one Stack's definition: collects requests, and delays the next sync after a failure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hearth.engine.cluster_objects import StackObject
from hearth.engine.services import Services
from hearth.engine.work_queue import DirtyScope
from hearth.model import limits
from hearth.model.kinds import ObjectRef
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType


@dataclass(slots=True)
class SyncSchedule:
    """When the definition of one Stack is synced next."""

    uid: str
    services: Services
    awaited: frozenset[RetryTrigger] = frozenset()
    """Changes that may allow the account to read sources that it cannot read now."""
    _sources: frozenset[ObjectRef] = frozenset()
    """Objects that the definition is read from, other than the spec."""
    is_requested: bool = True
    """Whether a sync is due although the spec is unchanged, because another change affects the definition or the
    target."""
    changes: int = 0
    """Number of changes to the sources and to the rights to read them."""
    _started_changes: int = 0
    """The value of `changes` at the start of the last sync."""
    _handled_changes: int = 0
    """The value of `changes` for the last accepted or rejected definition."""
    _started_version: int = 0
    """The resource version of the Stack at the start of the last sync."""
    is_running: bool = False
    """Whether a definition is being processed, including the snapshots that the spec requests."""
    _put_off: int | None = None
    """The resource version of the Stack that waits for a retry."""
    _used_until: float = 0.0
    """Monotonic time when the full allowance of immediate changes is available again."""
    _is_pacing: bool = False
    """Whether a change is delayed because there were too many."""

    @property
    def has_unhandled_changes(self) -> bool:
        """Whether a source has a change that was neither accepted nor rejected yet."""
        return self.changes != self._handled_changes

    @property
    def is_idle(self) -> bool:
        """Whether only a change of the Stack itself can request a sync."""
        return not (self.is_requested or self.is_running or self._sources or self.awaited or self._put_off is not None)

    def is_waiting(self, stack: StackObject) -> bool:
        """Return whether a failed sync of exactly this Stack waits for its retry."""
        return stack.resource_version == self._put_off

    def request(self) -> None:
        """Choose the target again at the next sync. The caller enqueues the Stack."""
        self.is_requested = True

    def request_now(self) -> None:
        """Choose the target again, and end the wait of a failed sync."""
        self.request()
        self._end_wait()

    def start(self, stack: StackObject) -> bool:
        """Start a sync of this Stack; return whether something other than the spec requested it."""
        self._started_version, self._started_changes, self.is_running = stack.resource_version, self.changes, True
        is_requested, self.is_requested = self.is_requested, False
        return is_requested

    def finish(self) -> None:
        """Record that the started sync accepted or rejected the definition."""
        self._handled_changes, self.is_running = self._started_changes, False

    def put_off(self, delay: float) -> None:
        """Sync again after `delay` seconds or once the Stack changes."""
        self.request()
        self._put_off, self.is_running = self._started_version, False
        self.services.clock.call_later(delay, self._end_wait)

    def follow_sources(self, sources: Collection[ObjectRef]) -> None:
        """Sync again only when one of these objects changes."""
        self._sources = frozenset(sources)
        self.services.management_cluster.follow_sources(self.uid, self._sources)

    def await_rights(self, namespace: str) -> None:
        """Sync again when rights in the namespace change, until the next sync."""
        rights = RetryTrigger(type=TriggerType.RIGHTS, namespace=namespace)
        self.awaited = frozenset({rights})
        self.services.workload_cluster.watch_trigger(rights)

    def on_source_changed(self, ref: ObjectRef) -> None:
        """Handle a changed source of definitions, which may be another Stack's."""
        if ref in self._sources:
            self._note_change()

    def on_retry_trigger(self, trigger: RetryTrigger) -> None:
        """Handle a changed trigger, which may concern other Stacks only."""
        if trigger in self.awaited:
            self._note_change()

    def _note_change(self) -> None:
        """Request a sync: now, or after a while if there were too many of them. It then reads the newest state."""
        if self._is_pacing:
            return
        now = self.services.clock.monotonic()
        used_until = max(self._used_until, now)
        self._used_until = used_until + limits.SOURCE_CHANGES_EVERY
        delay = used_until - now - (limits.SOURCE_CHANGES - 1) * limits.SOURCE_CHANGES_EVERY
        if delay <= 0:
            self._take_up_change()
            return
        self._is_pacing = True
        self.services.clock.call_later(delay, self._take_up_change)

    def _take_up_change(self) -> None:
        self._is_pacing = False
        self.changes += 1
        self.request()
        self._enqueue()

    def _end_wait(self) -> None:
        self._put_off = None
        self._enqueue()

    def _enqueue(self) -> None:
        self.services.queue.enqueue(self.uid, DirtyScope.STACK)
