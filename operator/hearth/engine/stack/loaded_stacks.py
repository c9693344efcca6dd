"""Limits how many new Stacks start at once, unloads idle Stacks, and polls for Stacks that wait for a kind or a retry.

In a burst of new Stacks, some are complete before others start. A Stack without events is unloaded, and its next event
loads it again. Some Stacks wait for something that no event of their own reports: a new kind, or a retry trigger. Only
these are checked, so idle Stacks cost nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Any

from hearth import supervision
from hearth.engine.cluster_links import HOME
from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import Clock, ClusterKinds
from hearth.engine.services import Services
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.work_queue import Broadcast, DirtyScope, KindsChanged, WorkQueue
from hearth.model import value_class
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import Kind
from hearth.model.turns import NamespaceLine
from hearth.plan.health.health_rules import RuleChange
from hearth.plan.retry.retry_triggers import RetryTrigger

START_LASTS = 1.0
"""Seconds until a start no longer counts, unless it waits in line. A request that hangs delays other Stacks for this
time at most."""
STEPS_PER_WRITE = 8
"""Steps of starting Stacks for each write that may be in flight. 256 steps take some 0.6 s, so a Stack is complete
within the second in which it need not report its start. With half as many, the executor is sometimes idle."""
FIRST_ASSUMPTION = 4.0
"""Assumed number of steps of the first Stacks, until they are planned."""
ADAPTATION = 0.125
"""Weight of the last planned Stack in the assumption about the next one."""
COUNTED_STEPS = 16
"""Maximum number of steps that count for a large Stack. Its other steps take turns with the steps of other Stacks."""
UNLOAD_AFTER = 0.1
"""Seconds after its last event or status until a Stack is unloaded for the first time. In a burst of new Stacks,
complete ones make room for others."""
GROWTH = 4.0
"""Growth factor of that time each time an event loads the Stack again: loading costs more than keeping."""
LONGEST = 3600.0
"""Seconds without an event after which any idle Stack is unloaded."""
INTERVAL = 0.05
"""Seconds between two searches for Stacks that are due."""
PAUSE = 0.02
"""Seconds until the next check if more Stacks are due than one check has time for."""
SECONDS_PER_LOOK = 0.01
"""Maximum duration of one search, so that no event waits for long. A Stack takes a fifth of a millisecond."""
KIND_POLL_INTERVAL = 10.0
"""Seconds between two polls for an awaited kind that no watch reported."""
TRIGGER_RETENTION = 30.0
"""Retention in seconds, at most doubled, of watches for retry triggers after their last use."""


@dataclass(slots=True)
class Start:
    """The start of one Stack."""

    steps: float
    """The number of steps that count for the Stack."""
    is_planned: bool = False
    """Whether `steps` is the planned number of its first steps, not an assumption."""
    taken: int = 0
    """Number of steps that have had their turn."""
    cancel: Callable[[], None] | None = None
    """Cancels its timer; None until the first reconcile."""


class StartLimiter:
    """Limits the Stacks that this process reconciles for the first time. Namespaces take turns, so a thousand new
    Stacks in one namespace do not delay the first one in another.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        queue: WorkQueue,
        clock: Clock,
        is_in_line: Callable[[str], bool] = lambda _uid: False,
    ) -> None:
        """concurrency: maximum writes in flight.

        is_in_line: whether a Stack waits for its turn, in a line that moves, rather than for an answer.
        """
        self._assumed = FIRST_ASSUMPTION
        """Assumed number of steps of a Stack until it is planned, adapted to earlier Stacks."""
        self._room = float(STEPS_PER_WRITE * concurrency)
        """Remaining steps for starting further Stacks; negative if planned Stacks exceed the assumption."""
        self._queue = queue
        self._clock = clock
        self._is_in_line = is_in_line
        self._held = NamespaceLine()
        """The waiting Stacks."""
        self._starting: dict[str, Start] = {}

    def admit(self, uid: str, namespace: str) -> bool:
        """Return whether the Stack may start now. Otherwise it is enqueued later."""
        if uid in self._starting:
            return True
        if self._held.has(namespace, uid):
            return False
        if self._held or self._room < self._assumed:
            self._held.add(namespace, uid)
            return False
        self._add(uid)
        return True

    def begin(self, uid: str) -> None:
        """Record a reconcile of a Stack. If the Stack is starting, its time starts to count."""
        start = self._starting.get(uid)
        if start is not None and start.cancel is None:
            self._arm(uid, start)

    def weigh(self, uid: str, steps: int) -> None:
        """Count a start for as many steps as were planned first."""
        start = self._starting.get(uid)
        if start is None or start.is_planned or not steps:
            return
        counted = min(steps, COUNTED_STEPS)
        self._room += start.steps - counted
        start.steps, start.is_planned = counted, True
        self._assumed += ADAPTATION * (counted - self._assumed)
        self._release()

    def take_step(self, uid: str) -> None:
        """Record that a step of a Stack has its turn: its start ends with as many as it counts for."""
        start = self._starting.get(uid)
        if start is None:
            return
        start.taken += 1
        if start.taken >= start.steps:
            self.finish(uid)

    def finish(self, uid: str) -> None:
        """End the start of a Stack, if it is starting, and let others start."""
        start = self._starting.pop(uid, None)
        if start is None:
            return
        if start.cancel is not None:
            start.cancel()
        self._room += start.steps
        self._release()

    def _arm(self, uid: str, start: Start) -> None:
        start.cancel = self._clock.call_later(START_LASTS, lambda: self._check_timers(uid, start))

    def _check_timers(self, uid: str, start: Start) -> None:
        """End a start whose time is over, unless it waits in line: to let others start would only make that longer."""
        if self._is_in_line(uid):
            self._arm(uid, start)
        else:
            self.finish(uid)

    def _add(self, uid: str) -> None:
        self._starting[uid] = Start(self._assumed)
        self._room -= self._assumed

    def _release(self) -> None:
        while self._held and self._room >= self._assumed:
            uid = self._held.pop()
            self._add(uid)
            self._queue.enqueue(uid, DirtyScope.ALL_RESOURCES)


