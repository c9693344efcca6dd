"""Executes steps with a limited number of workers. Queues are fair, so a large Stack does not starve a small one."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from hearth import supervision
from hearth.engine.ports import Clock
from hearth.model import turns
from hearth.model.turns import FairTurns

RunKey: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Executes the current step for a Stack's key, if there is one. Its exceptions are internal errors."""

STARTS_WITHIN = 60.0
"""Seconds within which a queued step that is allowed to start must start."""
STEP_HANGS_AFTER = 180.0
"""Seconds within which a step in flight must end. Each request ends after 30 seconds, and a step sends at most six."""


class FairExecutor:
    """Fair queues of keys by Stack, served in turn by as many workers as the current limit allows.

    Only keys are queued. The worker asks for the step when its turn comes, so an obsolete step costs nothing. Namespaces
    and Stacks with no step in flight come first: see `FairTurns`.
    """

    def __init__(  # noqa: PLR0913 -- what it calls, and when
        self,
        *,
        workers: int,
        take_step: RunKey,
        clock: Clock,
        find_room: Callable[[], int] | None = None,
        on_start: Callable[[float], None] | None = None,
        where: str = "step",
        on_error: Callable[[str, str], None] = lambda _stack_uid, _key: None,
    ) -> None:
        """workers: maximum steps in flight; find_room: the current limit; on_start: called with the queue time in seconds.

        where: name of the steps in metrics and logs; on_error: called with the Stack and key of a step that raised.
        """
        self._take_step = take_step
        self._where = where
        self._on_error = on_error
        self._moved_at = clock.monotonic()
        """Monotonic time in seconds of the last progress: an enqueue into an empty queue, a start or an end."""
        self._clock = clock
        self._find_room = find_room or (lambda: workers)
        self._on_start = on_start
        self._queues: dict[str, OrderedDict[str, float]] = {}
        """By Stack: its keys in order, each with the time when it started to wait."""
        self._namespaces: dict[str, str] = {}
        """The namespace of each queued Stack."""
        # A server that throttles, or was only just connected, gets few requests at a time. A single Stack may use all
        # of them.
        self._turns = FairTurns(reserve_from=turns.RESERVED_FROM if find_room is None else turns.RESERVED_FRACTION)
        self._resting: list[asyncio.Future[None]] = []
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers."""
        self._tasks = [
            supervision.spawn_forever("executor", self._serve, name=f"executor-{n}") for n in range(self._workers)
        ]

    async def stop(self) -> None:
        """Stop the workers; a request in flight is abandoned as in a crash."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def in_flight(self) -> int:
        """Return the steps in flight of all Stacks."""
        return self._turns.in_flight

    def enqueue(self, stack_uid: str, keys: Iterable[str], *, namespace: str = "") -> None:
        """Enqueue keys; a key in the queue keeps its position.

        namespace: of the Stack, whose Stacks share the turns; "" for a turn of its own.
        """
        queue = self._queues.get(stack_uid) or OrderedDict[str, float]()
        now = self._clock.monotonic()
        if not self._queues:
            self._moved_at = now
        for key in keys:
            queue.setdefault(key, now)
        if queue and stack_uid not in self._queues:
            self._queues[stack_uid] = queue
            self._namespaces[stack_uid] = namespace or stack_uid
            self._turns.add(namespace or stack_uid, stack_uid)
        self.wake()

    def is_queued(self, stack_uid: str) -> bool:
        """Return whether any step of the Stack waits for its turn."""
        return stack_uid in self._queues

    def is_in_line(self, stack_uid: str, *, seconds: float) -> bool:
        """Return whether steps of the Stack wait for their turn, and any step started or ended in the last seconds."""
        return stack_uid in self._queues and self._clock.monotonic() - self._moved_at < seconds

    def count_queued(self) -> int:
        """Return the number of queued steps."""
        return sum(map(len, self._queues.values()))

    def find_stall(self) -> str:
        """Explain a stall; "" for none. An unavailable or throttling API server is not a stall, because steps still
        end.

        Neither are slow steps while workers are free: the waiting steps belong to the same Stacks. A queue may wait at
        a limit of 0, because the API server requested a pause.
        """
        seconds = self._clock.monotonic() - self._moved_at
        room = self._find_room()
        if self._turns.may_take(room):
            is_stalled = seconds > STARTS_WITHIN
        else:
            is_stalled = bool(self._queues) and self.in_flight >= max(1, room) and seconds > STEP_HANGS_AFTER
        if not is_stalled:
            return ""
        return (
            f"{self.count_queued()} {self._where} tasks are queued, and none has started or ended for {seconds:.0f} s"
        )

    def wake(self) -> None:
        """Wake one worker, because the limit or the queue may have grown."""
        while self._resting and self._queues:
            worker = self._resting.pop()
            if not worker.done():
                worker.set_result(None)
                return

    def _next(self) -> tuple[str, str] | None:
        """Start the first key of the next Stack. Returns None if nothing waits or the limit is reached."""
        stack_uid = self._turns.take(self._find_room())
        if stack_uid is None:
            return None
        queue = self._queues[stack_uid]
        key, since = queue.popitem(last=False)
        if queue:
            self._turns.add(self._namespaces[stack_uid], stack_uid)
        else:
            del self._queues[stack_uid], self._namespaces[stack_uid]
        self._moved_at = self._clock.monotonic()
        if self._on_start is not None:
            self._on_start(self._moved_at - since)
        return stack_uid, key

    async def _serve(self) -> None:
        while True:
            taken = self._next()
            if taken is None:
                resting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._resting.append(resting)
                await resting
                continue
            stack_uid, key = taken
            # Each worker wakes the next one, up to the limit.
            self.wake()
            try:
                await supervision.contain(
                    self._where,
                    functools.partial(self._take_step, stack_uid, key),
                    functools.partial(self._on_error, stack_uid, key),
                    stack=stack_uid,
                    key=key,
                )
            finally:
                self._turns.end(stack_uid)
                self._moved_at = self._clock.monotonic()
