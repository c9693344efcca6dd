"""Objects that one Stack reads besides its children: external objects, its sources, and the owners of fields.

External objects are followed in the cluster of the Stack's objects, and define the members of its collections. The
owner of a field is looked up with a GET for each of the few resources whose conditions name one. The cache stores only
the operator's own part of `managedFields`, because the other parts would be larger than the rest of a child.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Iterable, Mapping

from hearth import answers
from hearth.engine import relatives
from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import ClusterKinds, WorkloadCluster
from hearth.engine.read_circles import NO_READING, Maker, StackReading
from hearth.engine.services import Services
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import members, names, retry_delays, value_class
from hearth.model import signatures as signatures_module
from hearth.model.child import Child
from hearth.model.external_objects import ExternalQuery
from hearth.model.signatures import Signatures
from hearth.model.tenancy import Boundary
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.resource import external_status, reverted_values
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.plan.retry.step_governor import Work, WorkType
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.member_growth import GrowthLimit
from hearth.plan.state.requirements import ExternalStatus
from hearth.plan.state.resource_status import ManagerQuery
from hearth.template.blueprint import Blueprint, ReadValue

LOOK_UP = "holder of "
"""Prefix of the names of the tasks that read the owner of a field."""


class StackReads(StackPart):
    """The objects that a Stack reads, and the members that they define."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self.growth_limits: Mapping[str, GrowthLimit] = {}
        """The limits of collections whose elements are made from their own members, by collection."""
        self._made_of: dict[str, ExternalStatus] = {}
        """The external objects that the members were last made from, by name."""
        self._next_question = 0.0
        """Monotonic time in seconds of the next allowed question."""
        self._queries: dict[str, ExternalQuery] = {}
        """The queries for the followed objects, by name."""
        self._cluster: WorkloadCluster | None = None
        """The cluster of the followed objects."""
        self._makers: dict[str, ReadMakers] = {}
        """The creators of the read objects, by name."""
        self._inputs: tuple[Blueprint | None, Mapping[str, Inputs]] = (None, {})
        """A blueprint, and the inputs of its resources."""
        self._traced: TracedMakers | None = None

    def follow(self, stack: StackObject, planner: StackPlanner, boundary: Boundary) -> set[str]:
        """Follow the objects that the planner reads within the boundary, and no others; return the names that are read
        differently than before.

        An object that is no longer followed sends no events, so it must be assessed at once.
        """
        if not planner.blueprint.externals and self._cluster is None:
            return set()
        cluster = self._services.find_link(self._uid).cluster
        if self._cluster is not cluster:
            self._leave()
        self._cluster = cluster if planner.blueprint.externals else None
        before, self._queries = self._queries, planner.find_queries(boundary)
        cluster.follow_externals(self._uid, self._queries, namespace=stack.namespace)
        known = before.keys() | self._queries.keys()
        return {name for name in known if before.get(name) != self._queries.get(name)}

    def make_members(self, planner: StackPlanner) -> None:
        """Request a new compilation if inputs of members changed. While these cannot be read, all members stay."""
        for uid in self._services.circles.note(self._uid, self._trace(planner)):
            self._services.queue.enqueue(uid, DirtyScope.STACK)
        if self.limit_growth(planner):
            self._services.queue.enqueue(self._uid, DirtyScope.STACK)
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

    def _trace(self, planner: StackPlanner) -> StackReading:
        """Return the objects of other Stacks that the Stack reads."""
        stacks = self._find_read_stacks(planner)
        if not planner.blueprint.externals:
            return StackReading(stacks=stacks) if stacks else NO_READING
        reads = tuple(map(planner.externals.get, planner.blueprint.externals))
        is_complete = all(read is not None and read.status.reason != external_status.READING for read in reads)
        nested = {
            status.child.uid: members.root_of(name)
            for name in planner.nested
            if (status := planner.statuses.get(name)) is not None and status.child is not None
        }
        makers = self._trace_makers(planner, reads, nested)
        return StackReading(stacks=stacks, makers=makers, nested=nested, is_complete=is_complete)

    def _trace_makers(
        self, planner: StackPlanner, reads: tuple[ExternalStatus | None, ...], nested: Mapping[str, str]
    ) -> Mapping[str, frozenset[Maker]]:
        """Return the makers of the objects that each resource is made from; traced only when something it reads changed.

        reads: of all external objects, in the order of the blueprint; nested: resources by UID of a nested Stack.
        """
        blueprint, known = planner.blueprint, self._traced
        is_known = known is not None and known.blueprint is blueprint and known.nested == nested
        if known is not None and is_known and all(map(operator.is_, known.reads, reads)):
            return known.makers
        makers = {
            root: frozenset(
                maker for name in read.externals for maker in self._count_makers(name, planner) if maker is not None
            )
            | {(uid, "") for uid, resource in nested.items() if resource in read.resources}
            for root, read in self._find_inputs(blueprint).items()
        }
        makers = {root: each for root, each in makers.items() if each}
        self._traced = TracedMakers(blueprint=blueprint, reads=reads, nested=nested, makers=makers)
        return makers

    def _find_inputs(self, blueprint: Blueprint) -> Mapping[str, Inputs]:
        if self._inputs[0] is not blueprint:
            self._inputs = (blueprint, find_inputs(blueprint))
        return self._inputs[1]

    def _count_makers(self, name: str, planner: StackPlanner) -> Counter[Maker | None]:
        """Return how many objects that are read by this name each resource of a Stack made; None: no Stack made them."""
        read = planner.externals.get(name)
        known = self._makers.get(name)
        if read is None:
            return Counter()
        if known is None or known.status is not read:
            proven = known.proven if known is not None else {}
            found = {
                (child.uid, child.signature): proven[child.uid, child.signature]
                if (child.uid, child.signature) in proven
                else find_maker(child, self._services.hashes)
                for child in read.objects
            }
            makers = Counter(found.values())
            makers.update(
                (child.uid, "") for child in read.objects if names.is_stack(child.kind.group, child.kind.name)
            )
            known = self._makers[name] = ReadMakers(status=read, proven=found, makers=makers)
        return known.makers

    def limit_growth(self, planner: StackPlanner) -> bool:
        """Update the limits of collections whose elements are made from their own members; return whether they changed."""
        lists = (name for name, each in planner.blueprint.externals.items() if each.makes_members)
        if any((read := planner.externals.get(name)) is None or not read.status.is_ready for name in lists):
            # Keep the limits while a list is not read.
            return False
        before, self.growth_limits = self.growth_limits, self._find_limits(planner)
        return before != self.growth_limits

    def _find_limits(self, planner: StackPlanner) -> dict[str, GrowthLimit]:
        """Return the limits of collections whose lists contain objects that are made from their own members."""
        blueprint = planner.blueprint
        listed: Counter[Maker | None] = Counter()
        for name, external in blueprint.externals.items():
            if external.makes_members:
                listed.update(self._count_makers(name, planner))
        live = find_live(blueprint)
        is_nested = bool(blueprint.collections) and bool(self.find_parent(self._uid))
        given = [name for name in blueprint.collections if name not in live] if is_nested else []
        growing = self._services.circles.find_growing(
            *(self._uid, listed), live=live if listed else (), given=given, others=self
        )
        return {
            root: GrowthLimit(
                most=each.most, makers=enumerate_names(name_stacks(each.stacks, self._uid, self._services))
            )
            for root, each in growing.items()
        }

    def find_parent(self, uid: str) -> str:
        """Return the UID of the Stack in which that one is nested, "" for none."""
        node = self._services.management_cluster.tree.find(uid)
        return node.parent if node is not None and relatives.is_proven(node, self._services) else ""

    def is_awaited(self, uid: str) -> bool:
        """Return whether this process is about to load a Stack. Idle ones read nothing."""
        stacks = self._services.management_cluster
        is_own = stacks.find_stack(uid) is not None and not stacks.is_other_shard_uid(uid)
        return is_own and not self._services.relatives.is_idle(uid)

    def _find_read_stacks(self, planner: StackPlanner) -> frozenset[str]:
        """Return the Stacks whose objects are read, and waiting Stacks that will create an object to read.

        Only existing objects show their owner, but all Stacks of a circle may wait before any of the objects exists.
        """
        sources = self._services.management_cluster.find_source_creators(self._uid)
        if not planner.externals:
            self._services.circles.note_waiting(self._uid, None)
            return sources
        circles, relations = self._services.circles, self._services.relatives
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
        return sources | find_owners(planner) | relations.find_creators(missing, circles.waiting)

    @property
    def may_ask(self) -> bool:
        """Whether the operator may ask now whether kinds still exist."""
        return self._services.clock.monotonic() >= self._next_question

    async def ask(self, planner: StackPlanner) -> None:
        """Before members of a collection are deleted, check whether the kinds that define them are still served."""
        cluster, delay = self._services.find_link(self._uid).cluster, retry_delays.KIND_REMOVAL.first
        now = self._services.clock.monotonic()
        self._next_question = now + delay
        for collection in self._removals.list_questions(now=now):
            if not await self._is_going(cluster, planner):
                self._removals.confirm(collection)
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)
        self._services.enqueue_after(delay, self._uid, DirtyScope.STACK)

    async def _is_going(self, cluster: ClusterKinds, planner: StackPlanner) -> bool:
        """Whether any kind that defines members is no longer served, or may stop being served in a moment."""
        for name, external in planner.blueprint.externals.items():
            status = planner.externals.get(name)
            kind = cluster.kinds.find(external.api_version, external.kind)
            if not external.makes_members:
                continue
            if kind is None or status is None or not status.status.is_ready:
                return True
            if await answers.find_answer(cluster.is_kind_going(kind), otherwise=True):
                return True
        return False

    @property
    def is_looking_up(self) -> bool:
        """Whether the owner of a field is being read."""
        return self._tasks.is_any_running(LOOK_UP)

    def look_up_managers(self, planner: StackPlanner, *, backoff: BackoffPolicy) -> float:
        """Start the lookups that the last reconcile requested; each answer enqueues its resource.

        Returns the seconds until the next one that is delayed, because others about the same resource went before it; 0 for
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
        raw = await answers.find_answer(self._services.find_cluster(stack).get(child.ref, kind=child.kind), None)
        if raw is not None and raw["metadata"]["uid"] != child.uid:
            return
        # If unreadable, the condition reports no owner until other fields are lost.
        owners = reverted_values.UNREADABLE if raw is None else reverted_values.describe_managers(raw, query)
        self._memory.field_managers[child.uid] = (query.lost, owners)
        self._services.queue.enqueue(self._uid, name)

    def close(self) -> None:
        """Stop following all objects, and drop the inputs of members."""
        self._definition_sync.builder.read.pop(self._uid, None)
        self._definition_sync.builder.large.discard(self._uid)
        self._makers.clear()
        self._inputs = (None, {})
        self._traced = None
        self._services.circles.note(self._uid, None)
        self._services.circles.note_waiting(self._uid, None)
        self._leave()

    def _leave(self) -> None:
        if self._cluster is not None:
            self._cluster.follow_externals(self._uid, {}, namespace="")
            self._cluster = None


def find_owners(planner: StackPlanner) -> frozenset[str]:
    """Return the UIDs of Stacks that are read or whose objects are read, according to labels."""
    found = (child for read in planner.externals.values() for child in read.objects)
    return frozenset(
        child.uid if names.is_stack(child.kind.group, child.kind.name) else child.stack_uid
        for child in found
        if child.stack_uid or names.is_stack(child.kind.group, child.kind.name)
    )


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ReadMakers:
    """The creators of the objects read under one name. Verified once, because anyone can set the labels."""

    status: ExternalStatus
    proven: Mapping[tuple[str, str], Maker | None]
    """By UID and signature of an object: its creator, or None if no Stack created it."""
    makers: Counter[Maker | None]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TracedMakers:
    """The makers of the objects that each resource of a blueprint is made from, and the values they were traced from."""

    blueprint: Blueprint
    reads: tuple[ExternalStatus | None, ...]
    nested: Mapping[str, str]
    makers: Mapping[str, frozenset[Maker]]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of one resource or collection, directly or through other resources."""

    externals: frozenset[str]
    resources: frozenset[str]