@value_class.dataclass(frozen=True, slots=True)
class UnloadedStack:
    """The state that remains in memory for a Stack without a reconciler."""

    stack: StackObject
    """The Stack with the last status that the operator wrote. Another writer may change the live status in the
    meantime."""
    kinds: frozenset[Kind]
    """The kinds of its objects."""
    names: Mapping[int, Set[str]]
    """The resource names of its revision, by revision number."""


class UnloadedStacks:
    """The Stacks without a reconciler, and the due times of the others."""

    def __init__(self, services: Services, *, unload: Callable[[str], UnloadedStack | None]) -> None:
        """unload: discards the reconciler of a Stack and returns the state to keep, or None if the Stack is not idle."""
        self._services = services
        self._unload = unload
        self._due: dict[str, float] = {}
        """Monotonic time in seconds of the next check of each loaded Stack."""
        self._looks: dict[str, int] = {}
        """Number of checks of each Stack since its last event in which it was not idle."""
        self._unloaded: dict[str, UnloadedStack] = {}
        self._loads: dict[str, int] = {}
        """Number of times that each Stack was loaded again."""
        self._schemas: dict[Kind, Mapping[str, Any] | None] = {}
        """The kinds of unloaded Stacks, with the schemas used to assess their health."""
        self._next = math.inf
        """Monotonic time in seconds of the next check. Infinite if no Stack is due."""
        self._cancel: Callable[[], None] = lambda: None

    def __contains__(self, uid: object) -> bool:
        """Return whether the Stack is unloaded."""
        return uid in self._unloaded

    def stop(self) -> None:
        """Stop unloading."""
        self._due.clear()
        self._cancel()

    def postpone(self, uid: str) -> None:
        """Note an event or a status of a loaded Stack."""
        self._looks.pop(uid, None)
        self._arm(self._plan(uid))

    def _plan(self, uid: str) -> float:
        """Schedule the next check of the Stack, and return its time."""
        exponent = min(self._loads.get(uid, 0) + self._looks.get(uid, 0), 16)
        due = self._services.clock.monotonic() + min(UNLOAD_AFTER * GROWTH**exponent, LONGEST)
        self._due[uid] = due
        return due

    def _arm(self, due: float, *, interval: float = INTERVAL) -> None:
        """Look at the Stacks that are due no later than that, some at a time."""
        if due >= self._next:
            return
        self._cancel()
        pause = max(interval, due - self._services.clock.monotonic())
        self._next = self._services.clock.monotonic() + pause
        self._cancel = self._services.clock.call_later(pause, self._check_timers)

    def load(self, uid: str) -> UnloadedStack | None:
        """Return the kept state of an unloaded Stack, or None if it was loaded. The caller creates its reconciler."""
        found = self._unloaded.pop(uid, None)
        if found is not None:
            self._loads[uid] = self._loads.get(uid, 0) + 1
        return found

    def forget(self, uid: str) -> None:
        """Drop a deleted Stack."""
        for table in (self._due, self._looks, self._unloaded, self._loads):
            table.pop(uid, None)

    def handle(self, event: Broadcast) -> None:
        """Enqueue the unloaded Stacks that an event may concern. Other broadcast events do not affect them."""
        if isinstance(event, KindsChanged):
            self._enqueue_users({kind for kind, schema in self._schemas.items() if self._find_schema(kind) != schema})
        elif isinstance(event, RuleChange):
            self._enqueue_users({kind for kind in self._schemas if event.touches(kind)})

    def _enqueue_users(self, kinds: Collection[Kind]) -> None:
        if not kinds:
            return
        for kind in kinds:
            del self._schemas[kind]
        for uid, each in self._unloaded.items():
            if not each.kinds.isdisjoint(kinds):
                self._services.queue.enqueue(uid, DirtyScope.ALL_RESOURCES)

    def _find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        kinds = self._services.workload_cluster.kinds
        return kinds.find_schema(kind) if kinds.find(kind.api_version, kind.name) == kind else None

    def _check_timers(self) -> None:
        """Unload idle Stacks that are due, as many as time permits."""
        clock = self._services.clock
        now, self._next = clock.monotonic(), math.inf
        interval = INTERVAL
        for uid in [uid for uid, due in self._due.items() if due <= now]:
            self._unload_one(uid)
            if clock.monotonic() - now > SECONDS_PER_LOOK:
                interval = PAUSE
                break
        self._arm(min(self._due.values(), default=math.inf), interval=interval)

    def _unload_one(self, uid: str) -> None:
        found = self._unload(uid) if uid not in self._services.queue else None
        if found is None:
            self._looks[uid] = self._looks.get(uid, 0) + 1
            self._plan(uid)
            return
        del self._due[uid]
        self._looks.pop(uid, None)
        self._unloaded[uid] = found
        for kind in found.kinds - self._schemas.keys():
            self._schemas[kind] = self._find_schema(kind)


