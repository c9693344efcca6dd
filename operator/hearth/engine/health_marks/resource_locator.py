"""Finds the resource of a HealthMark, by object, by name, or through nested Stacks, and observes its state.

Until the mark is bound to an object, the path is resolved again whenever a part of it changes. A bound mark belongs to
the Stack of its object while that Stack exists. Reads caches and planners; writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from hearth.engine.cluster_objects import HealthMarkObject, StackObject
from hearth.engine.health_marks import mark_targets
from hearth.engine.health_marks.mark_targets import Targets
from hearth.engine.services import Services
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.model import limits, names, value_class
from hearth.model.child import Child
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.health_mark_decision import MarkedResource, MarkProblem
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import requirements


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKey:
    """A resource of a Stack, which does not necessarily exist."""

    namespace: str
    stack: str
    """The key of its Stack or group, see `hearth.model.names.owner_key`."""
    resource: str

    @property
    def owner(self) -> str:
        """Its Stack or group for messages."""
        return names.describe_owner(self.stack)


@dataclass(slots=True)
class ResourceLocator:
    """The locator from a HealthMark to the objects of a resource."""

    services: Services
    find_reconciler: Callable[[str], StackReconciler | None]
    targets: Targets
    _uids: dict[tuple[str, str], str] = field(default_factory=dict)
    """The last known UID of each Stack, by namespace and name."""
    _names: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The inverse of `_uids`."""

    def is_plain(self, mark: HealthMarkObject) -> bool:
        """Return whether the resource is known without a search."""
        return "target" not in mark.spec or bool(mark.status.get("resource"))

    def locate(self, mark: HealthMarkObject) -> ResourceKey | MarkProblem:
        """Return the marked resource, or why it is unknown."""
        spec, status = mark.spec, mark.status
        if "target" not in spec:
            return self.find_start(mark)
        if self.is_plain(mark):
            # If the object was deleted, only the status still names its owner.
            owner = names.read_owner(status)
            return ResourceKey(namespace=mark.namespace, stack=owner, resource=status["resource"])
        return self._find_owner(mark)

    def find_start(self, mark: HealthMarkObject) -> ResourceKey:
        """Return the Stack and the path in it that the mark names."""
        return ResourceKey(namespace=mark.namespace, stack=self.find_owner(mark), resource=mark.spec["resource"])

    def find_owner(self, mark: HealthMarkObject) -> str:
        """Return the key of the Stack that the mark names, see `hearth.model.names.owner_key`."""
        owner = names.read_owner(mark.spec)
        kind, name = names.split_owner(owner)
        if kind in names.STACK_KINDS or "." in kind:
            return owner
        return names.owner_key(self.services.management_cluster.complete_kind(kind) or kind, name)

    def find_forwarded(self, mark: HealthMarkObject) -> ResourceKey | None:
        """Return the Stack that a process found on the path, or that has the bound object, and the rest of the path."""
        stack, path = names.read_owner(mark.status), mark.status.get("resource", "")
        is_current = mark.status.get("observedGeneration") == mark.generation
        return ResourceKey(namespace=mark.namespace, stack=stack, resource=path) if is_current and stack else None

    def is_responsible(self, mark: HealthMarkObject, key: ResourceKey | None) -> bool:
        """Return whether this process is responsible for the mark: it has the Stack, or else the mark in its share.

        key: the resource on the mark's path, if known.
        """
        share = self.services.share
        if share.is_whole:
            return True
        if key is None:
            return share.has_request(mark.uid)
        if self.find_stack(key) is not None:
            return True
        return share.has_request(mark.uid) and not self.is_other_shard_owner(key)

    def _find_owner(self, mark: HealthMarkObject) -> ResourceKey | MarkProblem:
        key = target_of(mark)
        owner = self.targets.find(mark.namespace, key, self._stacks_of(mark.namespace))
        if owner is not None:
            return ResourceKey(namespace=mark.namespace, stack=owner.stack.owner_key, resource=owner.resource)
        others = self.targets.list_names(mark.namespace, key[0], self._stacks_of(mark.namespace))
        there = f"children of that kind: {enumerate_names(others)}" if others else "there are no children of that kind"
        message = f"{key[0][1]} {key[1]} is not a child of a Stack in namespace {mark.namespace}; {there}"
        return MarkProblem(reason="TargetNotFound", message=message)

    def has_gaps(self, namespace: str) -> bool:
        """Return whether the caches may lack objects of the Stacks of a namespace."""
        views = (self.find_reconciler(stack.uid) for stack in self._stacks_of(namespace))
        if not self.services.management_cluster.has_listed(names.STACK):
            return True
        return any(
            view is None
            or (view.planner is None and not view.is_refused)
            or bool(view.planner and view.planner.kinds.unsynced)
            for view in views
        )

    def observe(self, mark: HealthMarkObject, key: ResourceKey) -> MarkedResource | None:
        """Return the state of a resource, or None if too little is known."""
        stack = self.find_stack(key)
        if stack is None:
            return self._explain_absence(key)
        gone = MarkedResource(stack=key.stack, resource=key.resource, is_wanted=False)
        reconciler = self.find_reconciler(stack.uid)
        if reconciler is None:
            return None
        if reconciler.planner is None or reconciler.planner.blueprint.is_unknown:
            return describe_rejection(reconciler, key)
        wanted = reconciler.planner.blueprint.resources
        children = self.services.find_children_cluster(stack.uid).children_of(stack.uid, key.resource)
        if is_unsynced(
            reconciler.planner, key, is_seen=any(child.uid == mark.status.get("observedUID") for child in children)
        ):
            return None
        if key.resource in reconciler.planner.blueprint.collections:
            found = reconciler.planner.blueprint.collections[key.resource].members
            there = f"use one of its members: {enumerate_names(found)}" if found else "it has no members"
            return _without(gone, "ResourceNotFound", f"{key.resource} of {key.owner} is a collection; {there}")
        if key.resource not in wanted and not children:
            there = f"it has: {enumerate_names(sorted(wanted))}" if wanted else "it has none"
            return _without(gone, "ResourceNotFound", f"{key.owner} has no resource {key.resource}; {there}")
        status = reconciler.planner.statuses.get(key.resource)
        current = (status.child if status is not None else None) or requirements.find_current(children)
        uid, named = mark.status.get("observedUID"), find_named(mark, children)
        return MarkedResource(
            stack=key.stack,
            resource=key.resource,
            current=current if current is not None and not current.deleting else None,
            named=named,
            is_named="target" in mark.spec,
            bound=next((child for child in children if child.uid == uid), None),
            is_wanted=key.resource in wanted,
            is_ready=status is not None and status.is_ready,
            problem=find_write_block(reconciler, key) or explain_unnamed(mark, key, named, children),
        )

    def _explain_absence(self, key: ResourceKey) -> MarkedResource | None:
        """Return why the Stack does not exist, or None if it may only be unknown so far."""
        gone = MarkedResource(stack=key.stack, resource=key.resource, is_wanted=False)
        kind, _ = names.split_owner(key.stack)
        if kind not in names.STACK_KINDS and "." not in kind:
            message = f"none or several StackDefinitions define the kind {kind}; set spec.stackRef.group"
            return _without(gone, "StackNotFound", message)
        if not self.services.management_cluster.has_listed(kind):
            return None
        known = self.services.management_cluster.tree.list_names(key.namespace, kind=kind)
        there = f"there are: {enumerate_names(known)}" if known else "it contains no others"
        return _without(gone, "StackNotFound", f"namespace {key.namespace} has no {key.owner}; {there}")

    def add_stack(self, stack: StackObject) -> None:
        """Record an existing Stack."""
        if self._names.get(stack.uid) is None:
            where = (stack.namespace, stack.owner_key)
            self._uids[where], self._names[stack.uid] = stack.uid, where

    def forget(self, stack_uid: str) -> tuple[str, str] | None:
        """Drop the Stack of that UID; return its namespace and name."""
        where = self._names.pop(stack_uid, None)
        if where is not None and self._uids.get(where) == stack_uid:
            del self._uids[where]
        return where

    def is_other_shard_owner(self, key: ResourceKey) -> bool:
        """Return whether another process is responsible for the Stack of that place."""
        kind, name = names.split_owner(key.stack)
        return self.services.management_cluster.is_other_shard_name(key.namespace, name, kind=kind)

    def is_within(self, key: ResourceKey, owner: str) -> bool:
        """Return whether the Stack of that place is the owner with that key, or nested in it."""
        tree, (kind, name) = self.services.management_cluster.tree, names.split_owner(key.stack)
        inner = tree.find_uid(key.namespace, name, kind=kind)
        return any(
            names.owner_key(node.kind, node.name) == owner for node in tree.climb(inner, most=limits.NESTED_DEPTH + 1)
        )

    def is_alive(self, key: ResourceKey, *, uid: str) -> bool:
        """Return whether the Stack exists and is not being deleted, or still has that object of the resource."""
        stack = self.find_stack(key)
        if stack is None or not stack.deleting:
            return stack is not None
        return any(
            child.uid == uid
            for child in self.services.find_children_cluster(stack.uid).children_of(stack.uid, key.resource)
        )

    def find_stack(self, key: ResourceKey) -> StackObject | None:
        """Return the Stack of the resource, or None if it does not exist."""
        management_cluster = self.services.management_cluster
        found = management_cluster.find_stack(self._uids.get((key.namespace, key.stack), ""))
        if found is None:
            kind, name = names.split_owner(key.stack)
            found = management_cluster.find_stack(management_cluster.tree.find_uid(key.namespace, name, kind=kind))
            if found is not None:
                self.add_stack(found)
        return found

    def _stacks_of(self, namespace: str) -> Iterator[StackObject]:
        for uid in self.services.management_cluster.tree.list_uids(namespace):
            stack = self.services.management_cluster.find_stack(uid)
            if stack is not None:
                yield stack


