"""Objects that one Stack reads, other than its children: external objects, and the owners of fields that conditions
name.

External objects are followed in the cluster of the Stack's objects, and define the members of its collections. The
owner of a field is one GET for each of the few named resources: the cache stores only the operator's own part of
`managedFields`, since the other parts would outweigh the rest of a child. Must not know the watches, nor the use of the
objects in the plan.
"""

from __future__ import annotations

import functools

from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import ClusterKinds, WorkloadCluster
from hearth.engine.services import Services
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import names, packing
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.external_objects import ExternalQuery
from hearth.plan.resource import reverted_values
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.plan.retry.step_governor import Work, WorkType
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.requirements import ExternalStatus
from hearth.plan.state.resource_status import ManagerQuery
from hearth.template.blueprint import ReadValue

ASK_AGAIN = 2.0
"""Seconds until the operator asks again whether a kind is being removed."""
LOOK_UP = "holder of "
"""How the names of the tasks begin that read the owner of a field."""


class StackReads(StackPart):
    """The objects that a Stack reads, and the members that they define."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self._made_of: dict[str, ExternalStatus] = {}
        """The objects that the members were last made from, by name."""
        self._next_question = 0.0
        """Monotonic time in seconds before which nothing is asked."""
        self._queries: dict[str, ExternalQuery] = {}
        """The followed objects, by name."""
        self._cluster: WorkloadCluster | None = None
        """The cluster of the followed objects."""

    def follow(self, stack: StackObject, planner: StackPlanner) -> set[str]:
        """Follow the objects that the planner reads, and no others; return the names that are read differently than
        before.

        An object that is no longer followed sends no events, so it must be assessed at once.
        """
        if not planner.blueprint.externals and self._cluster is None:
            return set()
        cluster = self._services.find_link(self._uid).cluster
        if self._cluster is not cluster:
            self._leave()
        self._cluster = cluster if planner.blueprint.externals else None
        before, self._queries = self._queries, planner.find_queries()
        cluster.follow_externals(self._uid, self._queries, namespace=stack.namespace)
        planner.set_external_views(functools.partial(cluster.find_external, self._uid))
        known = before.keys() | self._queries.keys()
        return {name for name in known if before.get(name) != self._queries.get(name)}

    def make_members(self, planner: StackPlanner) -> None:
        """Have the definition compiled again if what members are made of changed; while that cannot be read, all stay."""
        for uid in self._services.circles.note(self._uid, self._find_read_stacks(planner)):
            self._services.queue.enqueue(uid, DirtyScope.STACK)
        known = self._definition_sync.builder.read.get(self._uid, {})
        found = dict(known)
        for name, external in planner.blueprint.externals.items():
            status = planner.externals.get(name)
            if not external.makes_members or status is None or self._made_of.get(name) is status:
                continue
            self._made_of[name] = status
            if status.fields is not None:
                found[name] = ReadValue.of(external, status.fields)
        if found != known:
            self._definition_sync.builder.read[self._uid] = found
            self._definition_sync.schedule.request()
            self._services.queue.enqueue(self._uid, DirtyScope.STACK)

    def _find_read_stacks(self, planner: StackPlanner) -> frozenset[str]:
        """Return the Stacks whose objects are read, and those that wait as well and are to create such an object.

        Only the objects that exist tell whose they are. Stacks of a circle may all wait before any of them exists.
        """
        if not planner.externals:
            self._services.circles.note_waiting(self._uid, None)
            return packing.NOTHING
        circles, relatives = self._services.circles, self._services.relatives
        is_waiting = any(not read.status.is_ready for read in planner.externals.values())
        missing = frozenset(
            read.ref
            for read in planner.externals.values()
            if read.ref is not None and read.ref.name and not read.objects and not read.status.is_ready
        )
        if circles.note_waiting(self._uid, missing if is_waiting else None) and is_waiting:
            for uid, awaited in circles.waiting.items():
                if uid != self._uid and any(map(planner.wanted.may_create, awaited)):
                    self._services.queue.enqueue(uid, DirtyScope.STACK)
        return find_owners(planner) | relatives.find_creators(missing, circles.waiting)

    def find_questions(self, planner: StackPlanner) -> list[str]:
        """Return the collections that only wait for one answer: whether the kinds they are made from still exist."""
        now = self._services.clock.monotonic()
        return planner.removals.list_questions(now=now) if now >= self._next_question else []

    async def ask(self, planner: StackPlanner) -> None:
        """Ask whether the kinds go whose objects make members, before members go."""
        cluster = self._services.find_link(self._uid).cluster
        now = self._services.clock.monotonic()
        self._next_question = now + ASK_AGAIN
        for collection in planner.removals.list_questions(now=now):
            if not await self._is_going(cluster, planner):
                planner.removals.confirm(collection)
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)
        self._services.clock.call_later(ASK_AGAIN, lambda: self._services.queue.enqueue(self._uid, DirtyScope.STACK))

    async def _is_going(self, cluster: ClusterKinds, planner: StackPlanner) -> bool:
        """Whether any kind that defines members is no longer served, or may stop being served in a moment."""
        for name, external in planner.blueprint.externals.items():
            status = planner.externals.get(name)
            kind = cluster.kinds.find(external.api_version, external.kind)
            if not external.makes_members:
                continue
            if kind is None or status is None or not status.status.is_ready:
                return True
            try:
                if await cluster.is_kind_going(kind):
                    return True
            except (ApiStatusError, Unreachable):
                return True
        return False

    @property
    def is_looking_up(self) -> bool:
        """Whether the owner of a field is being read."""
        return self._tasks.is_any_running(LOOK_UP)

    def look_up_managers(self, planner: StackPlanner, *, backoff: BackoffPolicy) -> float:
        """Start the lookups that the last reconcile requested; each answer enqueues its resource.

        Returns the seconds until the next one that is delayed, since others about the same resource went before it; 0 for
        none.
        """
        memory = self._memory
        if not memory.manager_queries:
            return 0.0
        now, delays = self._services.clock.monotonic(), []
        named = {name for type_ in planner.conditions.by_type for name in planner.conditions.first(type_)}
        for name in named & memory.manager_queries.keys():
            work = Work(resource=name, type=WorkType.LOOK_UP)
            if (due := memory.governor.find_due(work)) > now:
                delays.append(due - now)
                continue
            memory.governor.count(work, now=now, backoff=backoff)
            look_up = functools.partial(self._look_up_manager, name, memory.manager_queries.pop(name))
            self._tasks.run(f"{LOOK_UP}{name}", look_up)
        return min(delays, default=0.0)

    async def _look_up_manager(self, name: str, query: ManagerQuery) -> None:
        child, stack = query.child, self._services.management_cluster.find_stack(self._uid)
        if stack is None or self._services.find_boundary(stack).find_denial(child.ref):
            return
        try:
            raw = await self._services.find_cluster(stack).get(child.ref, kind=child.kind)
        except (ApiStatusError, Unreachable):
            # The condition names no owner until other fields are lost.
            found = reverted_values.UNREADABLE
        else:
            if raw["metadata"]["uid"] != child.uid:
                return
            found = reverted_values.describe_managers(raw, query)
        self._memory.field_managers[child.uid] = (query.lost, found)
        self._services.queue.enqueue(self._uid, name)

    def close(self) -> None:
        """Stop following everything, and forget the objects that members were made from."""
        self._definition_sync.builder.read.pop(self._uid, None)
        self._definition_sync.builder.large.discard(self._uid)
        self._services.circles.note(self._uid, packing.NOTHING)
        self._services.circles.note_waiting(self._uid, None)
        self._leave()

    def _leave(self) -> None:
        if self._cluster is not None:
            self._cluster.follow_externals(self._uid, {}, namespace="")
            self._cluster = None


def find_owners(planner: StackPlanner) -> frozenset[str]:
    """Return the UIDs of the Stacks whose objects are read, and of those that are read themselves, as labels tell."""
    found = (child for read in planner.externals.values() for child in read.objects)
    return frozenset(
        child.uid if names.is_stack(child.kind.group, child.kind.name) else child.stack_uid
        for child in found
        if child.stack_uid or names.is_stack(child.kind.group, child.kind.name)
    )


def name_circle(uid: str, services: Services) -> tuple[str, ...]:
    """Return the Stacks, of those that may be named, in the circle of reads around a Stack; () without one."""
    own, found = services.find_namespace(uid), []
    for each in services.circles.find(uid):
        stack = services.management_cluster.find_stack(each)
        is_near = stack is not None and stack.namespace == own
        found.append(f"Stack {stack.name}" if stack is not None and is_near else "a Stack of another namespace")
    return tuple(found)
