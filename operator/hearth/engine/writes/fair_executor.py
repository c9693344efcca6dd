"""Takes steps, a bounded number at a time, one Stack after the other, so that a large one does not starve a small one."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from hearth import supervision
from hearth.engine.ports import Clock

RunKey: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Takes the step that is planned for a Stack's key now, if one still is. What it raises is an internal error."""

RESERVED_FRACTION = 8
"""One in so many places is for Stacks with nothing in flight: where each write of a large Stack hangs in a webhook for
half a minute, the others do not hang with it."""
STARTS_WITHIN = 60.0
"""Seconds within which something that waits must begin where nothing else is in flight."""
STEP_HANGS_AFTER = 180.0
"""Seconds within which one of the steps in flight must end: each request ends after 30, and a step sends at most six."""


class FairExecutor:
    """A queue of keys by Stack, served in turn by a number of workers, of which as many work as there is room for.

    Only keys are queued: what is to be done is asked for when it is done, so a step that is no longer wanted by then
    costs nothing. Stacks with nothing in flight come first.
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
        """workers: steps in flight at most; find_room: how many of them just now; on_start: told the seconds in the queue.

        where: what steps are called in metrics and logs; on_error: gets the Stack and the key of a step that raised.
        """
        self._take_step = take_step
        self._where = where
        self._on_error = on_error
        self._moved_at = clock.monotonic()
        """When something was queued on an empty queue, begun or finished last; monotonic seconds."""
        self._clock = clock
        self._find_room = find_room or (lambda: workers)
        self._on_start = on_start
        self._queues: dict[str, OrderedDict[str, float]] = {}
        """By Stack its keys in order, each with the moment since which it waits."""
        self._idle: OrderedDict[str, None] = OrderedDict()
        """Of these the Stacks with nothing in flight, in the order of their turns."""
        self._busy: OrderedDict[str, None] = OrderedDict()
        """The others, in the order of their turns."""
        self._running: Counter[str] = Counter()
        """By Stack its steps in flight."""
        self.in_flight = 0
        """Steps of all Stacks."""
        self._resting: list[asyncio.Future[None]] = []
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Let the workers begin."""
        self._tasks = [
            supervision.spawn_forever("executor", self._serve, name=f"executor-{n}") for n in range(self._workers)
        ]

    async def stop(self) -> None:
        """End the workers; a request under way is abandoned, as by a crash."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def enqueue(self, stack_uid: str, keys: Iterable[str]) -> None:
        """Queue keys; those that wait already keep their place."""
        queue = self._queues.get(stack_uid) or OrderedDict[str, float]()
        now = self._clock.monotonic()
        if not self._queues:
            self._moved_at = now
        for key in keys:
            queue.setdefault(key, now)
        if queue and stack_uid not in self._queues:
            self._queues[stack_uid] = queue
            line = self._busy if stack_uid in self._running else self._idle
            line[stack_uid] = None
        self.wake()

    def count_queued(self) -> int:
        """Steps that wait."""
        return sum(map(len, self._queues.values()))

    def find_stall(self) -> str:
        """Why its work stands still, where it does. An API server that is away or throttles is no reason: steps end then.

        Nothing is written while the server asks for a pause, so without any room a queue may wait.
        """
        seconds = self._clock.monotonic() - self._moved_at
        limit = STEP_HANGS_AFTER if self.in_flight else STARTS_WITHIN
        if not self._queues or seconds <= limit or (not self.in_flight and self._find_room() <= 0):
            return ""
        return f"{self.count_queued()} {self._where} tasks wait, and none has started or ended for {seconds:.0f} s"

    def wake(self) -> None:
        """There may be room for one more, or something to do."""
        while self._resting and self._queues:
            worker = self._resting.pop()
            if not worker.done():
                worker.set_result(None)
                return

    def _next(self) -> tuple[str, str] | None:
        """The first key of the Stack whose turn it is; None where nothing waits, or there is no room for it."""
        room = self._find_room()
        if self._idle and self.in_flight < room:
            line = self._idle
        elif self._busy and self.in_flight < room - room // RESERVED_FRACTION:
            line = self._busy
        else:
            return None
        stack_uid, _ = line.popitem(last=False)
        queue = self._queues[stack_uid]
        key, since = queue.popitem(last=False)
        if queue:
            self._busy[stack_uid] = None
        else:
            del self._queues[stack_uid]
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
            self.in_flight += 1
            self._running[stack_uid] += 1
            # Whoever is woken does the same: so many begin as there is room for.
            self.wake()
            try:
                await self._take(stack_uid, key)
            finally:
                self.in_flight -= 1
                self._moved_at = self._clock.monotonic()
                self._leave(stack_uid)

    async def _take(self, stack_uid: str, key: str) -> None:
        await supervision.contain(
            self._where,
            lambda: self._take_step(stack_uid, key),
            lambda: self._on_error(stack_uid, key),
            stack=stack_uid,
            key=key,
        )

    def _leave(self, stack_uid: str) -> None:
        """A step of that Stack has ended."""
        self._running[stack_uid] -= 1
        if not self._running[stack_uid]:
            del self._running[stack_uid]
            if stack_uid in self._busy:
                del self._busy[stack_uid]
                self._idle[stack_uid] = None
