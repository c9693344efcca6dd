"""The one timer of a Stack: enqueues each resource when its next reconcile is due.

Must not know why a resource is requeued.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from hearth.engine.services import Services
from hearth.engine.work_queue import DirtyScope


class RequeueTimer:
    """Set again after each reconcile."""

    def __init__(self, uid: str, *, services: Services, find_requeues: Callable[[], Mapping[str, float]]) -> None:
        """Prepare the timer. find_requeues: returns by key the monotonic time in seconds of the next reconcile."""
        self._uid = uid
        self._services = services
        self._find_requeues = find_requeues
        self._cancel: Callable[[], None] | None = None

    def arm(self, *seconds_left: float) -> None:
        """Wait for the next requeue, or for the first end of `seconds_left`; those that are none do not count."""
        self.cancel()
        next_wake = min(self._find_requeues().values(), default=math.inf) - self._services.clock.monotonic()
        delay = min((next_wake, *(each for each in seconds_left if each > 0)))
        if delay < math.inf:
            self._cancel = self._services.clock.call_later(max(0.0, delay), self._enqueue_due)

    def cancel(self) -> None:
        """Wait no longer."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _enqueue_due(self) -> None:
        """Enqueue what is due."""
        self._cancel = None
        # Enqueue the Stack even if nothing is due: timers may fire early, and only a reconcile sets the next one.
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)
        now = self._services.clock.monotonic()
        for key, wake_at in self._find_requeues().items():
            if wake_at <= now:
                self._services.queue.enqueue(self._uid, key)
