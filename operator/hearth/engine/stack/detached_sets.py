"""StatefulSets of one Stack that are deleted without their Pods and claims: recorded first, until the next ones exist.

The record survives the operator, so that the next StatefulSet has the same name and takes over what is there. If none is
wanted any more, or the Stack is suspended meanwhile, the Pods that were left are deleted; claims stay, as they do
whenever a StatefulSet is deleted.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog

from hearth.engine import stateful_set_claims
from hearth.engine.cluster_objects import StackObject
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import limits
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.kinds import ObjectRef
from hearth.model.well_known_kinds import POD
from hearth.plan.resource import set_replacement
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.steps import Detach
from hearth.plan.target.target import DetachedSet

logger = structlog.get_logger(__name__)

TASK = "delete pods without a StatefulSet"
FIRST_RETRY = 2.0
"""Seconds after a rejected or lost request; doubled up to the next."""
LAST_RETRY = 600.0


class DetachedSets(StackPart):
    """The records of one Stack, updated after each reconcile."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self._problem = ""
        """Why the Pods that are left could not be deleted."""
        self._pause = FIRST_RETRY
        """Seconds until they are deleted again."""
        self._due = 0.0
        """Monotonic seconds before which they are not."""
        self._stopped: tuple[str, ...] = ()
        """The UIDs of StatefulSets whose Pods were deleted because the Stack is suspended."""

    @property
    def has_any(self) -> bool:
        """Whether any StatefulSet is recorded."""
        target = self._definition_sync.targets.current
        return target is not None and bool(target.detached)

    def update(self, planner: StackPlanner, planned: Collection[str]) -> None:
        """Record what is about to be deleted, and forget what has a successor. planned: the keys of new steps.

        A new record must be in the status before the step starts, see `TargetTracker.is_persisted`.
        """
        steps = (planner.ready_steps.get(key) for key in planned)
        begun = [make_record(step) for step in steps if isinstance(step, Detach)]
        if not begun and not self.has_any:
            return
        ended = {each.resource for each in self._list() if self._has_next(each)}
        if self._definition_sync.targets.record_detached(begun, ended=ended):
            self._services.queue.enqueue(self._uid, DirtyScope.STACK)
        if self._may_delete_pods() and self._list_with_pods(planner):
            self._tasks.run(TASK, lambda: self._delete_pods(planner))

    def find_problem(self, planner: StackPlanner) -> str:
        """Return why Pods that no StatefulSet will take over are left; "" if there are none, or may stay."""
        if planner.blueprint.abandons or not any(self._is_unwanted(each, planner) for each in self._list()):
            return ""
        return self._problem or "waits for the deletion of Pods that a deleted StatefulSet left"

    def _list(self) -> tuple[DetachedSet, ...]:
        target = self._definition_sync.targets.current
        return target.detached if target is not None else ()

    def _has_next(self, detached: DetachedSet) -> bool:
        children = self._services.find_children_cluster(self._uid).children_of(self._uid, detached.resource)
        return set_replacement.find_next(detached, children) is not None

    def _may_delete_pods(self) -> bool:
        is_due = self._due <= self._services.clock.monotonic()
        return is_due and not self._definition_sync.options.is_paused and self._definition_sync.cluster.problem is None

    def _list_with_pods(self, planner: StackPlanner) -> list[DetachedSet]:
        """Return those whose Pods must go: that are unwanted, or that run although the Stack is suspended."""
        is_suspended = self._definition_sync.is_suspended
        self._stopped = self._stopped if is_suspended else ()
        return [
            each
            for each in self._list()
            if self._is_unwanted(each, planner)
            or (is_suspended and each.uid not in self._stopped and self._is_gone(each) and not self._has_next(each))
        ]

    def _is_gone(self, detached: DetachedSet) -> bool:
        children = self._services.find_children_cluster(self._uid).children_of(self._uid, detached.resource)
        return all(child.uid != detached.uid for child in children)

    def _is_unwanted(self, detached: DetachedSet, planner: StackPlanner) -> bool:
        """Return whether no StatefulSet will take over. The deleted one may still be there, as long as it waits."""
        if planner.blueprint.is_unknown or not self._is_gone(detached):
            return False
        if detached.resource not in planner.blueprint.resources:
            return True
        desired = planner.find_desired(detached.resource)
        return desired is not None and not set_replacement.is_followed_by(detached, desired.resource)

    async def _delete_pods(self, planner: StackPlanner) -> None:
        """Delete the Pods that StatefulSets left, and forget those StatefulSets that are unwanted."""
        stack = self._services.management_cluster.find_stack(self._uid)
        found = self._list_with_pods(planner)
        if stack is None:
            return
        try:
            for each in found if not planner.blueprint.abandons else ():
                await self._delete_pods_of(stack, each)
        except (ApiStatusError, Unreachable) as error:
            named = ", ".join(f"statefulset/{each.name}" for each in found)
            self._problem = f"cannot delete the Pods that {named} left: {error}; the operator retries"
            logger.warning("cannot delete the pods of a deleted StatefulSet", stack=self._uid, error=str(error))
            self._due = self._services.clock.monotonic() + self._pause
            self._services.enqueue_after(self._pause, self._uid, DirtyScope.STACK)
            self._pause = min(2 * self._pause, LAST_RETRY)
            return
        self._problem, self._pause = "", FIRST_RETRY
        unwanted = {each.resource for each in found if self._is_unwanted(each, planner)}
        self._stopped += tuple(each.uid for each in found if each.resource not in unwanted)
        self._definition_sync.targets.record_detached((), ended=unwanted)
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)

    async def _delete_pods_of(self, stack: StackObject, detached: DetachedSet) -> None:
        cluster, boundary = self._services.find_cluster(stack), self._services.find_boundary(stack)
        misses = 0
        for ordinal in range(limits.CLAIMS_BEYOND_REPLICAS):
            name = f"{detached.name}-{ordinal}"
            ref = ObjectRef(group="", kind=POD.name, namespace=detached.namespace, name=name)
            if boundary.find_denial(ref):
                return
            live = await stateful_set_claims.find_live(cluster, ref, kind=POD)
            misses = misses + 1 if live is None else 0
            if misses > limits.CLAIM_GAP:
                return
            if live is not None and set_replacement.is_left_pod(live, name):
                await cluster.delete_object(dict(live), kind=POD)


def make_record(step: Detach) -> DetachedSet:
    """Return the record of a StatefulSet that the step deletes."""
    child = step.child
    return DetachedSet(
        resource=child.resource,
        incarnation=child.incarnation,
        namespace=child.namespace,
        name=child.name,
        uid=child.uid,
    )
