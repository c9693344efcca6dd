"""The deletion of one Stack itself: seen to its end once its children are gone, and held by nobody in a namespace that goes.

Must not know how children are deleted: that is what a board plans which wants nothing.
"""

from __future__ import annotations

import math

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.engine.stack import finalization
from hearth.engine.stack.cache_sync import CacheSync
from hearth.engine.work_queue import STACK_SELF
from hearth.plan.stack.stack_planner import StackPlanner

LOOK_AT_NAMESPACE = 60.0
"""Seconds between two looks at the namespace of a Stack whose deletion is held by its user. The first is at once, so this
is for a namespace that goes later."""


class StackDeletion:
    """What is known of the end of one Stack."""

    def __init__(
        self, uid: str, *, services: Services, intake: DefinitionSync, tasks: NamedTasks, sight: CacheSync
    ) -> None:
        """Nothing is looked at before `look`."""
        self.blocked_by = ""
        """What holds the Stack's own deletion beyond its children."""
        self.is_namespace_terminating = False
        """Whether the Stack goes with its whole namespace, as far as that was looked at."""
        self._uid = uid
        self._services = services
        self._intake = intake
        self._tasks = tasks
        self._sight = sight
        self._next_look = -math.inf
        """Monotonic seconds before which the namespace is not looked at again."""

    def update(self, board: StackPlanner) -> None:
        """After a pass: end what can be ended."""
        if not self._intake.is_deleting:
            return
        if board.is_complete:
            self._tasks.run("part", self._part)
        if self._intake.options.is_paused or board.deletion_guard.held_deletions or board.find_post_delete_stops():
            self._tasks.run("look at the namespace", self._look_at_namespace)

    async def _look_at_namespace(self) -> None:
        """A deletion is not held in a namespace that goes as a whole."""
        stack, now = self._services.management_cluster.find_stack(self._uid), self._services.clock.monotonic()
        if stack is None or not stack.deleting or self.is_namespace_terminating or now < self._next_look:
            return
        self._next_look = now + LOOK_AT_NAMESPACE / 2
        self.is_namespace_terminating = await finalization.is_namespace_terminating(stack, self._services)
        self._services.enqueue_after(0.0 if self.is_namespace_terminating else LOOK_AT_NAMESPACE, self._uid, STACK_SELF)

    async def _part(self) -> None:
        self.blocked_by = await finalization.finalize(
            self._uid, self._services, needed=self._intake.targets.needed, absent=self._sight.absent
        )
