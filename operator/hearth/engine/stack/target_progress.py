"""Progress of one Stack's target: completed, failed, or out of time.

Must not decide what follows from that: see `hearth.plan.target.target`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.status import ready_condition
from hearth.plan.status.ready_condition import StatusInput
from hearth.plan.target.target import Target, TargetCause


class TargetProgress:
    """The progress of one Stack's target, checked after each reconcile."""

    def __init__(self, *, services: Services, intake: DefinitionSync, tasks: NamedTasks, memory: InMemoryState) -> None:
        """Prepare the check. It checks nothing before `update`."""
        self._services = services
        self._intake = intake
        self._tasks = tasks
        self._memory = memory

    def update(self, board: StackPlanner, *, describe: Callable[[], StatusInput], blind: float) -> None:
        """Check whether the target is completed or failed.

        describe: makes the current status input; blind: seconds until the caches are complete.
        """
        intake, targets = self._intake, self._intake.targets
        target = targets.current
        if target is None or intake.is_deleting or blind > 0:
            return
        if board.is_complete and (intake.is_suspended or intake.rejection is None):
            targets.complete_suspend()
        if intake.is_suspended or intake.rejection is not None:
            return
        targets.confirm()
        if target.is_completed:
            return
        if board.is_complete and targets.is_persisted:
            targets.complete()
            board.set_cleanup_policy(intake.find_cleanup_policy())
            self._tasks.run("trim", intake.truncate_history)
        elif not targets.failure and self._may_give_up(target):
            failure = ready_condition.explain_failure(describe(), board, self._memory)
            if failure:
                intake.fail(failure)

    def _may_give_up(self, target: Target) -> bool:
        """Return whether a failure of that target would roll the Stack back."""
        flow, completed = self._intake.options, self._intake.targets.completed
        return (
            flow.rollback_on_failure
            and not flow.is_paused
            and target.cause is TargetCause.SPEC
            and completed.last != target.revision
            and completed.has_target
        )

    def seconds_left(self) -> float:
        """Return the seconds left until the target times out; infinite while the timeout does not run."""
        target, flow = self._intake.targets.current, self._intake.options
        begun = target.started_at if target is not None else None
        if begun is None or flow.timeout is None or self._intake.is_deleting:
            return math.inf
        if flow.is_paused or self._intake.targets.was_idle:
            return math.inf
        return begun + flow.timeout - self._services.clock.now()
