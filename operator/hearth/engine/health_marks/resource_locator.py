"""Finds the resource that a HealthMark speaks of, and what is known of it. Reads caches and boards; writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hearth.engine.health_marks import mark_targets
from hearth.engine.health_marks.mark_targets import Targets
from hearth.engine.ports import HealthMarkObject, StackObject
from hearth.engine.services import Services
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.plan.health_mark_decision import MarkedResource, MarkProblem
from hearth.plan.resource import resource_planner
from hearth.plan.resource.readiness import enumerate_names
from hearth.plan.stack.stack_planner import StackPlanner


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKey:
    """A resource of a Stack, whether or not there is one."""

    namespace: str
    stack: str
    resource: str


@dataclass(slots=True)
class ResourceLocator:
    """The way from a HealthMark to the objects of a resource."""

    services: Services
    find_runner: Callable[[str], StackReconciler | None]
    targets: Targets
    _uids: dict[tuple[str, str], str] = field(default_factory=dict)
    """By namespace and name the UID of the Stack that was there when that was last asked."""
    _names: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The other way round."""

    def is_plain(self, mark: HealthMarkObject) -> bool:
        """Whether nothing has to be searched to know which resource is meant."""
        return "target" not in mark.spec or bool(mark.status.get("resource"))

    def locate(self, mark: HealthMarkObject) -> ResourceKey | MarkProblem:
        """The resource that is meant, or why nobody knows."""
        spec, status = mark.spec, mark.status
        if "target" not in spec:
            return ResourceKey(namespace=mark.namespace, stack=spec["stackName"], resource=spec["resource"])
        if self.is_plain(mark):
            # Where the object is gone, this alone tells whose it was.
            return ResourceKey(namespace=mark.namespace, stack=status["stackName"], resource=status["resource"])
        return self._find_owner(mark)

    def is_responsible(self, mark: HealthMarkObject, place: ResourceKey | None) -> bool:
        """Whether this process is the one that speaks about the mark: the one that has its Stack, else whose share it is.

        place: where the mark leads, as far as that is known.
        """
        share, home = self.services.share, self.services.management_cluster
        if share.is_whole:
            return True
        if place is None:
            return share.has(mark.uid)
        if self.find_stack(place) is not None:
            return True
        return share.has(mark.uid) and not home.is_other_shard_name(place.namespace, place.stack)

    def _find_owner(self, mark: HealthMarkObject) -> ResourceKey | MarkProblem:
        key = target_of(mark)
        owner = self.targets.find(mark.namespace, key, self._stacks_of(mark.namespace))
        if owner is not None:
            return ResourceKey(namespace=mark.namespace, stack=owner.stack.name, resource=owner.resource)
        others = self.targets.list_names(mark.namespace, key[0], self._stacks_of(mark.namespace))
        there = f"objects of that kind that are: {enumerate_names(others)}" if others else "no object of that kind is"
        message = f"{key[0][1]} {key[1]} is no child of a Stack of namespace {mark.namespace}; {there}"
        return MarkProblem(reason="TargetNotFound", message=message)

    def observe(self, mark: HealthMarkObject, place: ResourceKey) -> MarkedResource | None:
        """What is known of a resource; None where that is not enough to say anything."""
        stack = self.find_stack(place)
        gone = MarkedResource(stack=place.stack, resource=place.resource, is_wanted=False)
        if stack is None:
            names = self.services.management_cluster.tree.list_names(place.namespace)
            there = f"there are: {enumerate_names(names)}" if names else "there is none"
            return _without(gone, "StackNotFound", f"namespace {place.namespace} has no Stack {place.stack}; {there}")
        runner = self.find_runner(stack.uid)
        if runner is None:
            return None
        if runner.planner is None:
            return describe_rejection(runner, place)
        wanted = runner.planner.blueprint.resources
        children = self.services.workload_cluster.children_of(stack.uid, place.resource)
        if is_unsynced(
            runner.planner, place, is_seen=any(child.uid == mark.status.get("observedUID") for child in children)
        ):
            return None
        if place.resource not in wanted and not children:
            there = f"it has: {enumerate_names(sorted(wanted))}" if wanted else "it has none"
            return _without(gone, "ResourceNotFound", f"Stack {place.stack} has no resource {place.resource}; {there}")
        standing = runner.planner.statuses.get(place.resource)
        current = (standing.child if standing is not None else None) or resource_planner.find_current(children)
        uid = mark.status.get("observedUID")
        return MarkedResource(
            stack=place.stack,
            resource=place.resource,
            current=current if current is not None and not current.deleting else None,
            bound=next((child for child in children if child.uid == uid), None),
            is_wanted=place.resource in wanted,
            problem=find_write_block(runner, place),
        )

    def add_stack(self, stack: StackObject) -> None:
        """That Stack is there."""
        if self._names.get(stack.uid) is None:
            where = (stack.namespace, stack.name)
            self._uids[where], self._names[stack.uid] = stack.uid, where

    def forget(self, stack_uid: str) -> tuple[str, str] | None:
        """Namespace and name of the Stack that had that UID, which is then known no longer."""
        where = self._names.pop(stack_uid, None)
        if where is not None and self._uids.get(where) == stack_uid:
            del self._uids[where]
        return where

    def has_stack(self, uid: str) -> bool:
        """Whether this operator knows a Stack of that UID."""
        return self.services.management_cluster.find_stack(uid) is not None

    def is_other_shard(self, uid: str) -> bool:
        """Whether another process has the Stack of that UID."""
        return self.services.management_cluster.is_other_shard_uid(uid)

    def is_alive(self, place: ResourceKey, *, uid: str) -> bool:
        """Whether the Stack of a place is there to stay, or an object of that resource with that UID is."""
        stack = self.find_stack(place)
        if stack is None or not stack.deleting:
            return stack is not None
        return any(child.uid == uid for child in self.services.workload_cluster.children_of(stack.uid, place.resource))

    def find_stack(self, place: ResourceKey) -> StackObject | None:
        """The Stack that the place is in, None where there is none."""
        home = self.services.management_cluster
        found = home.find_stack(self._uids.get((place.namespace, place.stack), ""))
        if found is None:
            found = home.find_stack(home.tree.find_uid(place.namespace, place.stack))
            if found is not None:
                self.add_stack(found)
        return found

    def _stacks_of(self, namespace: str) -> Iterator[StackObject]:
        for uid in self.services.management_cluster.tree.list_uids(namespace):
            stack = self.services.management_cluster.find_stack(uid)
            if stack is not None:
                yield stack


