"""Requests and options of one Stack besides its target, applied before each reconcile.

Must not choose the target: see `hearth.engine.definition`.
"""

from __future__ import annotations

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.services import Services
from hearth.engine.stack.breakpoint_control import BreakpointControl
from hearth.engine.stack.stack_deletion import StackDeletion
from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.model import names, phases, value_class
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState

COMPLETE = frozenset(str(phase) for phase in phases.Phase if str(phase).endswith("Complete")) - {"SuspendComplete"}
"""The phases of a Stack in which nothing has failed."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackRequests:
    """What the user of one Stack asks for by annotations and options."""

    services: Services
    definition_sync: DefinitionSync
    memory: InMemoryState
    breakpoints: BreakpointControl
    deletion: StackDeletion

    @property
    def is_paused(self) -> bool:
        """Whether the user forbids every step. A terminating namespace forbids it no more."""
        return self.definition_sync.options.is_paused and not self.deletion.is_namespace_terminating

    def apply(self, stack: StackObject, planner: StackPlanner | None) -> set[DirtyItem]:
        """Apply them; return the resources that became dirty. planner: None without an accepted definition."""
        clock, targets = self.services.clock, self.definition_sync.targets
        self.definition_sync.read_options(stack)
        targets.follow_suspend(is_suspended=self.definition_sync.is_suspended, now=clock.now())
        if not self.memory.finished.is_loaded:
            self.memory.finished.load(targets.stored_finished)
            targets.stored_finished = None
        is_settled = not (self.definition_sync.needs_sync(stack) or self.definition_sync.schedule.is_running)
        verbs = targets.take_requests(stack, is_settled=is_settled)
        if "retry" in verbs:
            self.memory.retry(clock.monotonic())
            self.memory.asks_all = True
            self._run_again(stack)
            self.definition_sync.request_retry()
        if "cleanup" in verbs:
            targets.waive_cleanup()
            if planner is not None:
                planner.set_cleanup_policy(self.definition_sync.find_cleanup_policy())
                planner.release_members()
        dirty: set[DirtyItem] = {DirtyScope.ALL_RESOURCES} if verbs else set()
        if planner is not None:
            dirty |= self.breakpoints.update(planner, is_swept_away=self.deletion.is_namespace_terminating)
        return dirty

    def _run_again(self, stack: StackObject) -> None:
        """Forget the finished work that a retry request is about: of the resource that it names, else of a complete Stack.

        The status tells whether the Stack is complete. This process may not have planned anything yet, and a retry of what
        failed must not run again what succeeded.
        """
        finished = self.memory.finished
        named = stack.annotations.get(names.REQUEST_RETRY, "").partition("/")[0]
        if named in finished.entries:
            finished.forget(named)
        elif stack.phase in COMPLETE:
            for name in list(finished.entries):
                finished.forget(name)
