"""Which Stacks have no reconciler in memory because they were idle, and which are due for that.

Must not know what a reconciler holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Set
from typing import Any, Final

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.services import Services
from hearth.engine.stack.cache_sync import CacheSync
from hearth.engine.work_queue import Broadcast, DirtyScope, KindsChanged
from hearth.model import value_class
from hearth.model.kinds import Kind
from hearth.plan.health.health_rules import RuleChange
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState

UNLOAD_AFTER: Final = 0.1
"""Seconds after its last event or status until a Stack is unloaded for the first time. In a burst of new Stacks those
that are complete make room for the others."""
GROWTH: Final = 4.0
"""Factor by which that time grows each time that an event loads the Stack again: to load costs more than to keep."""
LONGEST: Final = 3600.0
"""Seconds without an event after which any idle Stack is unloaded."""
INTERVAL: Final = 0.05
"""Seconds between two looks for Stacks that are due."""
PAUSE: Final = 0.02
"""Seconds until the next look if more are due than one look has time for."""
SECONDS_PER_LOOK: Final = 0.01
"""Time that one look may take, so that no event waits for long. A Stack takes a fifth of a millisecond."""


@value_class.dataclass(frozen=True, slots=True)
class UnloadedStack:
    """What is kept of a Stack without a reconciler."""

    stack: StackObject
    """With the status that the operator wrote last. Another writer may change that of the live Stack meanwhile."""
    kinds: frozenset[Kind]
    """The kinds of its objects."""
    names: Mapping[int, Set[str]]
    """The resource names of its revision, by the number of that."""


class UnloadedStacks:
    """The Stacks without a reconciler, and the times at which the others are due."""

    def __init__(self, services: Services, *, unload: Callable[[str], UnloadedStack | None]) -> None:
        """unload: discards the reconciler of a Stack and returns what is kept; None if the Stack is not idle."""
        self._services = services
        self._unload = unload
        self._due: dict[str, float] = {}
        """By loaded Stack: monotonic time in seconds of the next look at it."""
        self._looks: dict[str, int] = {}
        """How often each Stack was not idle since its last event."""
        self._unloaded: dict[str, UnloadedStack] = {}
        self._loads: dict[str, int] = {}
        """How often each Stack was loaded again."""
        self._schemas: dict[Kind, Mapping[str, Any] | None] = {}
        """The kinds of unloaded Stacks, with the schemas that their health was assessed by."""
        self._next = math.inf
        """Monotonic time in seconds of the next look; infinite if no Stack is due."""
        self._cancel: Callable[[], None] = lambda: None

    def __contains__(self, uid: object) -> bool:
        """Return whether the Stack is unloaded."""
        return uid in self._unloaded

    def stop(self) -> None:
        """Unload nothing more."""
        self._due.clear()
        self._cancel()

    def postpone(self, uid: str) -> None:
        """Note an event or a status of a loaded Stack."""
        self._looks.pop(uid, None)
        self._arm(self._plan(uid))

    def _plan(self, uid: str) -> float:
        """Return when to look at the Stack again."""
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
        self._cancel = self._services.clock.call_later(pause, self._look)

    def load(self, uid: str) -> UnloadedStack | None:
        """Return what was kept of an unloaded Stack; None if it was loaded. The caller creates its reconciler."""
        found = self._unloaded.pop(uid, None)
        if found is not None:
            self._loads[uid] = self._loads.get(uid, 0) + 1
        return found

    def forget(self, uid: str) -> None:
        """Drop a deleted Stack."""
        for table in (self._due, self._looks, self._unloaded, self._loads):
            table.pop(uid, None)

    def handle(self, event: Broadcast) -> None:
        """Enqueue the unloaded Stacks that an event may concern. They depend on nothing else that is broadcast."""
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

    def _look(self) -> None:
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


# Whether a Stack is idle: nothing is in progress, no timer runs, and all that its reconciler holds can be made again.

MAX_RESOURCES = 100
"""Resources of a Stack that may be unloaded. To load a larger one takes noticeably longer than most events."""


def find_kinds(
    planner: StackPlanner, memory: InMemoryState, definition_sync: DefinitionSync, *, cache_sync: CacheSync
) -> Collection[Kind] | None:
    """Return the kinds that the state of an idle Stack depends on; None if it is not idle."""
    is_idle = (
        is_plan_idle(planner)
        and is_definition_idle(definition_sync)
        and memory.is_replaceable(definition_sync.services.clock.monotonic())
        and cache_sync.is_synced
    )
    return cache_sync.find_required_watches(planner.blueprint) if is_idle else None


def is_plan_idle(planner: StackPlanner) -> bool:
    """Return whether the target is reached without anything to report, and soon planned again."""
    return (
        planner.is_complete
        and not planner.is_suspended
        and not planner.requeues
        and not planner.preserved
        and not planner.withheld
        # Without a reconciler, nothing follows what the Stack only reads.
        and not planner.blueprint.externals
        and not any(planner.conditions.by_type.values())
        and len(planner.blueprint.resources) <= MAX_RESOURCES
    )


def is_definition_idle(definition_sync: DefinitionSync) -> bool:
    """Return whether the definition in the spec is in use and depends on nothing else, in the management cluster.

    A Stack that was rolled back would read its revision again when it is loaded.
    """
    targets = definition_sync.targets
    target = targets.current
    return (
        definition_sync.rejection is None
        and not definition_sync.is_deleting
        and not definition_sync.options.is_paused
        and not definition_sync.revisions.tampered
        and not definition_sync.refreshed_parameters
        and not definition_sync.hidden_texts
        and definition_sync.schedule.is_idle
        and target is not None
        and target.is_completed
        and not target.is_rollback
        and targets.is_persisted
        and not targets.is_resumed
        and not definition_sync.services.find_link(definition_sync.uid).is_remote
    )
