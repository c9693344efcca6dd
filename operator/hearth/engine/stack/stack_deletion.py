"""Deletes one Stack: removes the finalizer once its children are deleted.

A planner with an empty blueprint plans the deletion of the children. While the namespace is being deleted, no deletion
is deferred.
"""

from __future__ import annotations

import functools
import math

import structlog

from hearth.engine import verified_revisions
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import revision_builder, stack_cluster
from hearth.engine.stack import faults, protection
from hearth.engine.stack.cache_sync import CacheSync
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import names, retry_delays
from hearth.model.child import Child
from hearth.model.errors import ApiStatusError
from hearth.model.text import enumeration
from hearth.plan.retry import api_errors
from hearth.plan.stack.plan_index import PlanResult
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.condition_types import ClusterReason
from hearth.plan.status import deletion_blockers

logger = structlog.get_logger(__name__)

LOOK_AT_CHILDREN = 2.0
"""Seconds between two lists of the remaining children, whose kinds may not be watched."""
SOON = 0.2
"""Seconds until the retry if only the Stack changed in the meantime."""
LET_GO_AFTER = 20.0
"""Seconds that a cluster must be unusable before its objects are left behind with the operator's finalizers. After a
start of the operator or a rotation of credentials, it takes some seconds to reach a cluster."""
LOOK_AT_NAMESPACE = 60.0
"""Seconds between two checks of the namespace while a user defers the deletion of its Stack.

The first check is immediate. This interval covers a namespace that is deleted later.
"""


