"""Coordinates the Stacks of one tree: finds the Stack that wants an object, and whether another Stack releases it.

To move an object from one Stack of a tree to another, the first Stack keeps it until the definitions of the other
Stacks are known. The Stack that names the object next takes it over with its UID. Only signatures prove that Stacks
belong to one tree, because anyone can write labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import ManagementStacks, WorkloadCluster
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model import containers, limits, names, signatures, value_class
from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.model.signatures import Signatures, Signer
from hearth.model.stack_tree import Node
from hearth.model.tenancy import Boundary
from hearth.plan.ownership import adoption
from hearth.plan.resource import step_planning
from hearth.plan.retry import retry_triggers
from hearth.plan.stack import cleanup
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.stack_tree import TreeClaim
from hearth.template.blueprint import Blueprint

HANDOVER = "HandoverPending"
"""The reason of a resource that waits until another Stack of the tree releases its object."""
FORBIDDEN = "Forbidden"
OFFER = "offer"
"""The purpose of the signature of an offer."""


class Signing(Signatures, Signer, Protocol):
    """Signs and verifies."""


class ObjectCluster(Protocol):
    """The cluster of a Stack's objects."""

    @property
    def key(self) -> str:
        """Return the key that identifies the cluster."""


class TreeServices(Protocol):
    """The services that the Stacks of a tree use to learn about each other."""

    @property
    def management_cluster(self) -> ManagementStacks:
        """Return the cluster of the Stacks."""

    @property
    def hashes(self) -> Signing:
        """Return the object that signs and verifies."""

    @property
    def queue(self) -> WorkQueue:
        """Return the queue of Stacks to reconcile."""

    @property
    def relatives(self) -> Relatives:
        """Return the loaded Stacks."""

    def find_children_cluster(self, stack_uid: str) -> WorkloadCluster:
        """Return the cluster of a Stack's objects as the operator observes it."""

    def find_cluster(self, stack: StackObject) -> WorkloadCluster:
        """Return the cluster of a Stack's objects as the account of the Stack accesses it."""

    def find_link(self, stack_uid: str) -> ObjectCluster:
        """Return the cluster of a Stack's objects."""

    def find_boundary(self, stack: StackObject) -> Boundary:
        """Return where the objects of the Stack may be."""


class ReadDefinition(Protocol):
    """The definition of a loaded Stack."""

    @property
    def generation(self) -> int:
        """Return the generation of the spec that was last accepted or rejected."""

    @property
    def rejection(self) -> object | None:
        """Return why the spec was rejected, or None if it was accepted."""


class LoadedStack(Protocol):
    """A Stack that this process reconciles."""

    @property
    def uid(self) -> str:
        """Return its UID."""

    @property
    def planner(self) -> StackPlanner | None:
        """Return its planner; None without an accepted definition."""

    @property
    def definition(self) -> ReadDefinition:
        """Return its definition."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why a Stack does not take over an object of another Stack of its tree."""

    message: str
    """Text that follows the name of the object."""
    is_final: bool
    """Whether only the user can resolve the conflict."""


