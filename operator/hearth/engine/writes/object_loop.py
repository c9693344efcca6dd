"""Worker loop for objects other than Stacks: HealthMarks and StackSnapshots."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from hearth import supervision
from hearth.engine.ports import Clock
from hearth.engine.writes.fair_executor import FairExecutor
from hearth.model import growing_delay

logger = structlog.get_logger(__name__)

WORKERS = 4
STEP_SECONDS, LONGEST_STEP = 30.0, 120.0
"""Seconds after which an object makes room for others and continues later. Doubled each time, up to less than the
threshold for a stall (`fair_executor.STEP_HANGS_AFTER`). If the API server answers, the longest legitimate step takes
two."""
MAX_STEPS = 8
"""Consecutive steps for one object, each caused by the write of the previous one. More indicate a bug."""


class NeverRests(Exception):
    """An object that would be written endlessly."""


class ObjectLoop:
    """Processes each object once at a time, and again if it is enqueued meanwhile. An object has at most one timer."""

    def __init__(
        self, *, where: str, advance: Callable[[str], Awaitable[bool]], enqueue: Callable[[str], None], clock: Clock
    ) -> None:
        """Process nothing before `start`.

        where: name of the steps in metrics and logs; advance: takes one step for an object, by UID, and returns whether
        another one may follow at once; enqueue: called with an object whose time has come.
        """
        self._advance = advance
        self._enqueue = enqueue
        self._clock = clock
        self._executor = FairExecutor(
            workers=WORKERS, take_step=self._process, clock=clock, where=where, on_error=self._retry
        )
        self._failures: Counter[str] = Counter()
        """Consecutive internal errors by object."""
        self._timers: dict[str, Callable[[], None]] = {}
        """Functions that cancel the next scheduled step, by object."""
        self._busy: set[str] = set()
        self._again: set[str] = set()

    def start(self) -> None:
        """Start the workers."""
        self._executor.start()

    async def stop(self) -> None:
        """Stop at once."""
        for uid in list(self._timers):
            self.cancel(uid)
        await self._executor.stop()

    def find_stall(self) -> str:
        """Explain why no object is processed if processing has stalled."""
        return self._executor.find_stall()

    def enqueue(self, namespace: str, uid: str) -> None:
        """Process the object; fairly by namespace, so that many objects in one namespace do not delay another."""
        if uid in self._busy:
            self._again.add(uid)
        else:
            self._executor.enqueue(namespace, [uid])

    def enqueue_later(self, uid: str, delay: float) -> None:
        """Process the object once after `delay` seconds, and not before, unless it is enqueued."""
        self.cancel(uid)
        self._timers[uid] = self._clock.call_later(delay, lambda: self._enqueue(uid))

    def retry(self, uid: str) -> None:
        """Process the object once more after an internal error, later each time."""
        self._failures[uid] += 1
        self.enqueue_later(uid, supervision.current().find_backoff(self._failures[uid]))

    def cancel(self, uid: str) -> None:
        """Cancel the object's timer."""
        cancel = self._timers.pop(uid, None)
        if cancel is not None:
            cancel()

    def _retry(self, _namespace: str, uid: str) -> None:
        self.retry(uid)

    async def _process(self, _namespace: str, uid: str) -> None:
        """Process one object until it has to wait."""
        # From here on, other workers must not process this object.
        self._busy.add(uid)
        patience = asyncio.timeout(
            growing_delay.find(self._failures[uid] + 1, first=STEP_SECONDS, longest=LONGEST_STEP)
        )
        try:
            # Most calls never wait. A thousand of them in a row would block the event loop.
            await asyncio.sleep(0)
            async with patience:
                await self._advance_far(uid)
            self._failures.pop(uid, None)
        except TimeoutError:
            if not patience.expired():
                raise
            # As after a crash, it continues from the state of the cluster.
            logger.warning("a step takes long; other steps run first", object=uid)
            self.retry(uid)
        finally:
            self._busy.discard(uid)
            if uid in self._again:
                self._again.discard(uid)
                self._enqueue(uid)

    async def _advance_far(self, uid: str) -> None:
        for _ in range(MAX_STEPS):
            if not await self._advance(uid):
                return
        raise NeverRests
