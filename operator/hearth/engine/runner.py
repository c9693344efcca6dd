"""One Stack in this process: its board, and what is remembered of it.

Holds no truth: thrown away at any moment and made anew it arrives at the same. A pass is synchronous; what takes time
is a task beside it, whose end has the Stack looked at again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import structlog

from hearth.engine import acceptance, execution, farewell, holders
from hearth.engine.acceptance import Acceptor
from hearth.engine.books import Books
from hearth.engine.inbox import EVERYTHING, KINDS, STACK
from hearth.engine.intake import Intake
from hearth.engine.ports import StackObject
from hearth.engine.services import ChildrenOf, Services
from hearth.engine.stopping import Stopping
from hearth.engine.tasks import Tasks
from hearth.model.child import Object, Path
from hearth.model.kinds import Kind
from hearth.plan import causes, headline, steps, watching
from hearth.plan.board import Board
from hearth.plan.health import Change
from hearth.plan.steps import Step
from hearth.plan.wish import Cause, Wish
from hearth.plan.world import Memory
from hearth.template.blueprint import Blueprint

logger = structlog.get_logger(__name__)

FIRST_LOOK = 5.0
"""Seconds that the first list of a kind may take before the Stack says that it waits for it."""
LOOK_AT_NAMESPACE = 60.0
"""Seconds between two looks at the namespace of a Stack whose deletion is held by its user. The first is at once, so this
is for a namespace that goes later."""
INTERNAL_ERROR_RETRY = 5.0
"""Seconds until a Stack is looked at again after a mistake of ours."""


class Runner:
    """Runs the passes of one Stack."""

    def __init__(self, uid: str, *, services: Services, acceptor: Acceptor) -> None:
        """Nothing is looked at before the first pass."""
        self.uid = uid
        self.board: Board | None = None
        self.intake = Intake(uid=uid, services=services, acceptor=acceptor, on_blueprint=self._install)
        self.books = Books(uid=uid, services=services, intake=self.intake)
        self._services = services
        self._tasks = Tasks(self._on_error)
        self._stopping = Stopping(uid, services=services, intake=self.intake, tasks=self._tasks)
        self._unwatched: dict[Kind, frozenset[Path]] = {}
        """Kinds whose caches are not complete yet, and what is wanted of their objects."""
        self._blocked = ""
        """What holds the Stack's own deletion beyond its children."""
        self._is_fresh = False
        """Whether the board has not looked at everything since it was made, or since a cache was complete."""
        self._is_swept_away = False
        """Whether the Stack goes with its whole namespace, as far as that was looked at."""
        self._was_held = False
        """Whether steps were kept from being taken since."""
        self._look_at_namespace_at = -math.inf
        """Monotonic seconds before which the namespace is not looked at again."""
        self._blind_until = 0.0
        self._cancel_timer: Callable[[], None] | None = None

    @property
    def memory(self) -> Memory:
        """What is remembered of its steps."""
        return self.books.memory

    def run_pass(self, stack: StackObject, marks: set[str]) -> list[str]:
        """Look at what was marked; the keys of steps that are to be taken."""
        marks |= self._listen(stack)
        if self.intake.is_behind(stack):
            self._tasks.run("accept", self.intake.catch_up)
        board = self.board
        if board is None:
            return []
        children = ChildrenOf(self._services.cluster, self.uid)
        if EVERYTHING in marks or self._is_fresh:
            marks = board.names(children) | marks
            self._is_fresh = False
        wish, healing = self.intake.wishes.wish, self.intake.flow.healing
        marks |= board.attend(healing, is_completed=wish is not None and wish.is_completed)
        marks -= {EVERYTHING, STACK}
        planned = board.refresh(marks, children=children, memory=self.memory, now=self._services.clock.monotonic())
        self.books.count_failures(board)
        self._stopping.look(stack, board, self.memory, blind_for=self.blind_for())
        self._judge(board)
        self._arm_timer(board)
        holders.ask(self.uid, board, self.memory, tasks=self._tasks, services=self._services)
        if self.intake.is_deleting and board.is_complete:
            self._tasks.run("part", self._part)
        if self.intake.is_deleting and (self.intake.flow.is_paused or board.withheld.held or board.find_parted()):
            self._tasks.run("look at the namespace", self._look_at_namespace)
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
        verbs = self.intake.wishes.take_verbs(stack)
        if "retry" in verbs:
            self.memory.retry(clock.monotonic())
            self.intake.wishes.is_retried = self.intake.is_outdated = True
        if "cleanup" in verbs:
            self.intake.wishes.waive()
            if self.board is not None:
                self.board.relax(self.intake.find_retention())
        held = self._stopping.heed(self.board, is_swept_away=self._is_swept_away) if self.board is not None else set()
        return held | ({EVERYTHING} if verbs else set())

    @property
    def _is_held(self) -> bool:
        """Whether nothing is to be written: the user wants it so, or the status must name the wish first."""
        is_paused = self.intake.flow.is_paused and not self._is_swept_away
        return is_paused or not self.intake.wishes.is_recorded

    def _judge(self, board: Board) -> None:
        """Whether the wish is reached, or given up."""
        wish = self.intake.wishes.wish
        if wish is None or self.intake.is_deleting or self.intake.refusal is not None or self.blind_for() > 0:
            return
        self.intake.wishes.is_recalled = False
        if wish.is_completed:
            return
        if board.is_complete and self.intake.wishes.is_recorded:
            self.intake.wishes.complete()
            board.relax(self.intake.find_retention())
            self._tasks.run("trim", self.intake.trim)
        elif not self.intake.wishes.failure and self._may_give_up(wish):
            failure = headline.explain_failure(self.describe(), board, self.memory)
            if failure:
                self.intake.wishes.failure = failure
                self.intake.is_outdated = True
                self._services.inbox.mark(self.uid, STACK)

    def _may_give_up(self, wish: Wish) -> bool:
        """Whether a failure of that wish would send the Stack back to another."""
        flow, last = self.intake.flow, self.intake.wishes.completed.last
        return flow.rolls_back and not flow.is_paused and wish.cause is Cause.SPEC and last != wish.revision

    def blind_for(self) -> float:
        """Seconds for which nothing is to be said of the Stack, as a first look at its children is under way."""
        is_blind = self._is_fresh or self._unwatched
        return max(0.0, self._blind_until - self._services.clock.monotonic()) if is_blind else 0.0

    @property
    def is_urgent(self) -> bool:
        """Whether work waits for the status to be written."""
        return not self.intake.wishes.is_recorded

    def note_written(self, status: Object) -> None:
        """The status says so now."""
        if self.intake.wishes.note_written(status):
            self._services.inbox.mark(self.uid, STACK)

    def describe(self) -> headline.Subject:
        """What of the Stack goes into its next status."""
        intake, wishes = self.intake, self.intake.wishes
        return headline.Subject(
            generation=intake.generation,
            is_deleting=intake.is_deleting,
            wish=wishes.wish,
            is_recorded=wishes.is_recorded,
            completed=wishes.completed,
            last_failed=wishes.last_failed,
            refusal=intake.refusal,
            handled=wishes.handled,
            renewed=intake.renewed,
            is_paused=intake.flow.is_paused,
            late_after=intake.flow.timeout if self._seconds_left() <= 0 else None,
            blocked=self._blocked,
        )

    def _seconds_left(self) -> float:
        """Of the time that the wish was given; infinite where that does not run."""
        wish, flow = self.intake.wishes.wish, self.intake.flow
        if wish is None or wish.is_completed or flow.timeout is None or self.intake.is_deleting:
            return math.inf
        if flow.is_paused or self.intake.wishes.was_idle:
            return math.inf
        return wish.since + flow.timeout - self._services.clock.now()

    def hear(self, what: object) -> None:
        """Something happened that no single Stack is named by: a kind, a complete cache, a source of definitions."""
        if isinstance(what, Kind):
            if what in self._unwatched:
                self._look_at_watches()
            return
        if isinstance(what, Change):
            self._judge_anew(what)
            return
        if what == KINDS or isinstance(what, causes.Cause):
            self.books.hurry(what if isinstance(what, causes.Cause) else causes.KINDS)
        if what in self.intake.sources or (what == KINDS and (self.misses_kinds or self._has_lost_kinds)):
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
        if self.board is None or self._is_held or key in self.memory.in_flight:
            return None
        step = self.board.take(key)
        if step is not None:
            self.memory.in_flight.add(key)
            self.memory.making[key] = steps.find_required(step)
        return step

    def finish(self, key: str, step: Step, result: execution.Result) -> None:
        """Remember what came of a step, and look again."""
        self.books.take_down(key, step, result)
        used = self.memory.making.pop(key, ())
        held = (uid for each in used for uid in self.board.cleanup.at(each)) if self.board is not None else ()
        for what in (key, *steps.touches(step), *held):
            self._services.inbox.mark(self.uid, what)

    def awaited(self) -> set[causes.Cause]:
        """What refused steps hang on that wait for their next try."""
        return self.books.awaited(self.board.wakes) if self.board is not None else set()

    def close(self) -> None:
        """Forget the Stack: nothing of it runs on."""
        if self._cancel_timer is not None:
            self._cancel_timer()
        self._tasks.cancel()
        self._services.home.follow_sources(self.uid, ())

    def _install(self, stack: StackObject) -> None:
        """Let passes run on the blueprint that was accepted."""
        blueprint = self.intake.blueprint
        assert blueprint is not None  # noqa: S101 -- the intake calls this for nothing else
        self.memory.begin(blueprint.resources)
        self._unwatched = self._wanted_kinds(blueprint)
        self.board = Board(
            blueprint=blueprint,
            stack=acceptance.identify(stack),
            kinds=self._services.cluster.kinds,
            hashes=self._services.hashes,
            unwatched=self._unwatched.keys(),
            rules=self._services.rules,
            only_namespace=self._services.only_namespace,
        )
        self.board.relax(self.intake.find_retention())
        self._stopping.heed(self.board, is_swept_away=self._is_swept_away)
        self._look_anew()

    def _look_anew(self) -> None:
        """Look at everything, once it is there with all that is wanted of it."""
        self._is_fresh = True
        self._blind_until = self._services.clock.monotonic() + FIRST_LOOK
        self._look_at_watches()

    def _judge_anew(self, change: Change) -> None:
        """Some kinds are judged otherwise, for which more may have to be seen of their objects."""
        blueprint = self.intake.blueprint
        if self.board is None or blueprint is None:
            return
        wanted = self._wanted_kinds(blueprint)
        touched = {kind: paths for kind, paths in wanted.items() if change.touches(kind)}
        if touched:
            self._unwatched.update(touched)
            self._look_anew()

    def _wanted_kinds(self, blueprint: Blueprint) -> dict[Kind, frozenset[Path]]:
        """What is to be watched: all that the blueprint wants, and all that earlier revisions may have left."""
        revision = self.intake.revision
        earlier = acceptance.unite([*self._services.home.revisions(self.uid), *([revision] if revision else [])])
        wanted = {kind: frozenset[Path]() for kind in acceptance.served(self._services.cluster, earlier)}
        for kind, paths in watching.find_paths(blueprint, self._services.cluster.kinds, self._services.rules).items():
            wanted[kind] = wanted.get(kind, frozenset()) | paths
        return wanted

    def _look_at_watches(self) -> None:
        """Take the kinds out whose caches are complete by now."""
        for kind, paths in list(self._unwatched.items()):
            if self._services.cluster.follow(kind, paths):
                del self._unwatched[kind]
                self._is_fresh = True
        self._services.inbox.mark(self.uid, EVERYTHING)

    async def _look_at_namespace(self) -> None:
        """A deletion is not held in a namespace that goes as a whole."""
        stack, now = self._services.home.find_stack(self.uid), self._services.clock.monotonic()
        if stack is None or not stack.deleting or self._is_swept_away or now < self._look_at_namespace_at:
            return
        self._look_at_namespace_at = now + LOOK_AT_NAMESPACE / 2
        self._is_swept_away = await farewell.is_swept_away(stack, self._services)
        self._services.mark_later(0.0 if self._is_swept_away else LOOK_AT_NAMESPACE, self.uid, STACK)

    async def _part(self) -> None:
        self._blocked = await farewell.part(self.uid, self._services)

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

    def _on_error(self, name: str, error: BaseException) -> None:
        logger.error("internal error", stack=self.uid, task=name, exc_info=error)
        self.intake.is_outdated = True
        self._services.mark_later(INTERNAL_ERROR_RETRY, self.uid, EVERYTHING)
