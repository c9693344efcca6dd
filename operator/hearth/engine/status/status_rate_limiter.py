"""When what is new about a Stack is worth a write of its status.

Real news at once. Progress and short repairs later where the Stack is large or one of many, since each write costs the API
server a look at all of the Stack. Must not know how statuses are made or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.engine.ports import StackObject
from hearth.plan.status import status_builder

BYTES_PER_SECOND = 50_000
"""Bytes of a Stack's spec for each second between two statuses that tell of nothing but progress. The API server looks at
the whole Stack whatever is written of it: for one of 2,000 resources that was nearly half a second of CPU."""
PROGRESS_WRITES_PER_SECOND = 10
"""Stacks of all processes that tell of nothing but progress in a second: among thousands nobody reads along, and the server has
better to do."""
REPAIR_GRACE = 1.0
"""Seconds for which a Stack that was complete must have been at work again until so large a one tells of it. A repair is done in
some hundredths; the two statuses about it would take longer than that, and the next repair with them."""


class StatusRateLimiter:
    """What of each Stack was written when, and what waits. All times are monotonic seconds."""

    def __init__(self, *, interval: float, processes: int = 1) -> None:
        """interval: seconds between two writes of the same Stack's status; one that takes its pace longer is large.

        processes: how many share the turns.
        """
        self._interval = interval
        self._between = processes / PROGRESS_WRITES_PER_SECOND
        """Seconds from turn to turn."""
        self._written: dict[str, float] = {}
        """By Stack when its status was written last."""
        self._turns: dict[str, float] = {}
        """By Stack when it may tell of its progress."""
        self._next_turn = 0.0
        self._setbacks: dict[str, float] = {}
        """By Stack since when a setback was not told of."""

    def find_delay(
        self, stack: StackObject, before: Mapping[str, Any], after: Mapping[str, Any], *, now: float
    ) -> float:
        """Seconds until that change is worth a write; 0 or less: now."""
        pause = len(stack.packed_spec) / BYTES_PER_SECOND
        if pause > self._interval and status_builder.is_repair_only(before, after):
            return self._setbacks.setdefault(stack.uid, now) + REPAIR_GRACE - now
        if not status_builder.is_progress_only(before, after):
            return 0.0
        paced = self._written.get(stack.uid, float("-inf")) + pause
        return max(paced, self._find_turn(stack.uid, now)) - now

    def on_written(self, uid: str, *, now: float) -> None:
        """All of it is being told."""
        self.clear(uid)
        self._written[uid] = now

    def clear(self, uid: str) -> None:
        """There is nothing to tell any more."""
        self._turns.pop(uid, None)
        self._setbacks.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The Stack is gone."""
        self.clear(uid)
        self._written.pop(uid, None)

    def _find_turn(self, uid: str, now: float) -> float:
        """When it is the Stack's turn among all that have progress to tell; those of one second may come at once."""
        if uid not in self._turns:
            # Who had other news never took his turn: what counts is how many wait.
            turn = max(now - 1, min(self._next_turn, now + (len(self._turns) + 1) * self._between))
            self._turns[uid], self._next_turn = turn, turn + self._between
        return self._turns[uid]
