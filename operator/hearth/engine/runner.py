"""One Stack in this process: its board, and what is remembered of it.

Holds no truth: thrown away at any moment and made anew it arrives at the same. A pass is synchronous; what takes time
is a task beside it, whose end has the Stack looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import structlog

from hearth.engine import acceptance, execution, farewell
from hearth.engine.acceptance import Acceptor
from hearth.engine.inbox import EVERYTHING, KINDS, STACK
from hearth.engine.intake import Intake
from hearth.engine.ports import StackObject
from hearth.engine.services import ChildrenOf, Services
from hearth.engine.tasks import Tasks
from hearth.model.child import Path
from hearth.model.kinds import Kind
from hearth.plan import attempts, causes, ownership, report, resolve, steps, watching
from hearth.plan.attempts import Trouble
from hearth.plan.board import Board
from hearth.plan.causes import Cause
from hearth.plan.steps import Apply, Step
from hearth.plan.world import Memory
from hearth.template.blueprint import Blueprint

logger = structlog.get_logger(__name__)

FIRST_LOOK = 5.0
"""Seconds that the first list of a kind may take before the Stack says that it waits for it."""
INTERNAL_ERROR_RETRY = 5.0
"""Seconds until a Stack is looked at again after a mistake of ours."""


class Runner:
    """Runs the passes of one Stack."""

    def __init__(self, uid: str, *, services: Services, acceptor: Acceptor) -> None:
        """Nothing is looked at before the first pass."""
        self.uid = uid
        self.board: Board | None = None
        self.memory = Memory()
        self.intake = Intake(uid=uid, services=services, acceptor=acceptor, on_blueprint=self._install)
        self._services = services
        self._tasks = Tasks(self._on_error)
        self._unwatched: dict[Kind, frozenset[Path]] = {}
        """Kinds whose caches are not complete yet, and what is wanted of their objects."""
        self._blocked = ""
        """What holds the Stack's own deletion beyond its children."""
        self._is_fresh = False
        """Whether the board has not looked at everything since it was made, or since a cache was complete."""
        self._blind_until = 0.0
        self._cancel_timer: Callable[[], None] | None = None

    def run_pass(self, stack: StackObject, marks: set[str]) -> list[str]:
        """Look at what was marked; the keys of steps that are to be taken."""
        if self.intake.is_behind(stack):
            self._tasks.run("accept", self.intake.catch_up)
        board = self.board
        if board is None:
            return []
        children = ChildrenOf(self._services.cluster, self.uid)
        if EVERYTHING in marks or self._is_fresh:
            marks = board.names(children) | marks
            self._is_fresh = False
        marks -= {EVERYTHING, STACK}
        planned = board.refresh(marks, children=children, memory=self.memory, now=self._services.clock.monotonic())
        self._count_failures(board)
        self._arm_timer(board)
        if self.intake.is_deleting and board.is_complete:
            self._tasks.run("part", self._part)
        return planned

    def blind_for(self) -> float:
        """Seconds for which nothing is to be said of the Stack, as a first look at its children is under way."""
        is_blind = self._is_fresh or self._unwatched
        return max(0.0, self._blind_until - self._services.clock.monotonic()) if is_blind else 0.0

    def describe(self, status: Mapping[str, Any]) -> report.Subject:
        """What of the Stack goes into its next status, given the last."""
        revision = self.intake.revision
        numbers = [each.number for each in self._services.home.revisions(self.uid)]
        refusal = self.intake.refusal
        # A definition that was refused has no number: it is the first wish only if none was ever accepted.
        is_first = revision is None if refusal is not None else max([*numbers, revision.number if revision else 0]) <= 1
        return report.Subject(
            generation=self.intake.generation,
            is_deleting=self.intake.is_deleting,
            is_first=is_first,
            revision=revision.number if revision is not None else None,
            last_completed=status.get("lastCompletedRevision"),
            refusal=refusal,
            blocked=self._blocked,
        )

    def hear(self, what: object) -> None:
        """Something happened that no single Stack is named by: a kind, a complete cache, a source of definitions."""
        if isinstance(what, Kind):
            if what in self._unwatched:
                self._look_at_watches()
            return
        if what == KINDS or isinstance(what, Cause):
            self._hurry(what if isinstance(what, Cause) else causes.KINDS)
        if what == self.intake.source or (what == KINDS and (self.misses_kinds or self._has_lost_kinds)):
            self.intake.is_outdated = True
            self._services.inbox.mark(self.uid, STACK)

    @property
    def misses_kinds(self) -> bool:
        """Whether it wants something of a kind that the cluster did not serve when that was last looked at."""
        return self.intake.refusal is not None or (self.board is not None and self.board.misses_kinds)

    @property
    def _has_lost_kinds(self) -> bool:
        return self.board is not None and self.board.has_lost_kinds()

    def take(self, key: str) -> Step | None:
        """The step that is wanted under that key now; it counts as in flight from here on."""
        if self.board is None or key in self.memory.in_flight:
            return None
        step = self.board.take(key)
        if step is not None:
            self.memory.in_flight.add(key)
        return step

    def finish(self, key: str, step: Step, result: execution.Result) -> None:
        """Remember what came of a step, and look again."""
        missed = self.memory.land(key)
        match result, step:
            case Trouble(immutable=field), Apply(uid=str(uid)) if field:
                # No failure yet: what is to be done about it, the resource's policy says.
                self.memory.immutable[uid] = (step.hash, field)
            case Trouble(), _:
                self._remember(key, result, subject=steps.subject(step), missed=missed)
            case execution.Done(child), Apply() if child is not None:
                self.memory.succeed(key, steps.subject(step))
                # Whatever is missing from our own answer was never ours: only what goes from here on is drift.
                self.memory.whole[child.uid] = (step.hash, ownership.digest(child.ownership))
                if step.uid is None:
                    self.memory.made.add(child.uid)
            case _:
                self.memory.succeed(key, steps.subject(step))
        for what in (key, *steps.touches(step)):
            self._services.inbox.mark(self.uid, what)

    def close(self) -> None:
        """Forget the Stack: nothing of it runs on."""
        if self._cancel_timer is not None:
            self._cancel_timer()
        self._tasks.cancel()

    def _install(self, stack: StackObject) -> None:
        """Let passes run on the blueprint that was accepted."""
        blueprint = self.intake.blueprint
        assert blueprint is not None  # noqa: S101 -- the intake calls this for nothing else
        self._unwatched = self._wanted_kinds(blueprint)
        self.board = Board(
            blueprint=blueprint,
            stack=acceptance.identify(stack),
            kinds=self._services.cluster.kinds,
            hashes=self._services.hashes,
            unwatched=self._unwatched.keys(),
            only_namespace=self._services.only_namespace,
        )
        self._is_fresh = True
        self._blind_until = self._services.clock.monotonic() + FIRST_LOOK
        self._look_at_watches()

    def _wanted_kinds(self, blueprint: Blueprint) -> dict[Kind, frozenset[Path]]:
        """What is to be watched: all that the blueprint wants, and all that earlier revisions may have left."""
        revision = self.intake.revision
        earlier = acceptance.unite([*self._services.home.revisions(self.uid), *([revision] if revision else [])])
        wanted = {kind: frozenset[Path]() for kind in acceptance.served(self._services.cluster, earlier)}
        for kind, paths in watching.find_paths(blueprint, self._services.cluster.kinds).items():
            wanted[kind] = wanted.get(kind, frozenset()) | paths
        return wanted

    def _look_at_watches(self) -> None:
        """Take the kinds out whose caches are complete by now."""
        for kind, paths in list(self._unwatched.items()):
            if self._services.cluster.follow(kind, paths):
                del self._unwatched[kind]
                self._is_fresh = True
        self._services.inbox.mark(self.uid, EVERYTHING)

    async def _part(self) -> None:
        self._blocked = await farewell.part(self.uid, self._services)

    def _count_failures(self, board: Board) -> None:
        """An object that failed for good counts as one attempt at its resource."""
        for name in board.newly_failed:
            standing = board.standings[name]
            if standing.child is not None:
                self.memory.failed.add(standing.child.uid)
                trouble = Trouble(reason=standing.reason, message=standing.message)
                self._remember(name, trouble, subject=resolve.failure_subject(standing.child))
                self._services.inbox.mark(self.uid, name)

    def awaited(self) -> set[Cause]:
        """What refused steps hang on that wait for their next try."""
        waiting = self.board.wakes if self.board is not None else {}
        return {cause for key in waiting if (attempt := self.memory.attempts.get(key)) for cause in attempt.causes}

    def _hurry(self, cause: Cause) -> None:
        """Have everything tried at once that was refused for what just changed."""
        for key in self.memory.hear(cause, now=self._services.clock.monotonic()):
            self._services.inbox.mark(self.uid, key)

    def _remember(self, key: str, trouble: Trouble, *, subject: str, missed: Collection[Cause] = ()) -> None:
        """missed: what changed while the step was on its way."""
        now = self._services.clock.monotonic()
        attempt = attempts.after_failure(
            self.memory.attempts.get(key), trouble, subject=subject, now=now, patience=self._services.patience
        )
        is_late = any(cause in missed for cause in trouble.causes)
        self.memory.attempts[key] = attempts.hurry(attempt, now=now) if is_late else attempt
        for cause in trouble.causes:
            self._services.cluster.watch_cause(cause)
        logger.info("step refused", stack=self.uid, key=key, reason=trouble.reason, message=trouble.message)

    def _arm_timer(self, board: Board) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
        if board.wakes:
            delay = max(0.0, min(board.wakes.values()) - self._services.clock.monotonic())
            self._cancel_timer = self._services.clock.call_later(delay, self._mark_due)

    def _mark_due(self) -> None:
        """Have looked at what was put off until now."""
        self._cancel_timer = None
        # Even where nothing is due: timers of some loops fire a moment early, and only a pass sets the next one.
        self._services.inbox.mark(self.uid, STACK)
        now = self._services.clock.monotonic()
        for key, wake_at in self.board.wakes.items() if self.board is not None else ():
            if wake_at <= now:
                self._services.inbox.mark(self.uid, key)

    def _on_error(self, name: str, error: BaseException) -> None:
        logger.error("internal error", stack=self.uid, task=name, exc_info=error)
        self.intake.is_outdated = True
        self._services.mark_later(INTERNAL_ERROR_RETRY, self.uid, EVERYTHING)
