"""Requests and options of one Stack besides its target, applied before each reconcile.

Must not choose the target: see `hearth.engine.definition`.
"""

from __future__ import annotations

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.services import Services
from hearth.engine.stack.breakpoints.breakpoint_control import BreakpointControl
from hearth.engine.stack.stack_deletion import StackDeletion
from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.model import value_class
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackRequests:
    """What the user of one Stack asks for by annotations and options."""

    services: Services
    definition_sync: DefinitionSync
    memory: InMemoryState
    stopping: BreakpointControl
    leaving: StackDeletion

    @property
    def is_paused(self) -> bool:
        """Whether the user forbids every step. A terminating namespace forbids it no more."""
        return self.definition_sync.options.is_paused and not self.leaving.is_namespace_terminating

    def apply(self, stack: StackObject, planner: StackPlanner | None) -> set[DirtyItem]:
        """Apply them; return the resources that became dirty. planner: None without an accepted definition."""
        clock, targets = self.services.clock, self.definition_sync.targets
        self.definition_sync.read_options(stack)
        targets.follow_suspend(is_suspended=self.definition_sync.is_suspended, now=clock.now())
        is_settled = not (self.definition_sync.needs_sync(stack) or self.definition_sync.schedule.is_running)
        verbs = targets.take_requests(stack, is_settled=is_settled)
        if "retry" in verbs:
            self.memory.retry(clock.monotonic())
            self.definition_sync.request_retry()
        if "cleanup" in verbs:
            targets.waive_cleanup()
            if planner is not None:
                planner.set_cleanup_policy(self.definition_sync.find_cleanup_policy())
        dirty: set[DirtyItem] = {DirtyScope.ALL_RESOURCES} if verbs else set()
        if planner is not None:
            dirty |= self.stopping.update(planner, is_swept_away=self.leaving.is_namespace_terminating)
        return dirty
