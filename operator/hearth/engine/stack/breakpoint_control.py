"""Has one Stack's board held by its environment, lets go on who is told to, and lets no time run while nobody moves.

Decides nothing of where anybody stops: see `hearth.plan.resource.enforcement`.
"""

from __future__ import annotations

from hearth.engine.definition.definition_sync import Intake
from hearth.engine.named_tasks import Tasks
from hearth.engine.ports import StackObject
from hearth.engine.services import Services
from hearth.engine.stack import continue_requests
from hearth.engine.work_queue import EVERYTHING, STACK
from hearth.plan.environment import active_environment
from hearth.plan.stack.stack_planner import Board
from hearth.plan.state.memory import Memory
from hearth.plan.status import breakpoint_waits


class Stopping:
    """The breakpoints of one Stack in this process. May be lost at any time."""

    def __init__(self, uid: str, *, services: Services, intake: Intake, tasks: Tasks) -> None:
        """Nothing is held before `heed`."""
        self._uid = uid
        self._services = services
        self._intake = intake
        self._tasks = tasks
        self._made_of: tuple[object, ...] = ()
        """What the gates of the board were made of."""

    def heed(self, board: Board, *, is_swept_away: bool) -> set[str]:
        """Have the board held by what the user wants now; what is to be looked at because of it.

        is_swept_away: the Stack goes with its whole namespace, so that nothing can be held.
        """
        made_of = (board, self._intake.flow.environment, self._intake.wishes.wish, is_swept_away)
        if made_of == self._made_of:
            return set()
        self._made_of = made_of
        before, wanted = board.gates, active_environment.OPEN if is_swept_away else self._intake.find_gates()
        board.heed(wanted)
        if (before.rules, before.revision) != (wanted.rules, wanted.revision):
            return {EVERYTHING}
        return before.passages.find_changed(wanted.passages)

    def look(self, stack: StackObject, board: Board, memory: Memory, *, blind_for: float) -> None:
        """After a pass: what follows from where everybody stands. blind_for: seconds until that is known."""
        wishes, inbox = self._intake.wishes, self._services.inbox
        parting = board.withheld.take_unrecorded()
        if parting:
            wishes.part(parting)
            inbox.mark(self._uid, STACK)
        if self._intake.is_behind(stack):
            return
        order = wishes.find_continue(stack)
        if blind_for > 0:
            if order:
                self._services.mark_later(blind_for, self._uid, STACK)
            return
        is_idle = self._intake.flow.is_paused or breakpoint_waits.is_stopped(board, memory)
        wishes.note_idle(is_idle=is_idle, now=self._services.clock.now())
        if order:
            self._obey(stack, board, order)

    def _obey(self, stack: StackObject, board: Board, order: str) -> None:
        answer = continue_requests.answer(order, board)
        self._intake.wishes.take_continue(order, answer.passed)
        self._services.inbox.mark(self._uid, STACK)
        emit = self._services.home.emit_event
        type_, reason = ("Normal", "Continued") if answer.passed is not None else ("Warning", "NothingToContinue")
        self._tasks.run(order, lambda: emit(stack, type_=type_, reason=reason, message=answer.message))
