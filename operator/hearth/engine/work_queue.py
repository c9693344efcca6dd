"""The queue of Stacks to reconcile. An entry only names the dirty parts of a Stack, so a duplicate changes nothing."""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable
from typing import TypeAlias

from hearth.model import value_class
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.turns import NamespaceLine
from hearth.plan.health.health_rules import RuleChange
from hearth.plan.retry.retry_triggers import RetryTrigger


class DirtyScope(enum.Enum):
    """Dirty parts of a Stack other than single resources. A closed set."""

    ALL_RESOURCES = "all resources"
    STACK = "stack"
    """The Stack object itself, or a source of its definition."""
    REVISIONS = "revisions"
    """The ControllerRevisions with the Stack's label."""
    EVALUATED = "evaluated"
    """All resources that wait for an evaluation."""

    # `enum.Enum` implements `__hash__` in Python, and every event hashes a scope.
    __hash__ = object.__hash__


DirtyItem: TypeAlias = DirtyScope | str
"""A scope, or the name of a resource, or the key of a step."""


@value_class.dataclass(frozen=True, slots=True)
class KindsChanged:
    """The set of served kinds changed."""


@value_class.dataclass(frozen=True, slots=True)
class CacheSynced:
    """The cache of a kind now contains the requested fields."""

    kind: Kind


@value_class.dataclass(frozen=True, slots=True)
class SourceChanged:
    """A source of definitions changed."""

    ref: ObjectRef


@value_class.dataclass(frozen=True, slots=True)
class ClusterStateChanged:
    """Another cluster was reached for the first time, went away or came back."""


