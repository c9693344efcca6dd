"""Control of one Stack's breakpoints: environment, continue requests, and the timeout during a stop.

Must not decide where a resource stops: see `hearth.plan.resource.enforcement`.
"""

from __future__ import annotations

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.engine.stack import continue_requests
from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.model import members
from hearth.plan.environment import active_environment
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.status import breakpoint_waits


class BreakpointControl:
    """The breakpoints of one Stack in this process. May be lost at any time."""

    def __init__(self, uid: str, *, services: Services, definition_sync: DefinitionSync, tasks: NamedTasks) -> None:
        """Prepare the control. It enforces nothing before `update`."""
        self._uid = uid
        self._services = services
        self._definition_sync = definition_sync
        self._tasks = tasks
        self._made_of: tuple[object, ...] = ()
        """The inputs of the planner's current environment."""

    def update(self, planner: StackPlanner, *, is_swept_away: bool) -> set[DirtyItem]:
        """Apply the current environment to the planner; return the resources to reconcile.

        is_swept_away: the whole namespace is being deleted, so nothing can be stopped.
        """
        made_of = (
            planner,
            self._definition_sync.options.environment,
            self._definition_sync.targets.current,
            self._definition_sync.resources_version,
            is_swept_away,
        )
        if made_of == self._made_of:
            return set()
        self._made_of = made_of
        before, wanted = (
            planner.environment,
            active_environment.UNRESTRICTED if is_swept_away else self._definition_sync.find_environment(),
        )
        planner.set_environment(wanted)
        # Without rules, nothing depends on the target.
        is_moved = before.key != wanted.key and not wanted.is_unrestricted
        if before.rules != wanted.rules or is_moved:
            return {DirtyScope.ALL_RESOURCES}
        changed = before.cleared.find_changed(wanted.cleared)
        return {DirtyScope.ALL_RESOURCES} if any(map(members.is_all, changed)) else {*changed}

    def after_reconcile(
        self, stack: StackObject, planner: StackPlanner, memory: InMemoryState, *, grace_left: float
    ) -> None:
        """Record post-delete stops and handle continue requests after a reconcile.

        grace_left: seconds until the caches are complete.
        """
        targets, queue = self._definition_sync.targets, self._services.queue
        parting = planner.deletion_guard.take_unrecorded()
        if parting:
            targets.record_post_delete(parting)
            queue.enqueue(self._uid, DirtyScope.STACK)
        if self._definition_sync.needs_sync(stack):
            return
        order = targets.find_continue_request(stack)
        if grace_left > 0:
            if order:
                self._services.enqueue_after(grace_left, self._uid, DirtyScope.STACK)
            return
        is_cut_off = self._definition_sync.cluster.problem is not None
        is_idle = self._definition_sync.options.is_paused or is_cut_off or breakpoint_waits.is_stopped(planner, memory)
        targets.note_idle(is_idle=is_idle, now=self._services.clock.now())
        if order:
            self._obey(stack, planner, order)

    def _obey(self, stack: StackObject, planner: StackPlanner, order: str) -> None:
        answer = continue_requests.answer(order, planner, continue_requests.find_address(stack))
        self._definition_sync.targets.record_continue(order, answer.passed)
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)
        emit = self._services.management_cluster.emit_event
        type_, reason = ("Normal", "Continued") if answer.passed else ("Warning", "BreakpointNotFound")
        self._tasks.run(order, lambda: emit(stack, type_=type_, reason=reason, message=answer.message))
