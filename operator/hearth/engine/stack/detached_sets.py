"""Records StatefulSets of one Stack that are deleted without their Pods and claims, until their successors exist.

The status contains the record before a deletion starts. After a crash, the next StatefulSet therefore still gets the
same name, and takes over the Pods and claims. If no successor is wanted, or the Stack is suspended in the meantime, the
remaining Pods are deleted. The claims stay, as with every deletion of a StatefulSet.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping

from hearth.engine import stateful_set_claims
from hearth.engine.cluster_objects import StackObject
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import limits, retry_delays
from hearth.model.kinds import ObjectRef
from hearth.model.well_known_kinds import POD
from hearth.plan.environment.environment_rules import Action
from hearth.plan.resource import set_replacement
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.steps import DeletePart, Detach
from hearth.plan.target.target import DetachedSet

TASK = "look for pods without a StatefulSet"
OWNER = "pods"
"""The owner of the steps, see `steps.make_part_key`."""


class DetachedSets(StackPart):
    """The records of one Stack, updated after each reconcile."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self._stopped: tuple[str, ...] = ()
        """The UIDs of StatefulSets whose Pods were deleted because the Stack is suspended."""

    @property
    def has_any(self) -> bool:
        """Whether any StatefulSet is recorded."""
        target = self._definition_sync.targets.current
        return target is not None and bool(target.detached)

    def update(self, planner: StackPlanner, planned: Collection[str]) -> None:
        """Record the sets that are about to be deleted, and drop sets with a successor. planned: the keys of new steps.

        A new record must be in the status before the step starts, see `TargetTracker.is_persisted`.
        """
        steps = (planner.ready_steps.get(key) for key in planned)
        begun = [make_record(step) for step in steps if isinstance(step, Detach)]
        if not begun and not self.has_any:
            return
        ended = {each.resource for each in self._list() if self._has_next(each)}
        if self._definition_sync.targets.record_detached(begun, ended=ended):
            self._services.queue.enqueue(self._uid, DirtyScope.STACK)
        if not self._list_with_pods(planner):
            self._memory.offer_parts(OWNER, ())
        elif not self._definition_sync.is_forbidden_to_write and self._definition_sync.cluster.problem is None:
            self._inquiries.ask(
                TASK,
                functools.partial(self._find_left_pods, planner),
                functools.partial(self._offer_deletions, planner),
                delay=retry_delays.LEFT_PODS,
            )

    def find_problem(self, planner: StackPlanner) -> str:
        """Return why Pods remain that no StatefulSet will take over, or "" if there are none, or they may stay."""
        if planner.blueprint.abandons or not any(self._is_unwanted(each, planner) for each in self._list()):
            return ""
        failure = self._memory.find_part_failure(OWNER)
        if failure is not None:
            return f"{failure.message}; the operator retries"
        if (held := next(iter(planner.held_parts.values()), None)) is not None:
            return held.message
        if (error := self._inquiries.find_error(TASK)) is not None:
            named = ", ".join(f"statefulset/{each.name}" for each in self._list_with_pods(planner))
            return f"cannot read the Pods that {named} left: {error}; the operator retries"
        return "waits for the deletion of Pods that a deleted StatefulSet left"

    def _list(self) -> tuple[DetachedSet, ...]:
        target = self._definition_sync.targets.current
        return target.detached if target is not None else ()

    def _has_next(self, detached: DetachedSet) -> bool:
        children = self._services.find_children_cluster(self._uid).children_of(self._uid, detached.resource)
        return set_replacement.find_next(detached, children) is not None

    def _list_with_pods(self, planner: StackPlanner) -> list[DetachedSet]:
        """Return the sets whose Pods must be deleted: unwanted sets, and sets of a suspended Stack."""
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

    async def _find_left_pods(self, planner: StackPlanner) -> Mapping[DetachedSet, list[DeletePart]]:
        """Return the steps that delete the Pods which each StatefulSet left."""
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None:
            return {}
        return {each: await self._find_pods(stack, each, planner) for each in self._list_with_pods(planner)}

    def _offer_deletions(self, planner: StackPlanner, left: Mapping[DetachedSet, list[DeletePart]]) -> bool:
        """Offer the deletions of Pods to the planner, and drop the sets without remaining Pods."""
        is_news = self._memory.offer_parts(OWNER, (step for pods in left.values() for step in pods))
        ended = [each for each, pods in left.items() if not pods]
        unwanted = {each.resource for each in ended if self._is_unwanted(each, planner)}
        self._stopped += tuple(each.uid for each in ended if each.resource not in unwanted)
        self._definition_sync.targets.record_detached((), ended=unwanted)
        return is_news or bool(ended)

    async def _find_pods(self, stack: StackObject, detached: DetachedSet, planner: StackPlanner) -> list[DeletePart]:
        """Return the steps that delete the Pods that a StatefulSet left."""
        if planner.blueprint.abandons:
            return []
        cluster, boundary = self._services.find_cluster(stack), self._services.find_boundary(stack)
        actions, due, misses = self._find_actions(detached, planner), [], 0
        for ordinal in range(limits.CLAIMS_BEYOND_REPLICAS):
            name = f"{detached.name}-{ordinal}"
            ref = ObjectRef(group="", kind=POD.name, namespace=detached.namespace, name=name)
            if boundary.find_denial(ref):
                break
            live = await stateful_set_claims.find_live(cluster, ref, kind=POD)
            misses = misses + 1 if live is None else 0
            if misses > limits.CLAIM_GAP:
                break
            if (
                live is not None
                and set_replacement.is_left_pod(live, name)
                and "deletionTimestamp" not in live["metadata"]
            ):
                due.append(DeletePart(resource=detached.resource, kind=POD, live=dict(live), actions=actions))
        return due

    def _find_actions(self, detached: DetachedSet, planner: StackPlanner) -> tuple[Action, ...]:
        """Return the meaning of the Pods' deletion for their resource: nothing if they are merely suspended with it."""
        if not self._is_unwanted(detached, planner):
            return ()
        return (Action.REPLACE,) if detached.resource in planner.blueprint.resources else (Action.DELETE,)


def make_record(step: Detach) -> DetachedSet:
    """Return the record of a StatefulSet that the step deletes."""
    child = step.child
    return DetachedSet(
        resource=child.resource,
        incarnation=child.incarnation,
        namespace=child.namespace,
        name=child.name,
        uid=child.uid,
        replicas=step.kept_replicas,
    )
