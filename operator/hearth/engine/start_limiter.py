"""Limit on the Stacks that start at once: of a burst of new Stacks, some are complete before the others begin.

Must not know what a start does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from hearth.engine.ports import Clock
from hearth.engine.work_queue import DirtyScope, WorkQueue

START_LASTS = 1.0
"""Seconds after which a start counts no longer, so that writes that hang delay no other Stack for longer."""


class StartLimiter:
    """The Stacks that this process reconciles for the first time, and those that wait for that.

    Namespaces take turns, so a thousand Stacks in one of them do not delay the first one in another.
    """

    def __init__(self, *, most: int, queue: WorkQueue, clock: Clock) -> None:
        """most: starts at once."""
        self._most = most
        self._queue = queue
        self._clock = clock
        self._held: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        """By namespace, in the order of their turns: the UIDs of the Stacks that wait."""
        self._starting: dict[str, Callable[[], None] | None] = {}
        """By UID: cancels the timer of the start; None until the first reconcile."""

    def __len__(self) -> int:
        """Return the number of Stacks that wait."""
        return sum(map(len, self._held.values()))

    def admit(self, uid: str, namespace: str) -> bool:
        """Return whether the Stack may start now. A Stack that may not is enqueued once it may."""
        if uid in self._starting:
            return True
        if uid in self._held.get(namespace, ()):
            return False
        if self._held or len(self._starting) >= self._most:
            self._held.setdefault(namespace, OrderedDict())[uid] = None
            return False
        self._starting[uid] = None
        return True

    def begin(self, uid: str) -> None:
        """Record a reconcile of a Stack: if it is starting, its time runs."""
        if uid in self._starting and self._starting[uid] is None:
            self._starting[uid] = self._clock.call_later(START_LASTS, lambda: self.finish(uid))

    def finish(self, uid: str) -> None:
        """End the start of a Stack, if it is starting, and let others start."""
        if uid not in self._starting:
            return
        cancel = self._starting.pop(uid)
        if cancel is not None:
            cancel()
        while self._held and len(self._starting) < self._most:
            following = self._take_next()
            self._starting[following] = None
            self._queue.enqueue(following, DirtyScope.ALL_RESOURCES)

    def _take_next(self) -> str:
        namespace, uids = self._held.popitem(last=False)
        uid, _ = uids.popitem(last=False)
        if uids:
            self._held[namespace] = uids
        return uid
