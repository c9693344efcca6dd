"""Progress of one Stack's target: completed, failed, or out of time.

Must not decide what follows from that: see `hearth.plan.target.target`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.engine.stack.restore.set_claims import SetClaims
from hearth.engine.work_queue import DirtyScope
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.status import ready_condition
from hearth.plan.status.ready_condition import StatusInput
from hearth.plan.target.target import Target, TargetCause


class TargetProgress:
    """The progress of one Stack's target, checked after each reconcile."""

    def __init__(
        self, *, services: Services, definition_sync: DefinitionSync, tasks: NamedTasks, memory: InMemoryState
    ) -> None:
        """Prepare the check. It checks nothing before `update`."""
        self._services = services
        self._definition_sync = definition_sync
        self._tasks = tasks
        self._memory = memory
        self._set_claims = SetClaims(definition_sync.uid, services=services, definition_sync=definition_sync)

    def update(self, planner: StackPlanner, *, describe: Callable[[], StatusInput], grace_left: float) -> None:
        """Check whether the target is completed or failed.

        describe: makes the current status input; grace_left: seconds until the caches are complete.
        """
        definition_sync, targets = self._definition_sync, self._definition_sync.targets
        target = targets.current
        if target is None or definition_sync.is_deleting or grace_left > 0:
            return
        if planner.is_complete and (definition_sync.is_suspended or definition_sync.rejection is None):
            targets.complete_suspend()
        if definition_sync.is_suspended or definition_sync.rejection is not None:
            return
        if definition_sync.cluster.problem is not None:
            # What cannot be reached neither completes nor fails.
            return
        targets.confirm()
        if target.is_completed:
            return
        if definition_sync.is_halting:
            self._note_halted(planner)
        elif planner.is_complete and targets.is_persisted:
            self._complete(planner, target)
        elif not targets.failure and self._may_give_up(target):
            failure = ready_condition.explain_failure(describe(), planner, self._memory)
            if failure:
                definition_sync.fail(failure)

    def _complete(self, planner: StackPlanner, target: Target) -> None:
        """Record that the target is completed; after a restore, once no copy of the former data is left."""
        definition_sync = self._definition_sync
        if target.restore is not None and self._set_claims.has_copies(target.restore):
            self._tasks.run("drop copies", self._set_claims.drop_copies)
            return
        definition_sync.targets.complete()
        self._end_restore(target)
        planner.set_cleanup_policy(definition_sync.find_cleanup_policy())
        limit = definition_sync.options.history_limit
        self._tasks.run("trim", lambda: definition_sync.revisions.truncate(limit=limit))

    def _note_halted(self, planner: StackPlanner) -> None:
        """Let a restore replace its claims once nothing uses them."""
        targets = self._definition_sync.targets
        restore = targets.current.restore if targets.current is not None else None
        if restore is None or not (planner.is_suspended and planner.is_complete and targets.is_persisted):
            return
        if self._set_claims.are_replaced(restore):
            targets.note_halted()
            self._services.queue.enqueue(self._definition_sync.uid, DirtyScope.ALL_RESOURCES)
        elif not self._definition_sync.options.is_paused:
            self._tasks.run("replace claims", self._set_claims.replace)

    @property
    def halted_by(self) -> str:
        """What a restore waits for before the workloads are resumed, besides their suspension; "" for nothing."""
        return self._set_claims.problem if self._definition_sync.is_halting else ""

    def _end_restore(self, target: Target) -> None:
        """Activate the revision of a completed restore without the content of its claims, which they keep."""
        if target.restore is not None:
            self._definition_sync.schedule.request()
            self._services.queue.enqueue(self._definition_sync.uid, DirtyScope.STACK)

    def _may_give_up(self, target: Target) -> bool:
        """Return whether a failure of that target would roll the Stack back."""
        options, completed = self._definition_sync.options, self._definition_sync.targets.completed
        return (
            options.rollback_on_failure
            and not options.is_paused
            and target.cause is TargetCause.SPEC
            and completed.last != target.revision
            and completed.has_target
        )

    def seconds_left(self) -> float:
        """Return the seconds left until the target times out; infinite while the timeout does not run."""
        target, options = self._definition_sync.targets.current, self._definition_sync.options
        begun = target.started_at if target is not None else None
        if begun is None or options.timeout is None or self._definition_sync.is_deleting:
            return math.inf
        if options.is_paused or self._definition_sync.targets.was_idle:
            return math.inf
        return begun + options.timeout - self._services.clock.now()