def target_of(mark: HealthMarkObject) -> mark_targets.Key:
    """Return the key of the object in `spec.target`, which must be set."""
    target = mark.spec["target"]
    return (target["apiVersion"].rpartition("/")[0], target["kind"]), target["name"]


def find_named(mark: HealthMarkObject, children: Iterable[Child]) -> Child | None:
    """Find the object that `spec.target` names: one of several that a resource has while it is replaced."""
    key = target_of(mark) if "target" in mark.spec else None
    found = (child for child in children if mark_targets.make_key(child) == key and child.is_identified)
    return next((child for child in found if child.namespace in ("", mark.namespace) and not child.deleting), None)


def explain_unnamed(
    mark: HealthMarkObject, key: ResourceKey, named: Child | None, children: Iterable[Child]
) -> MarkProblem | None:
    """Explain that the object which the mark names no longer exists. Returns None if it does, or if it names none."""
    if "target" not in mark.spec or named is not None:
        return None
    others = sorted(child.name for child in children if not child.deleting)
    there = f"it has: {enumerate_names(others)}" if others else "it has none"
    kind, name = mark.spec["target"]["kind"], mark.spec["target"]["name"]
    message = f"{kind} {name} no longer belongs to resource {key.resource} of {key.owner}; {there}"
    return MarkProblem(reason="TargetNotFound", message=message)


