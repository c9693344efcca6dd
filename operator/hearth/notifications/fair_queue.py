"""Notifications that wait to be sent: bounded, and shared fairly between namespaces. Pure.

A namespace with many changes delays or drops only its own notifications. All times are monotonic seconds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

from hearth.model import retry_delays
from hearth.notifications.messages import Message

MAX_WAITING = 1000
"""Waiting notifications of the process, some 2 KiB each."""
MAX_PER_NAMESPACE = 50
"""Waiting notifications of one namespace: more than a person reads after an outage of the receiver."""
RATE = 20
"""Notifications per namespace and `RATE_SECONDS`. A Stack that fails and recovers all the time has no more to say."""
RATE_SECONDS = 60.0
LIFETIME = 600.0
"""Seconds after which a notification that could not be sent is given up."""


@dataclass(slots=True, eq=False)
class Waiting:
    """One notification, and when it is sent."""

    message: Message
    expires: float
    due: float
    failures: int = 0


class FairQueue:
    """The waiting notifications, each namespace in its own order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[Waiting]] = OrderedDict()
        """By namespace; the namespace that was served last is the last one."""
        self._accepted: OrderedDict[str, deque[float]] = OrderedDict()
        """Times of the last notifications of each namespace; the latest namespace is the last one."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, message: Message, *, now: float) -> Message | None:
        """Add a notification. Returns the one that was dropped for it, which may be the same; None if there is room."""
        if not self._take_place(message.namespace, now):
            return message
        dropped = None
        if len(self._waiting.get(message.namespace, ())) >= MAX_PER_NAMESPACE:
            dropped = self._drop_oldest(message.namespace)
        elif len(self) >= MAX_WAITING:
            dropped = self._drop_oldest(max(self._waiting, key=lambda each: len(self._waiting[each])))
        waiting = Waiting(message, expires=now + LIFETIME, due=now)
        self._waiting.setdefault(message.namespace, deque()).append(waiting)
        return dropped

    def take(self, *, now: float) -> Waiting | None:
        """Remove and return a notification that is due, of the namespace that waited longest; None if none is due."""
        for namespace, queue in self._waiting.items():
            for position, waiting in enumerate(queue):
                if waiting.due <= now:
                    del queue[position]
                    if queue:
                        self._waiting.move_to_end(namespace)
                    else:
                        del self._waiting[namespace]
                    return waiting
        return None

    def put_back(self, waiting: Waiting, *, now: float) -> bool:
        """Let a notification wait for its next attempt; return False if its time is over."""
        waiting.failures += 1
        waiting.due = now + retry_delays.NOTIFICATION.find_seconds(waiting.failures)
        if waiting.due > waiting.expires:
            return False
        self._waiting.setdefault(waiting.message.namespace, deque()).append(waiting)
        return True

    def find_next_due(self) -> float | None:
        """Return when the next notification is due; None if none waits."""
        return min((waiting.due for queue in self._waiting.values() for waiting in queue), default=None)

    def _take_place(self, namespace: str, now: float) -> bool:
        """Count one more notification of the namespace; return False if its rate is reached."""
        while self._accepted and next(iter(self._accepted.values()))[-1] <= now - RATE_SECONDS:
            self._accepted.popitem(last=False)
        times = self._accepted.setdefault(namespace, deque(maxlen=RATE))
        if len(times) == RATE and times[0] > now - RATE_SECONDS:
            return False
        times.append(now)
        self._accepted.move_to_end(namespace)
        return True

    def _drop_oldest(self, namespace: str) -> Message:
        queue = self._waiting[namespace]
        oldest = min(queue, key=lambda waiting: waiting.expires)
        queue.remove(oldest)
        if not queue:
            del self._waiting[namespace]
        return oldest.message
