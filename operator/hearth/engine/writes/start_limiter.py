"""Limit on the Stacks that start at once: of a burst of new Stacks, some are complete before the others begin.

Must not know what a start does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hearth.engine.ports import Clock
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model.turns import NamespaceLine

START_LASTS = 1.0
"""Seconds after which a start counts no longer unless it waits in line, so that a request that hangs delays no other
Stack for longer."""
STEPS_PER_WRITE = 8
"""Steps of starting Stacks for each write that may be in flight. 256 take some 0.6 s, so a Stack is complete within the
second in which its status need not report the start. With half of that, the executor is sometimes idle.
"""
FIRST_ASSUMPTION = 4.0
"""Steps that the first Stacks count for until they are planned."""
ADAPTATION = 0.125
"""Share of the last planned Stack in what is assumed of the next one."""
COUNTED_STEPS = 16
"""Steps that a large Stack counts for at most; its other steps take turns with those of the others."""


@dataclass(slots=True)
class Start:
    """The start of one Stack."""

    steps: float
    """What it counts for."""
    is_planned: bool = False
    """Whether that is the number of its first steps."""
    taken: int = 0
    """Steps that had their turn."""
    cancel: Callable[[], None] | None = None
    """Cancels its timer; None until the first reconcile."""


class StartLimiter:
    """The Stacks that this process reconciles for the first time, and those that wait for that.

    Namespaces take turns, so a thousand Stacks in one of them do not delay the first one in another.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        queue: WorkQueue,
        clock: Clock,
        is_in_line: Callable[[str], bool] = lambda _uid: False,
    ) -> None:
        """concurrency: maximum writes in flight.

        is_in_line: whether a Stack waits for its turn, in a line that moves, rather than for an answer.
        """
        self._assumed = FIRST_ASSUMPTION
        """Steps that a Stack counts for until they are planned: as many as those before it had."""
        self._room = float(STEPS_PER_WRITE * concurrency)
        """Steps for which further Stacks may start; negative if the planned ones are more than assumed."""
        self._queue = queue
        self._clock = clock
        self._is_in_line = is_in_line
        self._held = NamespaceLine()
        """The Stacks that wait."""
        self._starting: dict[str, Start] = {}

    def admit(self, uid: str, namespace: str) -> bool:
        """Return whether the Stack may start now. A Stack that may not is enqueued once it may."""
        if uid in self._starting:
            return True
        if self._held.has(namespace, uid):
            return False
        if self._held or self._room < self._assumed:
            self._held.add(namespace, uid)
            return False
        self._add(uid)
        return True

    def begin(self, uid: str) -> None:
        """Record a reconcile of a Stack: if it is starting, its time runs."""
        start = self._starting.get(uid)
        if start is not None and start.cancel is None:
            self._arm(uid, start)

    def weigh(self, uid: str, steps: int) -> None:
        """Count a start for as many steps as were planned first."""
        start = self._starting.get(uid)
        if start is None or start.is_planned or not steps:
            return
        counted = min(steps, COUNTED_STEPS)
        self._room += start.steps - counted
        start.steps, start.is_planned = counted, True
        self._assumed += ADAPTATION * (counted - self._assumed)
        self._release()

    def take_step(self, uid: str) -> None:
        """Record that a step of a Stack has its turn: its start ends with as many as it counts for."""
        start = self._starting.get(uid)
        if start is None:
            return
        start.taken += 1
        if start.taken >= start.steps:
            self.finish(uid)

    def finish(self, uid: str) -> None:
        """End the start of a Stack, if it is starting, and let others start."""
        start = self._starting.pop(uid, None)
        if start is None:
            return
        if start.cancel is not None:
            start.cancel()
        self._room += start.steps
        self._release()

    def _arm(self, uid: str, start: Start) -> None:
        start.cancel = self._clock.call_later(START_LASTS, lambda: self._look(uid, start))

    def _look(self, uid: str, start: Start) -> None:
        """End a start whose time is over, unless it waits in line: to let others start would only make that longer."""
        if self._is_in_line(uid):
            self._arm(uid, start)
        else:
            self.finish(uid)

    def _add(self, uid: str) -> None:
        self._starting[uid] = Start(self._assumed)
        self._room -= self._assumed

    def _release(self) -> None:
        while self._held and self._room >= self._assumed:
            uid = self._held.pop()
            self._add(uid)
            self._queue.enqueue(uid, DirtyScope.ALL_RESOURCES)
