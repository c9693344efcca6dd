"""One Stack in this process: its board, and what is remembered of it.

Holds no truth: thrown away at any moment and made anew it arrives at the same. A pass is synchronous; what takes time
is a task beside it, whose end has the Stack looked at again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hearth import supervision
from hearth.engine import internal_error_backoff
from hearth.engine.definition import revision_builder
from hearth.engine.definition.definition_sync import Intake
from hearth.engine.definition.revision_builder import Acceptor
from hearth.engine.internal_error_backoff import Faults
from hearth.engine.named_tasks import Tasks
from hearth.engine.ports import StackObject
from hearth.engine.services import ChildrenOf, Services
from hearth.engine.stack import field_manager_lookup
from hearth.engine.stack.breakpoint_control import Stopping
from hearth.engine.stack.cache_sync import Sight
from hearth.engine.stack.check_control import Checking
from hearth.engine.stack.stack_deletion import Leaving
from hearth.engine.stack.step_results import Books
from hearth.engine.stack.supersession import Yielding
from hearth.engine.stack.unproven_objects import UnprovenObjects
from hearth.engine.work_queue import EVALUATED, EVERYTHING, KINDS, STACK
from hearth.engine.writes import step_execution
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.health.health_rules import Change
from hearth.plan.retry import retry_triggers
from hearth.plan.stack.stack_planner import Board
from hearth.plan.state import internal_errors, steps
from hearth.plan.state.memory import Memory
from hearth.plan.state.resource_status import State
from hearth.plan.state.steps import Step
from hearth.plan.status import ready_condition
from hearth.plan.target.target import Motive, Wish

TIMER_SLACK = 0.1
"""Seconds: timers may fire a moment early."""


class Runner:
    """Runs the passes of one Stack."""

    def __init__(self, uid: str, *, services: Services, acceptor: Acceptor) -> None:
        """Nothing is looked at before the first pass."""
        self.uid = uid
        self.board: Board | None = None
        self.intake = Intake(uid=uid, services=services, acceptor=acceptor, on_blueprint=self._install)
        self.books = Books(uid=uid, services=services, intake=self.intake)
        self._services = services
        self._faults = Faults()
        self._tasks = Tasks(self._on_error, on_success=self._on_success)
        self._stopping = Stopping(uid, services=services, intake=self.intake, tasks=self._tasks)
        self._checking = Checking(uid, services=services, intake=self.intake, tasks=self._tasks, memory=self.memory)
        self._unproven = UnprovenObjects(uid, services=services, tasks=self._tasks)
        self._sight = Sight(uid, services=services, intake=self.intake)
        self._leaving = Leaving(uid, services=services, intake=self.intake, tasks=self._tasks, sight=self._sight)
        self._yielding = Yielding(uid, services=services, intake=self.intake)
        self._was_held = False
        """Whether steps were kept from being taken since."""
        self._cancel_timer: Callable[[], None] | None = None

    @property
    def memory(self) -> Memory:
        """What is remembered of its steps."""
        return self.books.memory

    def run_pass(self, stack: StackObject, marks: set[str]) -> list[str]:
        """Look at what was marked; the keys of steps that are to be taken."""
        planned = self._look(stack, marks)
        if self._sight.has_questions:
            self._tasks.run("look for what may not be watched", self._sight.ask)
        self._faults.clear(internal_error_backoff.PASS)
        self._faults.settle(self._tasks, now=self._services.clock.monotonic())
        return planned

    def _look(self, stack: StackObject, marks: set[str]) -> list[str]:
        marks |= self._listen(stack)
        if self.intake.is_due(stack):
            self._tasks.run(internal_error_backoff.ACCEPT, self._accept)
        self._yielding.look(stack)
        board = self.board
        if board is None:
            return []
        children = ChildrenOf(self._services.cluster, self.uid)
        if board.suspend(is_suspended=self.intake.is_suspended):
            # What was tried for the other purpose says nothing of this one.
            self.memory.begin(())
            marks.add(EVERYTHING)
        if EVERYTHING in marks or self._sight.is_fresh:
            marks = board.names(children) | marks
            self._sight.is_fresh = False
        wish = self.intake.wishes.wish
        marks |= board.attend(self.intake.flow.healing, is_completed=wish is not None and wish.is_completed)
        marks = (marks | board.find_evaluating(marks & {EVALUATED})) - {EVERYTHING, STACK, EVALUATED}
        planned = board.refresh(marks, children=children, memory=self.memory, now=self._services.clock.monotonic())
        self.memory.tidy(children)
        self.books.count_failures(board)
        self._stopping.look(stack, board, self.memory, blind_for=self._sight.blind_for())
        self._judge(board)
        self._check(stack, board)
        self._arm_timer(board)
        field_manager_lookup.ask(self.uid, board, self.memory, tasks=self._tasks, services=self._services)
        self._leaving.look(board)
        if self._is_held:
            self._was_held = True
            return []
        if self._was_held:
            self._was_held, planned = False, list(board.frontier)
        return planned

    def _listen(self, stack: StackObject) -> set[str]:
        """Obey what the Stack says besides what it wants; what is to be looked at because of it."""
        clock = self._services.clock
        self.intake.look_at_flow(stack)
        self.intake.wishes.turn(is_suspended=self.intake.is_suspended, now=clock.now())
        verbs = self.intake.wishes.take_verbs(stack)
        if "retry" in verbs:
            self.memory.retry(clock.monotonic())
            self.intake.wishes.is_retried = self.intake.is_outdated = True
        if "cleanup" in verbs:
            self.intake.wishes.waive()
            if self.board is not None:
                self.board.relax(self.intake.find_retention())
        held = (
            self._stopping.heed(self.board, is_swept_away=self._leaving.is_swept_away)
            if self.board is not None
            else set()
        )
        return held | ({EVERYTHING} if verbs else set())

    @property
    def _is_held(self) -> bool:
        """Whether nothing is to be written: the user wants it so, or something else by now, or the status must name the wish first."""
        is_paused = self.intake.flow.is_paused and not self._leaving.is_swept_away
        return is_paused or self.is_yielding or self.is_urgent

    def _judge(self, board: Board) -> None:
        """Whether the wish is reached, or given up."""
        wish = self.intake.wishes.wish
        if wish is None or self.intake.is_deleting or self._sight.blind_for() > 0:
            return
        if board.is_complete and (self.intake.is_suspended or self.intake.refusal is None):
            self.intake.wishes.reach_turn()
        if self.intake.is_suspended or self.intake.refusal is not None:
            return
        self.intake.wishes.is_recalled = False
        if wish.is_completed:
            return
        if board.is_complete and self.intake.wishes.is_recorded:
            self.intake.wishes.complete()
            board.relax(self.intake.find_retention())
            self._tasks.run("trim", self.intake.trim)
        elif not self.intake.wishes.failure and self._may_give_up(wish):
            failure = ready_condition.explain_failure(self.describe(), board, self.memory)
            if failure:
                self.intake.wishes.failure = failure
                self.intake.is_outdated = True
                self._services.inbox.mark(self.uid, STACK)

    def _check(self, stack: StackObject, board: Board) -> None:
        """What is to be looked at afresh, or was; and what is not the Stack's although its label says so."""
        self._unproven.look(stack, board)
        self._checking.look(
            stack,
            board,
            describe=self.describe,
            kinds=lambda: self._sight.find_wanted(board.blueprint),
            blind=self._sight.blind_for(),
        )

    def _may_give_up(self, wish: Wish) -> bool:
        """Whether a failure of that wish would send the Stack back to another."""
        flow, completed = self.intake.flow, self.intake.wishes.completed
        last = completed.last
        return (
            flow.rolls_back
            and not flow.is_paused
            and wish.motive is Motive.SPEC
            and last != wish.revision
            and completed.has_target
        )

    def blind_for(self) -> float:
        """Seconds for which nothing is to be said of the Stack, as a first look at its children is under way."""
        return self._sight.blind_for()

    @property
    def is_yielding(self) -> bool:
        """Whether a newer spec is being read, so that neither steps nor words for the present one are worth a write."""
        return self._yielding.is_holding

    @property
    def is_faulty(self) -> bool:
        """Whether an internal error is to be told, though nothing else of the Stack may be known yet."""
        return self._faults.describe() is not None

    @property
    def is_urgent(self) -> bool:
        """Whether work waits for the status to be written."""
        return not self.intake.wishes.is_recorded or self._checking.is_holding

    def note_written(self, status: Object) -> None:
        """The status says so now."""
        self._checking.note_written(status)
        if self.intake.wishes.note_written(status):
            self._services.inbox.mark(self.uid, STACK)

    def describe(self, *, is_told: bool = True) -> ready_condition.Subject:
        """What of the Stack goes into its next status. is_told: whether the whole of it can be written."""
        intake, wishes = self.intake, self.intake.wishes
        return ready_condition.Subject(
            generation=max(0, intake.generation),
            is_deleting=intake.is_deleting,
            wish=wishes.wish,
            is_recorded=wishes.is_recorded,
            completed=wishes.completed,
            last_failed=wishes.last_failed,
            refusal=intake.refusal,
            handled=wishes.handled,
            renewed=intake.renewed,
            tampered=intake.tampered,
            is_paused=intake.flow.is_paused,
            is_suspended=intake.is_suspended,
            late_after=intake.flow.timeout if self._seconds_left() <= 0 else None,
            fault=self._faults.describe(besides=internal_error_backoff.STATUS if is_told else ""),
            blocked=self._leaving.blocked,
            check=self._checking.outcome,
            unchecked=self._checking.refusal,
            polled=tuple(map(str, self._services.home.find_polled_sources(self.uid))),
        )

    def _seconds_left(self) -> float:
        """Of the time that the wish was given; infinite where that does not run."""
        wish, flow = self.intake.wishes.wish, self.intake.flow
        begun = wish.begun if wish is not None else None
        if begun is None or flow.timeout is None or self.intake.is_deleting:
            return math.inf
        if flow.is_paused or self.intake.wishes.was_idle:
            return math.inf
        return begun + flow.timeout - self._services.clock.now()

    def hear(self, what: object) -> None:
        """Something happened that no single Stack is named by: a kind, a complete cache, a source of definitions."""
        if isinstance(what, Kind):
            if self._sight.waits_for(what):
                self._sight.look_at_watches()
            return
        if isinstance(what, Change):
            if self.board is not None:
                self._sight.judge_anew(self.board.blueprint, what)
            return
        if what == KINDS or isinstance(what, retry_triggers.Cause):
            self.books.hurry(what if isinstance(what, retry_triggers.Cause) else retry_triggers.KINDS)
        self.intake.hear(what)
        if what == KINDS and (self.misses_kinds or self._has_lost_kinds):
            self.intake.is_outdated = True
            self._services.inbox.mark(self.uid, STACK)

    @property
    def is_unsettled(self) -> bool:
        """Whether it may wait for a kind, or to try something again; a look that costs nothing."""
        board = self.board
        is_waiting = board is not None and bool(board.wakes or board.by_state[State.WAITING])
        return is_waiting or self.intake.refusal is not None

    @property
    def misses_kinds(self) -> bool:
        """Whether it wants something of a kind that the cluster did not serve when that was last looked at."""
        return self.intake.refusal is not None or (self.board is not None and self.board.misses_kinds)

    @property
    def _has_lost_kinds(self) -> bool:
        return self.board is not None and self.board.has_lost_kinds()

    def take(self, key: str) -> Step | None:
        """The step that is wanted under that key now; it counts as in flight from here on."""
        if self.board is None or self._is_held or key in self.memory.in_flight:
            return None
        step = self.board.take(key)
        if step is not None:
            self._checking.give_way()
            self.memory.in_flight[key] = step
        return step

    def finish(self, key: str, step: Step, result: step_execution.Result) -> None:
        """Remember what came of a step, and look again."""
        self.books.take_down(key, step, result)
        used = steps.find_required(step)
        held = (uid for each in used for uid in self.board.cleanup.at(each)) if self.board is not None else ()
        for what in (key, *steps.touches(step), *held):
            self._services.inbox.mark(self.uid, what)

    def awaited(self) -> set[retry_triggers.Cause]:
        """What refused steps hang on that wait for their next try."""
        return self.books.awaited(self.board.wakes) if self.board is not None else set()

    def close(self) -> None:
        """Forget the Stack: nothing of it runs on."""
        if self._cancel_timer is not None:
            self._cancel_timer()
        self._yielding.end()
        self._tasks.cancel()
        self._services.home.follow_sources(self.uid, ())

    def _install(self, stack: StackObject) -> None:
        """Let passes run on the blueprint that was accepted."""
        blueprint = self.intake.blueprint
        assert blueprint is not None  # noqa: S101 -- the intake calls this for nothing else
        self.memory.begin(blueprint.resources)
        self._sight.begin(blueprint)
        self.board = Board(
            blueprint=blueprint,
            stack=revision_builder.identify(stack),
            kinds=self._services.cluster.kinds,
            hashes=self._services.hashes.of_stack(stack.uid),
            unwatched=self._sight.unwatched.keys(),
            denied=self._sight.denied,
            rules=self._services.rules,
            on_error=self._report,
            only_namespace=self._services.only_namespace,
        )
        self.board.relax(self.intake.find_retention())
        self._stopping.heed(self.board, is_swept_away=self._leaving.is_swept_away)
        self._sight.look()

    def _arm_timer(self, board: Board) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
        next_wake = min(board.wakes.values(), default=math.inf) - self._services.clock.monotonic()
        left = self._seconds_left()
        delay = min(next_wake, left if left > 0 else math.inf)
        if delay < math.inf:
            self._cancel_timer = self._services.clock.call_later(max(0.0, delay), self._mark_due)

    def _mark_due(self) -> None:
        """Have looked at what was put off until now."""
        self._cancel_timer = None
        # Even where nothing is due: timers of some loops fire a moment early, and only a pass sets the next one.
        self._services.inbox.mark(self.uid, STACK)
        now = self._services.clock.monotonic()
        for key, wake_at in self.board.wakes.items() if self.board is not None else ():
            if wake_at <= now:
                self._services.inbox.mark(self.uid, key)

    def note_fault(self, work: str, *, what: str = EVERYTHING) -> float:
        """Some work ended in an internal error: the status says so, and `what` is looked at again after those seconds."""
        delay = self._faults.note(work, now=self._services.clock.monotonic())
        self._services.mark_later(delay, self.uid, what)
        self._services.mark_later(delay + internal_error_backoff.SHOWN_FOR + TIMER_SLACK, self.uid, STACK)
        return delay

    def find_retry(self, work: str) -> float:
        """The monotonic seconds before which work that failed is not tried again; 0 where it did not fail."""
        return self._faults.find_due(work)

    def clear_fault(self, work: str) -> None:
        """It succeeded."""
        if self._faults.clear(work):
            self._services.inbox.mark(self.uid, STACK)

    def _on_error(self, name: str, _error: BaseException) -> None:
        self.note_fault(name)
        self._services.inbox.mark(self.uid, STACK)

    async def _accept(self) -> None:
        """Have the intake catch up; where that ends in an internal error, go on with what runs, and say so."""
        if await supervision.contain("accept", self.intake.catch_up, lambda: False, stack=self.uid):
            return
        delay = self.note_fault(internal_error_backoff.ACCEPT)
        self._services.inbox.mark(self.uid, STACK)
        await self.intake.give_up(internal_errors.explain("accept the definition"), delay=delay)
        self._services.inbox.mark(self.uid, STACK)

    def _on_success(self, name: str) -> None:
        if name != internal_error_backoff.ACCEPT or self.intake.is_sound:
            self.clear_fault(name)

    def _report(self, resource: str, error: Exception) -> None:
        supervision.report("resource", error, stack=self.uid, resource=resource)