def find_inputs(blueprint: Blueprint) -> dict[str, Inputs]:
    """Return the inputs of each resource, by name in the template."""
    externals: dict[str, set[str]] = {}
    required: dict[str, set[str]] = {}
    lists = {name for name, each in blueprint.externals.items() if each.makes_members}
    live = find_live(blueprint)
    for name in (*blueprint.collections, *blueprint.unresolved):
        externals[name] = set(lists) if name in live else set()
        required[name] = set()
    # In dependency order, so that the inputs of required resources are complete.
    for name, resource in blueprint.resources.items():
        root = members.root_of(name)
        externals.setdefault(root, set()).update(resource.externals)
        required.setdefault(root, set()).update(map(members.root_of, resource.requires))
    order = sorted(required, key=lambda root: find_position(root, blueprint))
    for root in order:
        for name in tuple(required[root]):
            externals[root] |= externals.get(name, set())
            required[root] |= required.get(name, set())
    return {
        root: Inputs(externals=frozenset(externals[root]), resources=frozenset(required[root])) for root in required
    }


def find_live(blueprint: Blueprint) -> list[str]:
    """Return the collections that are made from lists, including lists that are not read yet."""
    found = (name for name, each in blueprint.collections.items() if each.max_removed is not None)
    return [*found, *blueprint.unresolved]