class UnsettledStacks:
    """Polls for kinds that Stacks wait for, and releases retry triggers that no Stack waits for."""

    def __init__(self, services: Services, *, on_clusters: Callable[[Collection[str]], None]) -> None:
        """on_clusters: called now and then with the keys of the clusters in use."""
        self._services = services
        self._on_clusters = on_clusters
        self._reconcilers: dict[str, StackReconciler] = {}
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        """The running searches for kinds, by cluster."""
        self._awaited: dict[str, set[RetryTrigger]] = {}
        """The awaited retry triggers, by cluster."""

    def start(self) -> None:
        """Start polling."""
        self._look_for_kinds()
        self._look_at_causes()

    async def stop(self) -> None:
        """Stop at once."""
        running = list(self._refreshing.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._reconcilers.clear()

    def note(self, uid: str, reconciler: StackReconciler) -> None:
        """Record whether a Stack may wait after a reconcile."""
        if reconciler.is_unsettled:
            self._reconcilers[uid] = reconciler
        else:
            self._reconcilers.pop(uid, None)

    def add(self, uid: str, reconciler: StackReconciler) -> None:
        """Record that a Stack may wait, because its reconcile failed."""
        self._reconcilers[uid] = reconciler

    def forget(self, uid: str) -> None:
        """Drop a Stack that is deleted or idle."""
        self._reconcilers.pop(uid, None)

    def _look_for_kinds(self) -> None:
        """Poll for new kinds while any Stack waits for one."""
        self._services.clock.call_later(KIND_POLL_INTERVAL, self._look_for_kinds)
        waiting = [uid for uid, each in self._reconcilers.items() if each.is_waiting_for_kinds]
        links = {link.key: link for link in map(self._services.find_link, waiting)}
        for link in links.values():
            running = self._refreshing.get(link.key)
            if running is None or running.done():
                refresh = functools.partial(self._refresh_kinds, link.cluster)
                self._refreshing[link.key] = supervision.spawn("discovery", refresh, name="look for kinds")
        self._refreshing = {key: task for key, task in self._refreshing.items() if not task.done()}

    async def _refresh_kinds(self, cluster: ClusterKinds) -> None:
        # If the server does not answer, the next poll asks again.
        with contextlib.suppress(ApiStatusError, Unreachable):
            await cluster.refresh_kinds()

    def _look_at_causes(self) -> None:
        """Release retry triggers that no Stack has awaited since the last check."""
        self._services.clock.call_later(TRIGGER_RETENTION, self._look_at_causes)
        awaited: dict[str, set[RetryTrigger]] = {HOME: self._services.read_rights.watched}
        for uid, each in self._reconcilers.items():
            awaited[HOME] |= each.definition.schedule.awaited
            awaited.setdefault(self._services.find_link(uid).key, set()).update(each.awaited_triggers())
        before, self._awaited = self._awaited, awaited
        clusters = {HOME: self._services.workload_cluster, **self._services.links.remotes()}
        for key, cluster in clusters.items():
            cluster.retain_triggers(awaited.get(key, set()) | before.get(key, set()))
        self._on_clusters(clusters)