def describe_rejection(stack_view: StackReconciler, key: ResourceKey) -> MarkedResource | None:
    """Return the state of a Stack without an accepted definition; None while the decision is pending."""
    if not stack_view.is_refused:
        return None
    problem = MarkProblem(reason="ObjectNotFound", message=f"{key.owner} has no objects: its definition is rejected")
    return MarkedResource(stack=key.stack, resource=key.resource, problem=problem)


def is_unsynced(planner: StackPlanner, key: ResourceKey, *, is_seen: bool) -> bool:
    """Return whether the caches may lack objects of the resource. is_seen: whether they contain the bound object."""
    resource = planner.blueprint.resources.get(key.resource)
    if is_seen or not planner.kinds.unsynced:
        return False
    # A kind that cannot be watched does not block marks on other kinds.
    return resource is None or any(
        (kind.api_version, kind.name) == (resource.api_version, resource.kind) for kind in planner.kinds.unsynced
    )


def find_write_block(stack_view: StackReconciler, key: ResourceKey) -> MarkProblem | None:
    """Explain why no object of the Stack may be written now."""
    if stack_view.definition.is_deleting:
        return MarkProblem(reason="StackDeleting", message=f"{key.owner} is being deleted")
    if stack_view.definition.options.is_paused:
        return MarkProblem(
            reason="Paused", message=f"spec.paused of {key.owner} is true; the mark waits until it is false"
        )
    return None


def _without(marked: MarkedResource, reason: str, message: str) -> MarkedResource:
    """Return the state of a resource without an object."""
    return MarkedResource(
        stack=marked.stack,
        resource=marked.resource,
        is_wanted=False,
        problem=MarkProblem(reason=reason, message=message),
    )


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkPath:
    """The known part of a mark's path."""

    resources: tuple[ResourceKey, ...] = ()
    """All resources on the path, the marked one last. A change of any of them enqueues the mark."""
    resource: ResourceKey | None = None
    """The marked resource, or None if unknown."""
    marked: MarkedResource | None = None
    """What to report if the path ends early; None also if too little is known."""

    @property
    def responsible(self) -> ResourceKey | None:
        """The marked resource, or the start of the path. The process with that Stack is responsible for the mark."""
        return self.resource or next(iter(self.resources), None)


def resolve_path(mark: HealthMarkObject, locator: ResourceLocator) -> MarkPath:
    """Resolve the current path."""
    if "/" in mark.spec.get("resource", ""):
        bound = _find_bound(mark, locator)
        if bound is not None:
            return MarkPath(resources=(bound,), resource=bound)
        forwarded = locator.find_forwarded(mark)
        is_taken_up = "observedUID" not in mark.status and forwarded is not None and locator.find_stack(forwarded)
        walked = _walk(mark, locator, forwarded if forwarded is not None and is_taken_up else locator.find_start(mark))
        if forwarded is None or not locator.is_other_shard_owner(forwarded):
            return walked
        ended = walked.marked
        if ended is not None and ended.is_forwarded and not locator.is_within(forwarded, ended.stack):
            return walked
        # The other process resolves the rest of the path. This process handles changes up to there.
        return MarkPath(resources=(forwarded, *walked.resources))
    found = locator.locate(mark)
    if isinstance(found, MarkProblem):
        if mark.status.get("observedGeneration") == mark.generation and locator.has_gaps(mark.namespace):
            # After a restart, keep the status until it can be assessed again.
            return MarkPath()
        return MarkPath(marked=MarkedResource(stack="", resource="", problem=found))
    return MarkPath(resources=(found,), resource=found)


