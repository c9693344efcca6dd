"""Records the results of a Stack's steps: failures and their retries, created objects, and complete ownership.

Makes no decisions. Its state can be lost at any time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import assert_never

import structlog

from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.writes import step_execution
from hearth.model import retry_delays
from hearth.model.kinds import ObjectRef
from hearth.plan.health import suspend_rules
from hearth.plan.ownership import field_ownership
from hearth.plan.resource import decide
from hearth.plan.retry import backoff, retry_triggers
from hearth.plan.retry.backoff import AttemptId, BackoffPolicy, StepFailure
from hearth.plan.stack.options import ReconcileOptions
from hearth.plan.stack.plan_index import FailedResource
from hearth.plan.state import healing, steps
from hearth.plan.state.memory import RefusedChange
from hearth.plan.state.run_policy import RunPolicy
from hearth.plan.state.steps import (
    Apply,
    CreatePart,
    Delete,
    DeletePart,
    Detach,
    Release,
    Restart,
    Step,
    Suspend,
    WriteHealthMark,
)

logger = structlog.get_logger(__name__)


class StepResults(StackPart):
    """Updates the in-memory state of one Stack with the results of its steps."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self._backoff: tuple[ReconcileOptions, BackoffPolicy] | None = None
        """Options and their policy, cached because every step reads it."""

    def begin(self, key: str, step: Step) -> bool:
        """Count a step and record it as in flight. Returns False if it must wait because other steps started first."""
        now, work = self._services.clock.monotonic(), steps.find_work(step)
        if self._memory.find_due(key, step, work) > now:
            self._services.queue.enqueue(self._uid, key)
            return False
        self._memory.governor.count(work, now=now, backoff=self.backoff)
        self._memory.in_flight[key] = step
        self._memory.parts.pop(key, None)
        return True

    def record(self, key: str, step: Step, result: step_execution.StepResult) -> None:
        """Record the result of a step."""
        missed = self._memory.finish(key)
        match result:
            case step_execution.StepDone():
                self._record_success(key, step, result)
            case StepFailure():
                self._record_failure(key, step, result, missed=missed)
            case _:
                assert_never(result)

    def _record_failure(
        self, key: str, step: Step, failure: StepFailure, *, missed: Collection[retry_triggers.RetryTrigger]
    ) -> None:
        if failure.immutable and isinstance(step, Apply) and step.uid is not None:
            self._memory.immutable[step.uid] = RefusedChange(step.hash, failure.immutable, failure.is_proven)
            if failure.is_proven:
                # Not a failure yet: the policy of the resource determines the next step.
                return
        if failure.is_name_taken and isinstance(step, Apply):
            # Not a failure: the next object gets another name.
            self._memory.taken[key] = self._memory.taken.get(key, frozenset()) | {step.ref}
            return
        self._remember(key, failure, subject=steps.attempt_id(step), missed=missed, about=find_subject(step))

    def _record_success(self, key: str, step: Step, done: step_execution.StepDone) -> None:
        self._log_write(step, done.reverted)
        self._memory.governor.note_done(steps.find_work(step))
        self._memory.forget_failures(key, steps.attempt_id(step))
        match step:
            case Apply():
                self._record_apply(key, step, done)
            case Delete():
                self._memory.asked.pop(key, None)
                self._note_replicas(key, step)
                if step.child.uid in self._memory.counted_failures:
                    # The operator deleted the object for a retry; no other client undid a write.
                    self._memory.governor.note_own_removal(step.child.resource)
            case Suspend():
                if step.repaired_paths:
                    self._count_repair(step.child.resource, suspend_rules.write_paths(step.repaired_paths))
            case Detach():
                self._note_replicas(key, step)
            case Restart():
                # Another mark of the same object counts as a new failure.
                self._memory.counted_failures.pop(step.child.uid, None)
            case Release() | WriteHealthMark() | CreatePart() | DeletePart():
                pass
            case _:
                assert_never(step)

    def _note_replicas(self, key: str, step: Delete | Detach) -> None:
        """Remember the replica count with which the next object of the resource can start."""
        # An obsolete object has a key other than its resource, and no successor.
        if key == step.child.resource and step.kept_replicas is not None:
            self._memory.replica_counts[key] = step.kept_replicas

    def _record_apply(self, key: str, step: Apply, done: step_execution.StepDone) -> None:
        if step.uid is None:
            self._memory.asked.pop(key, None)
            self._memory.replica_counts.pop(key, None)
        if done.child is None:
            return
        # A field that is missing in the response to our own apply was never ours. Only later losses are drift.
        seen = (step.hash, done.child.ownership)
        self._memory.record_ownership(done.child.uid, seen, field_ownership.DriftFinding(tolerated=done.tolerated))
        self._memory.altered.pop(done.child.uid, None)
        if done.is_created:
            self._memory.never_ready[done.child.uid] = None
        if step.repaired_fields:
            self._count_repair(key, step.repaired_fields)
        else:
            # The new definition no longer contains the contested field.
            self._memory.drift_conflicts.pop(key, None)

    def count_failure(self, failed: FailedResource) -> None:
        """Count a permanently failed object as a failed attempt of its resource. Marked objects count separately."""
        name, child, status = failed.name, failed.child, failed.status
        self._memory.counted_failures[child.uid] = None
        self._services.queue.enqueue(self._uid, name)
        if child.unhealthy_reason is not None:
            self._count_mark(name, child.uid)
            return
        if self._memory.asks_all:
            self._memory.asked[name] = None
        self._remember(
            name,
            StepFailure(reason=status.reason, message=status.message),
            subject=decide.failure_id(child),
            about=(name, child.ref),
            policy=self._make_run_backoff(failed.run),
        )

    def awaited_triggers(self, waiting: Collection[str]) -> set[retry_triggers.RetryTrigger]:
        """Return the retry triggers of the failed steps with these keys."""
        return {cause for key in waiting if (attempt := self._memory.attempts.get(key)) for cause in attempt.triggers}

    def expedite(self, trigger: retry_triggers.RetryTrigger) -> None:
        """Immediately retry all steps that failed because of this trigger."""
        for key in self._memory.on_trigger(trigger, now=self._services.clock.monotonic()):
            self._services.queue.enqueue(self._uid, key)

    def _remember(
        self,
        key: str,
        failure: StepFailure,
        *,
        subject: AttemptId,
        about: tuple[str, ObjectRef],
        missed: Collection[retry_triggers.RetryTrigger] = (),
        policy: BackoffPolicy | None = None,
    ) -> None:
        """about: the resource and its object; missed: triggers that fired while the step was in flight."""
        now = self._services.clock.monotonic()
        attempt = backoff.after_failure(
            self._memory.attempts.get(key), failure, subject=subject, now=now, backoff=policy or self.backoff
        )
        late = [cause for cause in failure.causes if cause in missed]
        asks_again = any(cause.type in retry_triggers.NOTICED_LATE for cause in late)
        self._memory.attempts[key] = backoff.expedite(attempt, now=now, asks_again=asks_again) if late else attempt
        for cause in failure.causes:
            self._services.find_children_cluster(self._uid).watch_trigger(cause)
        logger.warning(
            "step failed",
            stack=self._uid,
            resource=about[0],
            object=str(about[1]),
            reason=failure.reason,
            message=failure.message,
            attempt=attempt.failures,
            retry_in_seconds=round(max(0.0, attempt.retry_at - now), 1),
        )

    def _log_write(self, step: Step, reverted: str) -> None:
        """Log a successful write. The log must show everything that the operator did. reverted: see `StepDone`."""
        repaired = step.repaired_fields if isinstance(step, Apply) else ""
        fields = {"fields": reverted or repaired} if repaired else {}
        resource, ref = find_subject(step)
        logger.info(
            steps.describe_write(step),
            stack=self._uid,
            resource=resource,
            object=str(ref),
            **fields,
        )

    @property
    def backoff(self) -> BackoffPolicy:
        """The backoff policy: the settings of the Stack, with the operator's defaults."""
        options, usual = self._definition_sync.options, self._services.backoff
        if self._backoff is None or self._backoff[0] is not options:
            longest = options.max_backoff if options.max_backoff is not None else usual.max_backoff
            self._backoff = options, dataclasses.replace(usual, limit=options.retry_limit, max_backoff=longest)
        return self._backoff[1]

    def _make_run_backoff(self, run: RunPolicy | None) -> BackoffPolicy:
        """Return the backoff policy of a failed object. Work that runs to completion starts with a long delay."""
        usual = self.backoff
        if run is None:
            return usual
        return dataclasses.replace(
            usual,
            first_delay=max(usual.first_delay, retry_delays.FAILED_RUN.first),
            max_backoff=run.max_backoff if run.max_backoff is not None else usual.max_backoff,
            most=run.limit + 1 if run.limit is not None else None,
        )

    def _count_repair(self, name: str, repaired: str) -> None:
        """Count a repaired change. Repeated changes are repaired with growing delays."""
        self._memory.drift_conflicts[name] = backoff.after_repair(
            self._memory.drift_conflicts.get(name),
            repaired,
            now=self._services.clock.monotonic(),
            backoff=self.backoff,
        )

    def _count_mark(self, name: str, uid: str) -> None:
        """Count the mark of an object. After repeated marks, objects are replaced with growing delays."""
        now, settings = self._services.clock.monotonic(), self.backoff
        self._memory.mark_backoffs[name] = healing.after_mark(
            self._memory.mark_backoffs.get(name), uid, now=now, backoff=settings
        )
        # Repeated marks have their own delay.
        self._memory.governor.allow(name, now=now)


def find_subject(step: Step) -> tuple[str, ObjectRef]:
    """Return the resource and the object that the step writes."""
    return steps.affected_keys(step)[-1], steps.find_ref(step)