class StackDeletion(StackPart):
    """The known state of one Stack's deletion."""

    def __init__(self, context: StackContext, *, cache_sync: CacheSync) -> None:
        super().__init__(context)
        self.blocked_by = ""
        """Obstacles to the deletion of the Stack itself, other than its children."""
        self.is_namespace_terminating = False
        """Whether the whole namespace was being deleted at the last check."""
        self._cache_sync = cache_sync
        self._next_look = -math.inf
        """Monotonic time in seconds of the next allowed check of the namespace."""
        self._unusable_since: float | None = None
        """Monotonic time since which the cluster cannot be used; None while it can."""

    def note_protection(self, stack: StackObject) -> None:
        """Decide before a reconcile whether the requested deletion is forbidden."""
        found = protection.explain_own(stack) if stack.deleting else ""
        blueprint = self._definition_sync.blueprint
        is_deleting_all = blueprint is not None and not blueprint.abandons
        if not found and stack.deleting and self._definition_sync.is_deleting and is_deleting_all:
            found = protection.find_within(self._uid, self._services, blueprint=blueprint)
        self._definition_sync.protected_by = found

    def update(self, planner: StackPlanner, plan_result: PlanResult, *, is_releasing: bool, left_pods: str) -> None:
        """Check after a reconcile whether the Stack can be finalized.

        is_releasing: whether objects are being released; left_pods: why Pods of a deleted StatefulSet remain, "" if
        none do.
        """
        is_cut_off = self._note_cluster()
        if not self._definition_sync.is_deleting:
            return
        if self._definition_sync.protected_by:
            self.blocked_by = ""
            return
        if is_cut_off:
            # Without the cluster, no list shows the remaining objects.
            if self._may_let_go(planner):
                self._finalize(is_abandoned=True)
        elif planner.withheld:
            self.blocked_by = (
                f"waits until other Stacks take over objects that they define: {describe_withheld(planner)}"
            )
        elif left_pods:
            self.blocked_by = left_pods
        elif plan_result.is_complete and not is_releasing:
            self._finalize(is_abandoned=False)
        if (
            self._definition_sync.options.is_paused
            or planner.deletion_guard.held_deletions
            or planner.find_post_delete_stops()
            or is_cut_off
        ):
            self._tasks.run("look at the namespace", self._look_at_namespace)

    async def _look_at_namespace(self) -> None:
        """Check whether the whole namespace is being deleted; no deletion is then deferred."""
        stack, now = self._services.management_cluster.find_stack(self._uid), self._services.clock.monotonic()
        if stack is None or not stack.deleting or self.is_namespace_terminating or now < self._next_look:
            return
        self._next_look = now + LOOK_AT_NAMESPACE / 2
        self.is_namespace_terminating = await self._services.is_terminating(stack.namespace)
        if self.is_namespace_terminating and self._definition_sync.cluster.problem is not None:
            # Decide again now, because the credentials may never return.
            self._definition_sync.schedule.request()
        self._services.enqueue_after(
            0.0 if self.is_namespace_terminating else LOOK_AT_NAMESPACE, self._uid, DirtyScope.STACK
        )

    def _may_let_go(self, planner: StackPlanner) -> bool:
        """Return whether the cluster that cannot be used has no objects of the Stack, or may keep them."""
        if planner.blueprint.abandons or self._definition_sync.cluster.is_lost:
            is_paused = self._definition_sync.options.is_paused and not self.is_namespace_terminating
            return not is_paused and self._is_cut_off_for_long()
        stack = self._services.management_cluster.find_stack(self._uid)
        is_new = self._definition_sync.targets.current is None
        return is_new and stack is not None and not self._definition_sync.builder.load_revisions(stack).last_number

    def _note_cluster(self) -> bool:
        """Return whether the cluster of the objects cannot be used, and record since when."""
        if self._definition_sync.cluster.problem is None:
            self._unusable_since = None
        elif self._unusable_since is None:
            self._unusable_since = self._services.clock.monotonic()
        return self._unusable_since is not None

    def _is_cut_off_for_long(self) -> bool:
        now = self._services.clock.monotonic()
        left = (self._unusable_since or now) + LET_GO_AFTER - now
        if left > 0:
            self._services.enqueue_after(left, self._uid, DirtyScope.STACK)
        return left <= 0

    def _finalize(self, *, is_abandoned: bool) -> None:
        """Remove the operator's finalizer unless children remain. is_abandoned: whether they may."""
        self._inquiries.ask(
            faults.PART,
            functools.partial(self._find_obstacle, is_abandoned=is_abandoned),
            self._note_obstacle,
            delay=retry_delays.STACK_DELETION,
            what=DirtyScope.ALL_RESOURCES,
        )
        if (error := self._inquiries.find_error(faults.PART)) is not None:
            self.blocked_by = f"cannot verify that no child is left: {error}; the operator retries"

    async def _find_obstacle(self, *, is_abandoned: bool) -> str:
        """Remove the operator's finalizer, or return what remains."""
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None or names.FINALIZER not in stack.finalizers:
            return ""
        if is_abandoned:
            await self._report_abandoned(stack)
        elif left := await self._list_remaining(stack):
            self._services.enqueue_after(LOOK_AT_CHILDREN, self._uid, DirtyScope.ALL_RESOURCES)
            return f"waits for {deletion_blockers.describe_all(left)}"
        try:
            await self._remove_finalizer(stack, is_abandoned=is_abandoned)
        except ApiStatusError as error:
            if not is_conflict(error):
                raise
            # Only the Stack changed, perhaps by a status write of the operator. Reporting this would change it again.
            self._services.enqueue_after(SOON, self._uid, DirtyScope.STACK)
        return ""

    def _note_obstacle(self, obstacle: str) -> bool:
        self.blocked_by = obstacle
        return False

    async def _report_abandoned(self, stack: StackObject) -> None:
        """Report in an Event that the objects cannot be released because their cluster is lost."""
        target = self._definition_sync.targets.current
        if target is not None and self._definition_sync.cluster.is_lost:
            message = stack_cluster.explain_abandoned(stack, target.cluster)
            logger.warning("objects in another cluster are left behind", stack=stack.uid)
            await self._services.management_cluster.emit_event(
                stack, type_="Warning", reason=ClusterReason.ABANDONED, message=message
            )

    async def _remove_finalizer(self, stack: StackObject, *, is_abandoned: bool) -> None:
        """Remove the operator's finalizer, and the parts of the Stack that the garbage collector leaves.

        While objects remain, the revisions may be the only record that they must stay, so they are deleted last.
        """
        management_cluster, hashes = self._services.management_cluster, self._services.hashes
        if self._definition_sync.is_orphaned and not is_abandoned:
            await verified_revisions.delete_all(management_cluster, hashes, stack)
        # Use the current version: the API server rejects the removal from an older one.
        await management_cluster.remove_finalizer(management_cluster.find_stack(self._uid) or stack)
        if self._definition_sync.is_orphaned and is_abandoned:
            await verified_revisions.delete_all(management_cluster, hashes, stack)

    async def _list_remaining(self, stack: StackObject) -> list[Child]:
        """List live objects of every kind that the Stack ever applied; if unknown, of all listable kinds."""
        revisions = self._definition_sync.builder.load_revisions(stack)
        cluster, absent = self._services.find_children_cluster(stack.uid), self._cache_sync.absent
        is_known = revisions.knows_all_kinds(self._definition_sync.targets.needed)
        kinds = revision_builder.find_served_kinds(cluster, revisions.kinds) if is_known else cluster.kinds.all()
        for kind in kinds:
            try:
                found = await cluster.list_children(kind, stack.uid, namespace=stack.namespace)
            except ApiStatusError as error:
                if not error.is_forbidden or (is_known and kind not in absent):
                    raise
                # The kind was never required, so no child is of that kind.
                continue
            left = [child for child in found if child.is_identified]
            if left:
                cluster.follow(kind, (), namespace=stack.namespace)
                return left
        return []


def describe_withheld(planner: StackPlanner) -> str:
    """Describe the objects that stay for other Stacks of the tree."""
    found = sorted(f"{each.child.ref} {each.claim.explain()}" for each in planner.withheld.values())
    return enumeration.enumerate_names(found)


def is_conflict(error: ApiStatusError) -> bool:
    """Return whether the object had another version. A webhook with this code names no object."""
    return error.is_conflict and bool(api_errors.read_details(error.status or {}).get("name"))
