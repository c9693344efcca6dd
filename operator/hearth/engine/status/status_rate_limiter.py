"""Timing of status writes: when a change of a Stack is worth a write.

Real changes are written at once. Progress and short repairs are delayed if the Stack is large or one of many. Each
write makes the API server process the whole Stack. Must not know how statuses are built or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.engine.cluster_objects import StackObject
from hearth.plan.status import status_changes

BYTES_PER_SECOND = 50_000
"""Bytes of a Stack's spec per second between two progress-only statuses.

The API server processes the whole Stack at any write. A Stack of 2,000 resources took nearly half a second of CPU.
"""
PROGRESS_WRITES_PER_SECOND = 10
"""Progress-only writes per second of all processes.

No user follows thousands of Stacks at once, and the API server has more important work.
"""
START_GRACE = 1.0
"""Seconds for which a Stack must work towards a new target before its status reports it.

Most Stacks are complete by then, and need one status write instead of two. `observedGeneration` tells the two apart.
"""
START_REPORTED_AFTER = 30.0
"""Seconds after which the start is reported, no matter how many other Stacks are in progress.

A thousand Stacks of four that are created at once take about as long. Anything but the mere start is reported sooner.
"""
REPAIR_GRACE = 1.0
"""Seconds for which a complete, large Stack must be at work again before its status reports it.

A repair takes some hundredths of a second. Its two statuses would take longer and delay the next repair.
"""


class StatusRateLimiter:
    """Times of written and pending statuses, by Stack. All times are monotonic seconds."""

    def __init__(self, *, interval: float, processes: int = 1) -> None:
        """interval: seconds between two writes of one Stack's status; a Stack with a longer size-based pause is large.

        processes: number of processes that share the rate.
        """
        self._interval = interval
        self._between = processes / PROGRESS_WRITES_PER_SECOND
        """Seconds between two progress writes of this process."""
        self._written: dict[str, float] = {}
        """By Stack: time of the last status write."""
        self._turns: dict[str, float] = {}
        """By Stack: time of its next allowed progress write."""
        self._next_turn = 0.0
        self._setbacks: dict[str, float] = {}
        """By Stack: time since which a repair is unreported."""
        self._starts: dict[str, float] = {}
        """By Stack: time since which the start of the work towards its target is unreported."""

    def is_start_pending(self, uid: str) -> bool:
        """Return whether the status does not report yet that the Stack works towards its target."""
        return uid in self._starts

    def find_written(self, uid: str) -> float:
        """Return the time of the last status write; infinitely long ago if there was none."""
        return self._written.get(uid, float("-inf"))

    def find_delay(
        self, stack: StackObject, before: Mapping[str, Any], after: Mapping[str, Any], *, now: float
    ) -> float:
        """Return the seconds until the change is worth a write; 0 or less for now."""
        pause = stack.spec_size / BYTES_PER_SECOND
        if pause > self._interval and status_changes.is_repair_only(before, after):
            return self._setbacks.setdefault(stack.uid, now) + REPAIR_GRACE - now
        if status_changes.is_start_only(before, after):
            begun = self._starts.setdefault(stack.uid, now)
            turn = max(begun + START_GRACE, self._find_turn(stack.uid, now))
            return min(turn, begun + START_REPORTED_AFTER) - now
        if not status_changes.is_progress_only(before, after):
            return 0.0
        paced = self.find_written(stack.uid) + pause
        return max(paced, self._find_turn(stack.uid, now)) - now

    def on_written(self, uid: str, *, now: float) -> None:
        """Record that the complete status is being written."""
        self.clear(uid)
        self._written[uid] = now

    def clear(self, uid: str) -> None:
        """Clear the pending times: nothing is left to report."""
        self._turns.pop(uid, None)
        self._setbacks.pop(uid, None)
        self._starts.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Drop a deleted Stack."""
        self.clear(uid)
        self._written.pop(uid, None)

    def _find_turn(self, uid: str, now: float) -> float:
        """Find the time of the Stack's next progress write; the writes of one second may come in a burst."""
        if uid not in self._turns:
            # A Stack with other changes never used its slot, so the number of waiting Stacks counts.
            turn = max(now - 1, min(self._next_turn, now + (len(self._turns) + 1) * self._between))
            self._turns[uid], self._next_turn = turn, turn + self._between
        return self._turns[uid]