def find_position(root: str, blueprint: Blueprint) -> int:
    """Return the position of a resource or collection in the dependency order."""
    collection, resource = blueprint.collections.get(root), blueprint.resources.get(root)
    if collection is not None:
        return collection.index
    return resource.index if resource is not None else 0


def find_maker(child: Child, signatures: Signatures) -> Maker | None:
    """Return the resource that created an object, if the signature proves it."""
    if not child.stack_uid or not child.signature:
        return None
    identity = names.identity(
        stack_uid=child.stack_uid,
        group=child.kind.group,
        kind=child.kind.name,
        namespace=child.namespace,
        name=child.name,
    )
    facts = signatures_module.read(identity, child.signature, signatures=signatures)
    return (child.stack_uid, members.root_of(facts.resource)) if facts is not None else None


def name_stacks(uids: Iterable[str], own: str, services: Services) -> tuple[str, ...]:
    """Return the names of Stacks for messages of another Stack. Stacks in other namespaces are not named."""
    place, found = services.find_namespace(own), list[str]()
    for each in uids:
        stack = services.management_cluster.find_stack(each)
        is_near = stack is not None and stack.namespace == place
        near = "this Stack" if each == own else f"Stack {stack.name}" if stack is not None else ""
        found.append(near if is_near else "a Stack of another namespace")
    return tuple(found)


def name_circle(uid: str, services: Services) -> tuple[str, ...]:
    """Return the Stacks in the circle of reads around a Stack that may be named, or () if there is no circle."""
    return name_stacks(services.circles.find(uid), uid, services)