def _find_bound(mark: HealthMarkObject, locator: ResourceLocator) -> ResourceKey | None:
    """Return the resource of the bound object, while its Stack exists and is not being deleted, or still has it."""
    stack, resource = names.read_owner(mark.status), mark.status.get("resource", "")
    if not mark.status.get("observedUID") or not stack or "/" in resource:
        return None
    place = ResourceKey(namespace=mark.namespace, stack=stack, resource=resource)
    return place if locator.is_alive(place, uid=mark.status["observedUID"]) else None


def _walk(mark: HealthMarkObject, locator: ResourceLocator, start_key: ResourceKey) -> MarkPath:
    """Walk through the nested Stacks, from the one that the mark names or was forwarded to."""
    stack = start_key.stack
    *way, last = start_key.resource.split("/")
    passed: list[ResourceKey] = []
    for at, name in enumerate(way, start=1):
        place = ResourceKey(namespace=mark.namespace, stack=stack, resource=name)
        passed.append(place)
        view = locator.observe(mark, place)
        if view is None:
            return MarkPath(resources=tuple(passed))
        if (other := _find_other(view, mark, locator)) is not None:
            return MarkPath(resources=tuple(passed), marked=_forward(other, "/".join((*way[at:], last))))
        problem = _find_problem(view, mark)
        if problem is not None or view.current is None:
            whole = MarkedResource(
                stack=locator.find_owner(mark),
                resource=mark.spec["resource"],
                is_wanted=view.is_wanted and not _is_other(view.current),
                problem=problem,
            )
            return MarkPath(resources=tuple(passed), marked=whole)
        if locator.services.management_cluster.find_stack(view.current.uid) is None:
            # The cache of Stacks lags behind the cache of the parent's children. The first reconcile of the Stack
            # enqueues the mark.
            inner = names.owner_key(view.current.kind.name, view.current.name)
            return MarkPath(resources=(*passed, ResourceKey(namespace=mark.namespace, stack=inner, resource=last)))
        stack = names.owner_key(view.current.kind.name, view.current.name)
    goal = ResourceKey(namespace=mark.namespace, stack=stack, resource=last)
    return MarkPath(resources=(*passed, goal), resource=goal)


def _find_other(marked: MarkedResource, mark: HealthMarkObject, locator: ResourceLocator) -> Child | None:
    """Return the nested Stack on the path if another process serves it, and the mark may reach it."""
    child = marked.current
    is_other = (
        child is not None and not _is_other(child) and locator.services.management_cluster.is_other_shard_uid(child.uid)
    )
    return child if is_other and child is not None and child.namespace == mark.namespace else None


def _forward(nested: Child, path: str) -> MarkedResource:
    """Return the state of a mark whose path continues in another process's Stack. Its status notifies that process."""
    message = f"{nested.ref} is served by another process, which follows the path from there"
    return MarkedResource(
        stack=names.owner_key(nested.kind.name, nested.name),
        resource=path,
        is_forwarded=True,
        problem=MarkProblem(reason="Forwarded", message=message),
    )


def _find_problem(marked: MarkedResource, mark: HealthMarkObject) -> MarkProblem | None:
    """Explain why the path ends there."""
    where, child = f"resource {marked.resource} of {names.describe_owner(marked.stack)}", marked.current
    if child is None:
        return marked.problem or MarkProblem(
            reason="ObjectNotFound", message=f"{where}, which is part of the path, has no object yet"
        )
    if _is_other(child):
        message = (
            f"{where} is {child.ref}, which is neither a Stack nor a group, so the path {mark.spec['resource']} ends there; "
            f"to mark that object itself, write resource: {marked.resource}"
        )
        return MarkProblem(reason="NotNested", message=message)
    (field,) = names.write_owner(names.owner_key(child.kind.name, child.name))
    if child.namespace != mark.namespace:
        message = (
            f"{child.ref} is in namespace {child.namespace}, but a mark applies only to its own "
            f"namespace; create it there, with {field}: {child.name}"
        )
        return MarkProblem(reason="OtherNamespace", message=message)
    return None


def _is_other(child: Child | None) -> bool:
    """Return whether the object is neither a Stack nor a group, so that no path leads into it."""
    return child is not None and not names.is_stack(child.kind.group, child.kind.name)
