"""Detects that one Stack's target is completed, failed or timed out, and tracks its rolling updates.

Records when batches end, and grows a group with surge members during an update. `hearth.plan.target.target` decides
what follows, and `hearth.plan.state.rolling_updates` chooses the members.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hearth.engine.stack.failed_pods import FailedPods
from hearth.engine.stack.set_claims import SetClaims
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.plan.retry import failure_causes
from hearth.plan.stack.plan_index import PlanResult
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.rolling_updates import BatchEnd, RollingUpdates
from hearth.plan.status import ready_condition
from hearth.plan.status.ready_condition import StatusInput
from hearth.plan.target.target import LastBatch, Target, TargetCause
from hearth.template.blueprint import Blueprint

ROUNDING = 1.0
"""Tolerance in seconds for the recorded time of a batch, because times in a status have whole seconds."""


class TargetProgress(StackPart):
    """The progress of one Stack's target, checked after each reconcile."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self._set_claims = SetClaims(context)
        self._failed_pods = FailedPods(context)

    def update(
        self,
        planner: StackPlanner,
        plan_result: PlanResult,
        *,
        describe: Callable[[], StatusInput],
        grace_left: float,
    ) -> None:
        """Check whether the target is completed or failed.

        describe: makes the current status input; grace_left: seconds until the caches are complete.
        """
        definition_sync, targets = self._definition_sync, self._definition_sync.targets
        target = targets.current
        self._set_claims.review()
        if target is None or definition_sync.is_deleting or grace_left > 0:
            return
        if plan_result.is_complete and (definition_sync.is_suspended or definition_sync.rejection is None):
            targets.complete_suspend()
        if definition_sync.is_suspended or definition_sync.rejection is not None:
            return
        if definition_sync.cluster.problem is not None:
            # While the cluster cannot be used, the target neither completes nor fails.
            return
        targets.confirm()
        if target.is_completed:
            return
        if definition_sync.is_halting:
            self._note_halted(planner, plan_result)
        elif plan_result.is_complete and targets.is_persisted:
            self._complete(target)
        elif not targets.failure and self._may_give_up(target):
            reason, failure = ready_condition.explain_failure(describe(), planner, self._memory)
            is_failed = bool(failure) and reason not in failure_causes.OUTAGES
            # Read the Pods first, because the rollback deletes them with the cause.
            if is_failed and (said := self._failed_pods.find(target, planner)) is not None:
                definition_sync.fail(reason, "; ".join(filter(None, (failure, said))))

    def _complete(self, target: Target) -> None:
        """Record that the target is completed; after a restore, once no copy of the former data is left."""
        definition_sync = self._definition_sync
        if target.restore is not None and self._set_claims.has_copies(target.restore):
            self._set_claims.drop_copies(target.restore)
            return
        definition_sync.targets.complete()
        self._end_restore(target)
        limit = definition_sync.options.history_limit
        self._tasks.run("trim", lambda: definition_sync.revisions.truncate(limit=limit))

    def _note_halted(self, planner: StackPlanner, plan_result: PlanResult) -> None:
        """Let a restore replace its claims once nothing uses them."""
        targets = self._definition_sync.targets
        restore = targets.current.restore if targets.current is not None else None
        if restore is None or not (planner.is_suspended and plan_result.is_complete and targets.is_persisted):
            return
        if self._set_claims.are_replaced(restore):
            targets.note_halted()
            self._services.queue.enqueue(self._uid, DirtyScope.ALL_RESOURCES)
        elif not self._definition_sync.options.is_paused:
            self._set_claims.replace(restore)

    @property
    def halted_by(self) -> str:
        """Reason why a restore waits before the workloads are resumed, other than their suspension; "" for none."""
        return self._set_claims.problem if self._definition_sync.is_halting else ""

    def _end_restore(self, target: Target) -> None:
        """Activate the revision of a completed restore without the content of its claims, which they keep."""
        if target.restore is not None:
            self._definition_sync.schedule.request()
            self._services.queue.enqueue(self._uid, DirtyScope.STACK)

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

    def make_rolling_updates(self, blueprint: Blueprint, *, before: StackPlanner | None) -> RollingUpdates:
        """Return the rolling updates of a blueprint, with the ends of batches that the status recorded.

        before: the planner until now, whose batches continue.
        """
        target, clock = self._definition_sync.targets.current, self._services.clock
        now = clock.monotonic()
        offset = clock.now() - now
        ends = [
            # If the clock was set back, the pause must not become longer by that time.
            BatchEnd(collection=each.collection, since=min(each.since - offset, now), updated=each.updated)
            for each in (target.batches if target is not None else ())
        ]
        return RollingUpdates(
            blueprint.rolling,
            ends=ends,
            is_resumed=self._definition_sync.targets.is_restored,
            was_at_rest=self._definition_sync.was_at_rest,
            before=before.rolling if before is not None and not before.blueprint.is_unknown else None,
        )

    def update_rolling(self, planner: StackPlanner, plan_result: PlanResult, *, is_group: bool) -> None:
        """Record the batches that ended, and grow or shrink a group as its members require."""
        if not (planner.blueprint.rolling or planner.blueprint.surge):
            return
        targets, clock = self._definition_sync.targets, self._services.clock
        if targets.current is not None and plan_result.batch_ends:
            known = {each.collection: each for each in targets.current.batches}
            offset = clock.now() - clock.monotonic()
            targets.record_batches(
                keep_close(make_record(each, offset=offset), known) for each in plan_result.batch_ends
            )
        if is_group and self._may_resize(planner):
            self._resize(planner, plan_result.surge)

    def _may_resize(self, planner: StackPlanner) -> bool:
        sync = self._definition_sync
        return not (planner.is_suspended or sync.is_deleting or sync.options.is_paused or sync.rejection is not None)

    def _resize(self, planner: StackPlanner, wanted: int) -> None:
        present = self._definition_sync.targets.surge
        if not present and not wanted:
            return
        # A member beyond the size may wait for its own change, if a larger size created it. It must not cause further
        # growth, because that would keep undoing the end of the growth.
        self._definition_sync.set_surge(0 if are_own_members_ready(planner) else max(present, wanted))


def are_own_members_ready(planner: StackPlanner) -> bool:
    """Whether all members within the size of a group are ready, so that it needs no others.

    Members beyond the size are not necessarily ready: their template may have been changed back.
    """
    resources, beyond = planner.blueprint.resources, planner.blueprint.surge
    ready = len(planner.by_state[ResourceState.READY])
    if ready < len(resources) - beyond:
        return False
    others = tuple(resources)[len(resources) - beyond :]
    return ready - sum(planner.statuses[name].is_ready for name in others) == len(resources) - beyond


def make_record(end: BatchEnd, *, offset: float) -> LastBatch:
    """Return the end of a batch as the status records it. offset: of seconds since the epoch to monotonic seconds."""
    return LastBatch(collection=end.collection, since=float(math.ceil(end.since + offset)), updated=end.updated)


def keep_close(found: LastBatch, known: dict[str, LastBatch]) -> LastBatch:
    """Return the known record if it differs by rounding only, so that nothing is written again."""
    before = known.get(found.collection)
    is_same = before is not None and before.updated == found.updated and abs(before.since - found.since) <= ROUNDING
    return before if is_same and before is not None else found
