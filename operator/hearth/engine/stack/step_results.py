"""What one process remembers of a Stack's steps: what was refused and when it is tried again, what was made, what was whole.

Takes down what came of each step; decides nothing, and may be lost at any time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from hearth.engine.definition.definition_sync import Intake
from hearth.engine.services import Services
from hearth.engine.writes import step_execution
from hearth.model import redaction
from hearth.plan.ownership import field_ownership
from hearth.plan.resource import decide
from hearth.plan.retry import backoff, drift_conflict, retry_triggers
from hearth.plan.retry.backoff import Patience, Trouble
from hearth.plan.stack.stack_planner import Board
from hearth.plan.state import healing, steps
from hearth.plan.state.memory import Memory
from hearth.plan.state.steps import Apply, Step, Suspend

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class Books:
    """The memory of one Stack, and how it is kept."""

    uid: str
    services: Services
    intake: Intake
    memory: Memory = field(default_factory=Memory)

    def take_down(self, key: str, step: Step, result: step_execution.Result) -> None:
        """Remember what came of a step."""
        missed = self.memory.land(key)
        match result, step:
            case Trouble(immutable=field), Apply(uid=str(uid)) if field:
                # No failure yet: what is to be done about it, the resource's policy says.
                self.memory.immutable[uid] = (step.hash, field)
            case Trouble(), _:
                self._remember(key, result, subject=steps.subject(step), missed=missed)
            case step_execution.Done(child, left), Apply() if child is not None:
                self.memory.succeed(key, steps.subject(step))
                # Whatever is missing from our own answer was never ours: only what goes from here on is drift.
                seen = (step.hash, child.ownership)
                self.memory.keep(child.uid, seen, field_ownership.Finding(left=left))
                self.memory.altered.pop(child.uid, None)
                if step.uid is None and not child.is_adopted:
                    self.memory.made.add(child.uid)
                if step.repairs:
                    self._count_answer(key, step.repairs)
            case step_execution.Done(), Suspend(repairs=str(started)) if started:
                self.memory.succeed(key, steps.subject(step))
                self._count_answer(step.child.resource, started)
            case _:
                self.memory.succeed(key, steps.subject(step))

    def count_failures(self, board: Board) -> None:
        """An object that failed for good counts as one attempt at its resource; one that is marked is counted apart."""
        for name in board.newly_failed:
            standing = board.standings[name]
            if standing.child is not None:
                self.memory.failed.add(standing.child.uid)
                self.services.inbox.mark(self.uid, name)
                if standing.child.mark is not None:
                    self._count_mark(name, standing.child.uid)
                    continue
                trouble = Trouble(reason=standing.reason, message=standing.message)
                self._remember(name, trouble, subject=decide.failure_subject(standing.child))

    def awaited(self, waiting: Collection[str]) -> set[retry_triggers.Cause]:
        """What the refused steps under these keys hang on."""
        return {cause for key in waiting if (attempt := self.memory.attempts.get(key)) for cause in attempt.causes}

    def hurry(self, cause: retry_triggers.Cause) -> None:
        """Have everything tried at once that was refused for what just changed."""
        for key in self.memory.hear(cause, now=self.services.clock.monotonic()):
            self.services.inbox.mark(self.uid, key)

    def _remember(
        self, key: str, trouble: Trouble, *, subject: str, missed: Collection[retry_triggers.Cause] = ()
    ) -> None:
        """missed: what changed while the step was on its way."""
        now = self.services.clock.monotonic()
        attempt = backoff.after_failure(
            self.memory.attempts.get(key), trouble, subject=subject, now=now, patience=self._find_patience()
        )
        is_late = any(cause in missed for cause in trouble.causes)
        self.memory.attempts[key] = backoff.hurry(attempt, now=now) if is_late else attempt
        for cause in trouble.causes:
            self.services.cluster.watch_cause(cause)
        # A child's own words may be among them.
        message = redaction.hide(trouble.message, self.intake.hidden_texts)
        logger.info("step refused", stack=self.uid, key=key, reason=trouble.reason, message=message)

    def _find_patience(self) -> Patience:
        """How failures are borne: as the Stack says, else as the operator was told."""
        flow, usual = self.intake.flow, self.services.patience
        longest = flow.max_backoff if flow.max_backoff is not None else usual.max_backoff
        return dataclasses.replace(usual, limit=flow.retry_limit, max_backoff=longest)

    def _count_answer(self, name: str, repaired: str) -> None:
        """Somebody's change was taken back: whoever goes on with it is answered more slowly."""
        self.memory.contests[name] = drift_conflict.after_answer(
            self.memory.contests.get(name),
            repaired,
            now=self.services.clock.monotonic(),
            patience=self._find_patience(),
        )

    def _count_mark(self, name: str, uid: str) -> None:
        """An object was marked: whoever goes on with it is answered more slowly."""
        now, patience = self.services.clock.monotonic(), self._find_patience()
        self.memory.spells[name] = healing.after_mark(self.memory.spells.get(name), uid, now=now, patience=patience)
