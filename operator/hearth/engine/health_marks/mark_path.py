"""Path from a HealthMark to its resource: by the object itself, by name, or through nested Stacks.

The path is resolved again whenever a part of it changes, until the mark is bound to an object. A bound mark belongs to
the Stack of that object while the Stack exists. Reads caches and planners; writes nothing.
"""

from __future__ import annotations

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.engine.health_marks.resource_locator import ResourceKey, ResourceLocator
from hearth.model import names, value_class
from hearth.model.child import Child
from hearth.plan.health_mark_decision import MarkedResource, MarkProblem


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkPath:
    """The path of a mark, as far as it is known."""

    resources: tuple[ResourceKey, ...] = ()
    """All resources on the path, the marked one last. A change of any of them enqueues the mark."""
    resource: ResourceKey | None = None
    """The marked resource; None if unknown."""
    marked: MarkedResource | None = None
    """What to report if the path ends early; None also while too little is known."""

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
        # The other process follows the rest. A change of the path up to there concerns this one.
        return MarkPath(resources=(forwarded, *walked.resources))
    found = locator.locate(mark)
    if isinstance(found, MarkProblem):
        if mark.status.get("observedGeneration") == mark.generation and locator.has_gaps(mark.namespace):
            # After a restart, what the status says stays until it can be judged again.
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
        if not locator.has_stack(view.current.uid):
            # Its cache lags behind that of the parent's children. Its first reconcile enqueues the mark.
            inner = names.owner_key(view.current.kind.name, view.current.name)
            return MarkPath(resources=(*passed, ResourceKey(namespace=mark.namespace, stack=inner, resource=last)))
        stack = names.owner_key(view.current.kind.name, view.current.name)
    goal = ResourceKey(namespace=mark.namespace, stack=stack, resource=last)
    return MarkPath(resources=(*passed, goal), resource=goal)


def _find_other(marked: MarkedResource, mark: HealthMarkObject, locator: ResourceLocator) -> Child | None:
    """Return the nested Stack on the path if another process serves it, and the mark may reach it."""
    child = marked.current
    is_other = child is not None and not _is_other(child) and locator.is_other_shard(child.uid)
    return child if is_other and child is not None and child.namespace == mark.namespace else None


def _forward(nested: Child, path: str) -> MarkedResource:
    """Return the state of a mark whose path continues in a Stack of another process: its status tells that process."""
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