def target_of(mark: HealthMarkObject) -> mark_targets.Key:
    """What a mark names its object by, that names one at all."""
    target = mark.spec["target"]
    return (target["apiVersion"].rpartition("/")[0], target["kind"]), target["name"]


def describe_rejection(runner: StackReconciler, place: ResourceKey) -> MarkedResource | None:
    """What is known of a Stack of which no definition was accepted yet; None where it is about to be."""
    if runner.definition.rejection is None:
        return None
    problem = MarkProblem(reason="NoObject", message=f"Stack {place.stack} has no objects: its definition is refused")
    return MarkedResource(stack=place.stack, resource=place.resource, problem=problem)


def is_unsynced(board: StackPlanner, place: ResourceKey, *, is_seen: bool) -> bool:
    """Whether the caches may not show all objects of the resource yet. is_seen: they show the one that is asked for."""
    resource = board.blueprint.resources.get(place.resource)
    if is_seen or not board.unsynced:
        return False
    # While a kind cannot be watched, the marks on all others go on.
    return resource is None or any(
        (kind.api_version, kind.name) == (resource.api_version, resource.kind) for kind in board.unsynced
    )


def find_write_block(runner: StackReconciler, place: ResourceKey) -> MarkProblem | None:
    """Why nothing may be written to objects of the Stack now."""
    if runner.definition.is_deleting:
        return MarkProblem(reason="StackDeleting", message=f"Stack {place.stack} is being deleted")
    if runner.definition.options.is_paused:
        return MarkProblem(
            reason="Paused", message=f"spec.paused of Stack {place.stack} is true; the mark waits for its end"
        )
    return None


def _without(view: MarkedResource, reason: str, message: str) -> MarkedResource:
    """What is known where there is no object."""
    return MarkedResource(
        stack=view.stack, resource=view.resource, is_wanted=False, problem=MarkProblem(reason=reason, message=message)
    )
