"""Deletion of one Stack: finalized once its children are gone, and never deferred while its namespace is being deleted.

Must not know how children are deleted: a planner with an empty blueprint plans that.
"""

from __future__ import annotations

import math

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.engine.stack import finalization
from hearth.engine.stack.cache_sync import CacheSync
from hearth.engine.work_queue import DirtyScope
from hearth.plan.stack.stack_plan import StackPlan

LOOK_AT_NAMESPACE = 60.0
"""Seconds between two checks of the namespace while a user defers the deletion of its Stack.

The first check is immediate. This interval covers a namespace that is deleted later.
"""


class StackDeletion:
    """The known state of one Stack's deletion."""

    def __init__(
        self, uid: str, *, services: Services, intake: DefinitionSync, tasks: NamedTasks, cache_sync: CacheSync
    ) -> None:
        """Prepare the state. It checks nothing before `update`."""
        self.blocked_by = ""
        """What blocks the Stack's own deletion besides its children."""
        self.is_namespace_terminating = False
        """Whether the whole namespace was being deleted at the last check."""
        self._uid = uid
        self._services = services
        self._intake = intake
        self._tasks = tasks
        self._cache_sync = cache_sync
        self._next_look = -math.inf
        """Monotonic time in seconds of the next allowed check of the namespace."""

    def update(self, board: StackPlan) -> None:
        """Finalize what can be finalized after a reconcile."""
        if not self._intake.is_deleting:
            return
        if board.is_complete:
            self._tasks.run("part", self._part)
        if self._intake.options.is_paused or board.deletion_guard.held_deletions or board.find_post_delete_stops():
            self._tasks.run("look at the namespace", self._look_at_namespace)

    async def _look_at_namespace(self) -> None:
        """Check whether the whole namespace is being deleted; no deletion is then deferred."""
        stack, now = self._services.management_cluster.find_stack(self._uid), self._services.clock.monotonic()
        if stack is None or not stack.deleting or self.is_namespace_terminating or now < self._next_look:
            return
        self._next_look = now + LOOK_AT_NAMESPACE / 2
        self.is_namespace_terminating = await finalization.is_namespace_terminating(stack, self._services)
        self._services.enqueue_after(
            0.0 if self.is_namespace_terminating else LOOK_AT_NAMESPACE, self._uid, DirtyScope.STACK
        )

    async def _part(self) -> None:
        self.blocked_by = await finalization.finalize(
            self._uid, self._services, needed=self._intake.targets.needed, absent=self._cache_sync.absent
        )