@dataclass(slots=True)
class Relatives:
    """The loaded Stacks, with the Stacks that keep objects for others."""

    _loaded: dict[str, LoadedStack] = field(default_factory=dict)
    """The loaded Stacks by UID."""
    _idle: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By UID of a Stack that was unloaded when it was complete: the version of its spec at that time."""
    _known: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """By UID: the visible state of a Stack when the Stacks that keep objects were last notified of it."""
    _trees: tuple[int, dict[str, Mapping[str, Node]]] = (-1, {})
    """The generation of all trees, and the tree of each Stack by UID at that generation."""
    _families: tuple[int, dict[str, Mapping[str, Node]]] = (-1, {})
    """The same for trees with the instances of StackDefinitions in them."""

    def register(self, uid: str, loaded: LoadedStack) -> None:
        """Add a Stack that was loaded."""
        self._loaded[uid] = loaded
        self._idle.pop(uid, None)

    def unregister(self, uid: str, *, idle_since: tuple[int, int] | None = None) -> None:
        """Remove a Stack. idle_since: the version of its spec, if it was only unloaded."""
        self._loaded.pop(uid, None)
        self._known.pop(uid, None)
        if idle_since is None:
            self._idle.pop(uid, None)
        else:
            self._idle[uid] = idle_since

    def is_idle(self, uid: str) -> bool:
        """Return whether a Stack was unloaded because it was complete."""
        return uid in self._idle

    def find_tree(self, uid: str, services: TreeServices) -> Mapping[str, Node]:
        """Return the tree of a Stack, by UID. Most trees have only one Stack."""
        generation = services.management_cluster.tree.generation
        if self._trees[0] != generation:
            self._trees = (generation, {})
        return find_all(uid, services, self._trees[1], lambda node: is_proven(node, services))

    def find_family(self, uid: str, services: TreeServices) -> Mapping[str, Node]:
        """Return the tree of a Stack with the instances of StackDefinitions in it, by UID.

        An instance takes over no objects of the tree, but its objects are in the same Namespaces.
        """
        generation = services.management_cluster.tree.generation
        if self._families[0] != generation:
            self._families = (generation, {})
        return find_all(uid, services, self._families[1], lambda node: is_proven_child(node, services))

    def find_claim(self, uid: str, services: TreeServices, child: Child) -> TreeClaim | None:
        """Return why an object must stay although its Stack no longer needs it, or None.

        The reason is another Stack of the tree that names the object, or might name it. A certain claim comes first,
        then the claim of a Stack whose definition is known soon.
        """
        own = self._loaded.get(uid)
        members = self.find_tree(uid, services)
        if own is None or own.planner is None or (len(members) <= 1 and not own.planner.nested):
            return None
        staying = [node for node in members.values() if not goes_too(node, uid, child, services)]
        found = [claim for node in staying for claim in self._find_claims(node, uid, child, services)]
        certain = next((claim for claim in found if claim.is_certain), None)
        if certain is not None:
            # Notify the Stack that takes the object over, because it may have asked before.
            services.queue.on_retry_trigger(retry_triggers.object_trigger(child.kind, child.ref))
            return certain
        if pending := next((claim for claim in found if claim.is_pending), None):
            return pending
        stack = services.management_cluster.find_stack(uid)
        if stack is not None and stack.deleting and self._is_awaited(uid, services):
            # Keeping the object would be a deadlock: the Stack that may name it is written only after this Stack is
            # deleted.
            return None
        if stack is None:
            return None
        if found and not cleanup.is_replaceable(child, stack.identity):
            return next((claim for claim in found if claim.is_foreign), found[0])
        is_nested = names.is_stack(child.kind.group, child.kind.name) and not stack.deleting
        if is_nested and self.has_foreign(uid, services) and not is_let_go(child, uid, services):
            # Offer the nested Stack before its deletion: another process can see only from the object why it is
            # deleted.
            return TreeClaim(stack=f"{child.namespace}/{child.name}", is_foreign=True)
        return None

    def _is_awaited(self, uid: str, services: TreeServices) -> bool:
        """Whether a Stack above waits for the deletion of this one, or of one around it, which it still wants.

        A user deleted it, or it is replaced. A Stack above in another process offers an unwanted Stack before it
        deletes it; without an offer it waits.
        """
        way = list(services.management_cluster.tree.climb(uid, most=limits.NESTED_DEPTH + 1))
        if any(
            is_offered_once(each.offer, refer(each), each.uid, owner=each.parent, services=services) for each in way
        ):
            return False
        for each in way:
            if each.parent and services.management_cluster.is_other_shard_uid(each.parent):
                return True
            parent = self._loaded.get(each.parent)
            planner = parent.planner if parent is not None else None
            statuses = (planner.statuses.get(name) for name in planner.nested) if planner is not None else ()
            if any(
                status is not None and status.child is not None and status.child.uid == each.uid for status in statuses
            ):
                nested = services.management_cluster.find_stack(each.uid)
                return nested is not None and nested.deleting
        return False

    def has_foreign(self, uid: str, services: TreeServices) -> bool:
        """Return whether another process reconciles a Stack of the tree, whose events do not arrive here."""
        members = self.find_tree(uid, services)
        return len(members) > 1 and any(map(services.management_cluster.is_other_shard_uid, members))

    def _find_claims(self, node: Node, uid: str, child: Child, services: TreeServices) -> Iterator[TreeClaim]:
        """Find the objects that one Stack of the tree claims."""
        if services.find_link(node.uid).key != services.find_link(uid).key:
            return
        if services.management_cluster.is_other_shard_uid(node.uid):
            yield from ask_foreign(node, services)
            return
        stack = services.management_cluster.find_stack(node.uid)
        if stack is None or stack.deleting:
            return
        member = self._loaded.get(node.uid)
        if member is None:
            if self._idle.get(node.uid) != stack.spec_version:
                services.queue.enqueue(node.uid, DirtyScope.STACK)
                yield TreeClaim(stack=str(node), is_pending=True)
            return
        planner = member.planner
        if planner is None or member.definition.generation != stack.generation:
            yield TreeClaim(stack=str(node), is_pending=member.definition.rejection is None)
            return
        if len(planner.statuses) < len(planner.blueprint.resources):
            yield TreeClaim(stack=str(node), is_pending=True)
            return
        if node.uid != uid and not services.find_boundary(stack).find_denial(child.ref):
            yield from find_naming(node, planner, child)
            if member.definition.rejection is not None:
                # After the user corrects that Stack, it may name the object.
                yield TreeClaim(stack=str(node))
        yield from self._find_unwritten(node, planner, child, services)

    def _find_unwritten(
        self, node: Node, planner: StackPlanner, child: Child, services: TreeServices
    ) -> Iterator[TreeClaim]:
        """Find the nested Stacks whose next definition is not written or read yet, so that it may name the object."""
        for name in planner.nested:
            status = planner.statuses[name]
            nested = status.child
            if nested is not None and nested.uid == child.uid:
                continue
            wanted = planner.find_desired(name, nested)
            if nested is None or wanted is None or planner.wanted.is_open(name) or nested.hash != wanted.hash:
                yield TreeClaim(stack=str(node), resource=name)
                continue
            written = nested.fields["metadata"].get("generation", 0)
            live = services.management_cluster.find_stack(nested.uid)
            state = services.management_cluster.tree.states.get(nested.uid)
            seen = live.generation if live is not None else state.generation if state is not None else -1
            if seen < written:
                yield TreeClaim(stack=str(node), resource=name, is_pending=True)

    def find_objection(
        self, uid: str, owner: str, live: Mapping[str, Any], ref: ObjectRef, services: TreeServices
    ) -> Objection | None:
        """Return why the Stack cannot take over an object of another Stack of its tree, or None if it can.

        owner: UID of the Stack whose child the object is.
        """
        node, live_uid = self.find_tree(uid, services)[owner], live["metadata"]["uid"]
        stack, member = services.management_cluster.find_stack(owner), self._loaded.get(owner)
        if self._is_leaving(node, uid, services):
            return None
        if services.management_cluster.is_other_shard_uid(owner):
            is_offered = is_offer_valid(live, ref, node, services)
            return None if is_offered else Objection(message=describe_wait(node), is_final=False)
        if (
            stack is None
            or member is None
            or member.planner is None
            or stack.generation != member.definition.generation
        ):
            services.queue.enqueue(owner, DirtyScope.STACK)
            return Objection(message=describe_wait(node), is_final=False)
        planner = member.planner
        if live_uid in planner.withheld or live_uid in planner.preserved:
            return None
        named = planner.wanted.find_owner(ref)
        if named and live_uid not in planner.cleanup.children and not self._is_changing(node, services):
            message = (
                f"belongs to the Stack {node} of the same tree, whose resource {named} also defines it; remove it "
                "from one of the two"
            )
            return Objection(message=message, is_final=True)
        # Notify the owner: it may have asked before this Stack named the object.
        services.queue.enqueue(owner, live_uid)
        return Objection(message=describe_wait(node), is_final=False)

    def _is_changing(self, node: Node, services: TreeServices) -> bool:
        """Return whether a nested Stack gets another definition soon."""
        parent = self._loaded.get(node.parent)
        if parent is None or parent.planner is None:
            return bool(node.parent) and node.parent in self.find_tree(node.uid, services)
        stack = services.management_cluster.find_stack(node.parent)
        is_read = stack is not None and stack.generation == parent.definition.generation
        for name in parent.planner.nested if is_read else ():
            status = parent.planner.statuses.get(name)
            if status is not None and status.child is not None and status.child.uid == node.uid:
                wanted = parent.planner.find_desired(name, status.child)
                is_current = wanted is not None and wanted.hash == status.child.hash
                return (
                    not is_current or parent.planner.wanted.is_open(name) or self._is_changing_above(parent, services)
                )
        return True

    def _is_leaving(self, node: Node, uid: str, services: TreeServices) -> bool:
        """Whether a Stack, or one that contains it, is deleted as soon as the tree is complete without it.

        It waits for objects that the tree wants now, so its own objects cannot wait for it. uid: of the Stack that
        wants one of them, and stays.
        """
        tree = services.management_cluster.tree
        staying = {each.uid for each in tree.climb(uid, most=limits.NESTED_DEPTH + 1)}
        for each in tree.climb(node.uid, most=limits.NESTED_DEPTH + 1):
            if each.uid in staying:
                break
            parent, stack = self._loaded.get(each.parent), services.management_cluster.find_stack(each.parent)
            planner = parent.planner if parent is not None else None
            if parent is None or planner is None or stack is None or stack.generation != parent.definition.generation:
                continue
            if each.uid in planner.cleanup.children and each.uid not in {*planner.withheld, *planner.preserved}:
                return True
        return False

    def _is_changing_above(self, loaded: LoadedStack, services: TreeServices) -> bool:
        node = services.management_cluster.tree.find(loaded.uid)
        return node is not None and bool(node.parent) and self._is_changing(node, services)

    def find_creators(self, missing: frozenset[ObjectRef], waiting: Mapping[str, object]) -> set[str]:
        """Return the waiting Stacks that have a resource for one of these objects."""
        found = set()
        for uid in waiting if missing else ():
            member = self._loaded.get(uid)
            planner = member.planner if member is not None else None
            if planner is not None and any(map(planner.wanted.may_create, missing)):
                found.add(uid)
        return found

    def is_related(self, uid: str, other: str, services: TreeServices) -> bool:
        """Return whether both Stacks are in one tree and have their objects in the same cluster."""
        return uid != other and is_same_cluster(uid, other, services) and other in self.find_tree(uid, services)

    def count_undecided(self, uid: str, services: TreeServices) -> int:
        """Return how many resources of a Stack in a tree have no object yet, or are a Stack that is not written yet."""
        member = self._loaded.get(uid)
        planner = member.planner if member is not None else None
        if member is None or planner is None or (len(self.find_tree(uid, services)) <= 1 and not planner.nested):
            return 0
        unplanned = len(planner.blueprint.resources) - len(planner.statuses)
        # Finished work may no longer have an object.
        without = sum(status.child is None and not status.is_ready for status in planner.statuses.values())
        stale = sum(1 for name in planner.nested if name in planner.statuses and not self._is_written(planner, name))
        return max(0, unplanned) + without + stale + (member.definition.rejection is not None)

    def _is_written(self, planner: StackPlanner, name: str) -> bool:
        """Return whether a nested Stack has the definition that is wanted."""
        child = planner.statuses[name].child
        wanted = planner.find_desired(name, child)
        is_known = child is None or (wanted is not None and not planner.wanted.is_open(name))
        return is_known and (child is None or wanted is None or child.hash == wanted.hash)

    def find_contents(self, uid: str, services: TreeServices, container_child: Child) -> str:
        """Return a retained object of the tree inside a Namespace or of a CustomResourceDefinition, or "".

        All objects of a retained nested Stack count as retained. Stacks of other processes are unknown here. When they
        release an object, they write a note to its Namespace and CustomResourceDefinition.
        """
        if container_child.kind.key not in containers.KINDS:
            return ""
        members = dict.fromkeys((uid, *self.find_family(uid, services)))
        retained_stacks = self._find_retained_stacks(uid, members, services)
        for member in members:
            blueprint = self._find_blueprint(member)
            for child in list_children(uid, member, services):
                is_inside = container_child.ref in containers.find_containers(child.kind, child.namespace)
                if is_inside and child.is_identified and (member in retained_stacks or is_retained(child, blueprint)):
                    return str(child.ref)
        return ""

    def find_nested(self, uid: str, nested: str, services: TreeServices) -> Mapping[str, Node]:
        """Return a Stack in the tree of the other, and the Stacks in it, by UID. Empty if the tree does not contain it."""
        family = self.find_family(uid, services)
        found: dict[str, Node] = {nested: family[nested]} if nested in family else {}
        waiting = list(found)
        while waiting:
            parent = waiting.pop()
            inner = {each: node for each, node in family.items() if node.parent == parent and each not in found}
            found |= inner
            waiting.extend(inner)
        return found

    def _find_retained_stacks(self, uid: str, members: Iterable[str], services: TreeServices) -> set[str]:
        """Find the Stacks that stay, with all their objects, when the Stack that contains them is deleted.

        uid: a Stack whose own objects are not meant, wherever it is nested.
        """
        found: set[str] = set()
        for member in members:
            blueprint = self._find_blueprint(member)
            for child in list_children(uid, member, services):
                if child.uid in members and child.is_identified and is_retained(child, blueprint):
                    nested = self.find_nested(uid, child.uid, services)
                    found |= nested.keys() if uid not in nested else set()
        return found

    def _find_blueprint(self, uid: str) -> Blueprint | None:
        loaded = self._loaded.get(uid)
        return loaded.planner.blueprint if loaded is not None and loaded.planner is not None else None

    def publish_names(self, uid: str, services: TreeServices) -> None:
        """If this Stack may now name other objects than before, let the Stacks that keep objects check again."""
        members = self.find_tree(uid, services)
        if len(members) <= 1:
            return
        keeping = [
            each for each in members if (kept := self._loaded.get(each)) and kept.planner and kept.planner.withheld
        ]
        if not keeping:
            return
        member = self._loaded[uid]
        seen = summarize(member)
        if self._known.get(uid) == seen:
            return
        self._known[uid] = seen
        for each in keeping:
            planner = self._loaded[each].planner
            for kept_uid in planner.withheld if planner is not None else ():
                services.queue.enqueue(each, kept_uid)


@value_class.dataclass(frozen=True, slots=True)
class Kin:
    """The tree of one Stack, as the executor of its steps uses it."""

    uid: str
    services: TreeServices

    def is_related(self, owner: str) -> bool:
        """Return whether that other Stack is in the tree, and has its objects in the same cluster."""
        return self.services.relatives.is_related(self.uid, owner, self.services)

    def find_cluster_of(self, owner: str) -> WorkloadCluster | None:
        """Return the cluster as the account of another Stack accesses it, or None if another process works on that Stack."""
        stack = self.services.management_cluster.find_stack(owner)
        return self.services.find_cluster(stack) if stack is not None else None

    @property
    def is_alone(self) -> bool:
        """Return whether the tree has no other Stack."""
        return len(self.services.relatives.find_family(self.uid, self.services)) <= 1

    def is_in_family(self, owner: str) -> bool:
        """Return whether that other Stack or instance is in the tree, and has its objects in the same cluster."""
        is_member = owner != self.uid and owner in self.services.relatives.find_family(self.uid, self.services)
        return is_member and is_same_cluster(self.uid, owner, self.services)

    def find_nested(self, stack_uid: str) -> Mapping[str, Node]:
        """Return a nested Stack of the tree, and the Stacks in it, by UID. Empty if the tree does not contain it."""
        return self.services.relatives.find_nested(self.uid, stack_uid, self.services)

    def list_children(self, stack_uid: str) -> Iterator[Child]:
        """List the objects of a Stack of the tree that are in the same cluster, as far as this process knows them."""
        return list_children(self.uid, stack_uid, self.services)

    def find_container(self, ref: ObjectRef) -> Child | None:
        """Return the Namespace or CustomResourceDefinition if the caches have it as an object of the tree."""
        for member in dict.fromkeys((self.uid, *self.services.relatives.find_family(self.uid, self.services))):
            for child in self.list_children(member):
                if child.name == ref.name and child.ref == ref and child.is_identified:
                    return child
        return None

    def find_objection(self, owner: str, live: Mapping[str, Any], ref: ObjectRef) -> Objection | None:
        """Return why the Stack cannot take over an object of that Stack, or None if it can."""
        return self.services.relatives.find_objection(self.uid, owner, live, ref, self.services)


def is_retained(child: Child, blueprint: Blueprint | None) -> bool:
    """Whether an object outlives its Stack. blueprint: of the Stack, None if it is not loaded."""
    return child.must_not_delete or (blueprint is not None and step_planning.is_retained(child, blueprint))


def summarize(loaded: LoadedStack) -> tuple[object, ...]:
    """Return a value that changes whenever the Stack may refer to other objects."""
    planner = loaded.planner
    if planner is None:
        return (loaded.definition.generation, loaded.definition.rejection is None)
    nested = [
        (status.state, status.child.hash if status.child is not None else "")
        for status in map(planner.statuses.get, planner.nested)
        if status is not None
    ]
    return (loaded.definition.generation, loaded.definition.rejection is None, planner.wanted.generation, *nested)


def find_naming(node: Node, planner: StackPlanner, child: Child) -> Iterator[TreeClaim]:
    """Find the resource of another Stack that names the object, or may."""
    naming = planner.wanted.find_foreign(child)
    if naming is None:
        return
    status = planner.statuses.get(naming.resource)
    # Keep nothing for a Stack whose account cannot write the object.
    if status is None or status.reason != FORBIDDEN:
        yield TreeClaim(stack=str(node), resource=naming.resource, is_certain=naming.is_certain)


def goes_too(node: Node, uid: str, child: Child, services: TreeServices) -> bool:
    """Return whether a Stack of the tree is deleted with the object or with the Stack that keeps it, so it has no
    claim.
    """
    management_cluster = services.management_cluster
    stack = management_cluster.find_stack(uid)
    tops = {child.uid, uid} if stack is not None and stack.deleting else {child.uid}
    way = management_cluster.tree.climb(node.uid, most=limits.NESTED_DEPTH + 1)
    return node.uid != uid and any(each.uid in tops for each in way)


def find_all(
    uid: str, services: TreeServices, found: dict[str, Mapping[str, Node]], is_member: Callable[[Node], bool]
) -> Mapping[str, Node]:
    """Return the tree of a Stack, by UID. found: the trees found earlier; is_member: see `StackTree.find_all`."""
    known = found.get(uid)
    if known is None:
        known = services.management_cluster.tree.find_all(uid, is_member)
        found.update(dict.fromkeys(known, known))
    return known


def list_children(uid: str, member: str, services: TreeServices) -> Iterator[Child]:
    """List the objects of a Stack of the tree in the cluster of the objects of a Stack, from the caches."""
    if member == uid or is_same_cluster(uid, member, services):
        for children in services.find_children_cluster(member).children(member).values():
            yield from children


def is_same_cluster(uid: str, other: str, services: TreeServices) -> bool:
    """Return whether both Stacks have their objects in the same cluster."""
    return services.find_link(uid).key == services.find_link(other).key


def is_proven(node: Node, services: TreeServices) -> bool:
    """Return whether a signature proves that the Stack is a child of the one that its label names."""
    return node.kind in names.STACK_KINDS and is_proven_child(node, services)


def is_proven_child(node: Node, services: TreeServices) -> bool:
    """Return whether a signature proves that the Stack or instance is a child of the Stack that its label names."""
    kind, _, group = node.kind.partition(".")
    identity = names.identity(
        stack_uid=node.parent, group=group or names.GROUP, kind=kind, namespace=node.namespace, name=node.name
    )
    return bool(node.signature) and signatures.read(identity, node.signature, signatures=services.hashes) is not None


def ask_foreign(node: Node, services: TreeServices) -> Iterator[TreeClaim]:
    """Find the objects that a Stack of another process may claim, from its status."""
    state = services.management_cluster.tree.states.get(node.uid)
    if state is None or state.observed != state.generation:
        yield TreeClaim(stack=str(node), is_foreign=True, is_pending=True)
    elif state.undecided:
        yield TreeClaim(stack=str(node), is_foreign=True)


def make_offer(child: Child, *, owner: str, generation: int, signer: Signer) -> str:
    """Return the annotation that releases an object of a Stack to its tree; it is valid for that generation of the
    Stack.
    """
    return f"{generation}/{signer.sign(OFFER, write_offer(child.ref, child.uid, owner=owner, generation=generation))}"


def write_offer(ref: ObjectRef, uid: str, *, owner: str, generation: int) -> str:
    """Return the text that the signature of an offer covers."""
    identity = names.identity(stack_uid=owner, group=ref.group, kind=ref.kind, namespace=ref.namespace, name=ref.name)
    return f"{identity}/{uid}/{generation}"


def is_let_go(child: Child, owner: str, services: TreeServices) -> bool:
    """Return whether a Stack has offered its child, in any generation."""
    text = str((child.fields["metadata"].get("annotations") or {}).get(names.ANNOTATION_OFFERED, ""))
    return is_offered_once(text, child.ref, child.uid, owner=owner, services=services)


def is_offered_once(text: str, ref: ObjectRef, uid: str, *, owner: str, services: TreeServices) -> bool:
    """Return whether the text is an offer of the object by that Stack, of any generation."""
    generation, _, signature = text.partition("/")
    if not generation.isdecimal() or len(text) > limits.SIGNATURE_LENGTH:
        return False
    offer = write_offer(ref, uid, owner=owner, generation=int(generation))
    return services.hashes.is_signed(OFFER, offer, signature)


def refer(node: Node) -> ObjectRef:
    """Return the reference of a Stack."""
    return ObjectRef(group=names.GROUP, kind=node.kind, namespace=node.namespace, name=node.name)


def is_offer_valid(live: Mapping[str, Any], ref: ObjectRef, node: Node, services: TreeServices) -> bool:
    """Return whether the Stack offers the object, by its newest definition."""
    text = str((live["metadata"].get("annotations") or {}).get(names.ANNOTATION_OFFERED, ""))
    generation, _, signature = text.partition("/")
    state = services.management_cluster.tree.states.get(node.uid)
    if state is None or len(text) > limits.SIGNATURE_LENGTH or generation != str(state.generation):
        return False
    offer = write_offer(ref, live["metadata"]["uid"], owner=node.uid, generation=state.generation)
    return services.hashes.is_signed(OFFER, offer, signature)


def describe_wait(node: Node) -> str:
    """Explain that a Stack of the same tree has the object until it has read its own definition."""
    return (
        f"still belongs to the Stack {node} of the same tree; it will be taken over when that Stack no longer needs it "
        f"(if both define it, remove it from one of them){adoption.EXCHANGED}"
    )