@value_class.dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event in another cluster, which concerns only its Stacks."""

    key: str
    """The key of the cluster."""
    event: KindsChanged | CacheSynced | RetryTrigger | ClusterStateChanged


Broadcast: TypeAlias = KindsChanged | CacheSynced | SourceChanged | RuleChange | RetryTrigger | ClusterEvent
"""An event that does not name a single Stack. It concerns the home cluster, unless it names another one."""


class WorkQueue:
    """The queue of Stacks, and the `CacheListener` of the home cluster. Namespaces take turns, each with its Stacks in
    the order of arrival.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Create an empty queue. now: seconds that never jump."""
        self._now = now
        self._find_namespace: Callable[[str], str] = lambda _stack_uid: ""
        self._line = NamespaceLine()
        self._marks: dict[str, set[DirtyItem]] = {}
        self._since: dict[str, float] = {}
        self._arrived = asyncio.Event()
        self._broadcasts: set[Broadcast] = set()
        self._health_marks: set[str] = set()
        self._snapshots: set[str] = set()

    def __len__(self) -> int:
        """Return the number of queued Stacks."""
        return len(self._marks)

    def share_turns(self, find_namespace: Callable[[str], str]) -> None:
        """Let namespaces take turns from now on. The caches, which know the namespaces of Stacks, are created with this
        queue.
        """
        self._find_namespace = find_namespace

    def find_namespace(self, stack_uid: str) -> str:
        """Return the namespace of a Stack by its UID, or "" if it is unknown."""
        return self._find_namespace(stack_uid)

    def __contains__(self, stack_uid: object) -> bool:
        """Return whether that Stack waits for its reconcile."""
        return stack_uid in self._marks

    def enqueue(self, stack_uid: str, what: DirtyItem) -> None:
        """Enqueue the Stack with `what` as dirty."""
        marks = self._marks.get(stack_uid)
        if marks is None:
            self._marks[stack_uid] = {what}
            self._since[stack_uid] = self._now()
            self._line.add(self._find_namespace(stack_uid), stack_uid)
            self._arrived.set()
        else:
            marks.add(what)

    def on_child(self, stack_uid: str, resource: str) -> None:
        """Enqueue the resource of a child that was added, changed or deleted."""
        self.enqueue(stack_uid, resource)

    def on_stack(self, uid: str) -> None:
        """Enqueue a Stack that was added, changed or deleted."""
        self.enqueue(uid, DirtyScope.STACK)

    def on_revision(self, stack_uid: str) -> None:
        """Enqueue the Stack of a ControllerRevision that another writer added, changed or deleted."""
        self.enqueue(stack_uid, DirtyScope.REVISIONS)

    def on_plan(self, stack_uid: str) -> None:
        """Enqueue the Stack of a StackPlan that another writer added, changed or deleted."""
        self.enqueue(stack_uid, DirtyScope.STACK)

    def on_kinds(self) -> None:
        """Broadcast a change of the set of served kinds."""
        self._broadcast(KindsChanged())

    def on_synced(self, kind: Kind) -> None:
        """Broadcast that a cache now contains the requested fields."""
        self._broadcast(CacheSynced(kind))

    def on_rules(self, change: RuleChange) -> None:
        """Broadcast that the health of some kinds is assessed by new rules."""
        self._broadcast(change)

    def on_source(self, ref: ObjectRef) -> None:
        """Broadcast a changed source of definitions."""
        self._broadcast(SourceChanged(ref))

    def on_retry_trigger(self, trigger: RetryTrigger) -> None:
        """Broadcast a change of a retry trigger."""
        self._broadcast(trigger)

    def on_cluster_event(
        self, key: str, event: KindsChanged | CacheSynced | RetryTrigger | ClusterStateChanged
    ) -> None:
        """Broadcast an event in another cluster."""
        self._broadcast(ClusterEvent(key, event))

    def on_health_mark(self, uid: str) -> None:
        """Enqueue a HealthMark that was added, changed or deleted."""
        self._health_marks.add(uid)
        self._arrived.set()

    def take_health_marks(self) -> set[str]:
        """Return the UIDs of the HealthMarks added, changed or deleted since the last call."""
        taken, self._health_marks = self._health_marks, set()
        return taken

    def on_stack_snapshot(self, uid: str) -> None:
        """Enqueue a StackSnapshot that was added, changed or deleted, or one of its VolumeSnapshots."""
        self._snapshots.add(uid)
        self._arrived.set()

    def take_stack_snapshots(self) -> set[str]:
        """Return the UIDs of the StackSnapshots enqueued since the last call."""
        taken, self._snapshots = self._snapshots, set()
        return taken

    def _broadcast(self, what: Broadcast) -> None:
        self._broadcasts.add(what)
        self._arrived.set()

    def take_broadcasts(self) -> set[Broadcast]:
        """Return the events since the last call that name no single Stack."""
        taken, self._broadcasts = self._broadcasts, set()
        return taken

    def get(self) -> tuple[str, set[DirtyItem], float] | None:
        """Return the next Stack, its dirty parts and the time since when, or None if none waits."""
        if not self._line:
            if not self._broadcasts and not self._health_marks and not self._snapshots:
                self._arrived.clear()
            return None
        uid = self._line.pop()
        return uid, self._marks.pop(uid), self._since.pop(uid)

    async def wait(self) -> None:
        """Wait until a Stack, HealthMark or StackSnapshot is enqueued or an event is broadcast."""
        await self._arrived.wait()


class ClusterListener:
    """The `CacheListener` of another cluster's caches."""

    def __init__(self, queue: WorkQueue, key: str, *, is_user: Callable[[str], bool]) -> None:
        """key: of the cluster; is_user: whether the Stack of that UID uses it. The cluster may claim any UID."""
        self._queue = queue
        self._key = key
        self._is_user = is_user

    def on_child(self, stack_uid: str, resource: str) -> None:
        """Enqueue the resource of a child."""
        if self._is_user(stack_uid):
            self._queue.on_child(stack_uid, resource)

    def on_kinds(self) -> None:
        """Broadcast a change of the kinds that the cluster serves."""
        self._queue.on_cluster_event(self._key, KindsChanged())

    def on_synced(self, kind: Kind) -> None:
        """Broadcast that a cache now contains the requested fields."""
        self._queue.on_cluster_event(self._key, CacheSynced(kind))

    def on_retry_trigger(self, trigger: RetryTrigger) -> None:
        """Broadcast a change of a retry trigger."""
        self._queue.on_cluster_event(self._key, trigger)

    def on_state(self) -> None:
        """Broadcast that the cluster was reached, went away or came back."""
        self._queue.on_cluster_event(self._key, ClusterStateChanged())
