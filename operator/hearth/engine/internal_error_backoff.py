"""What of the work for one Stack ends in errors that no code expects, and when it is tried again.

Its status says so until the work succeeds. Must not know what the work is.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from hearth import supervision
from hearth.plan.state.internal_errors import Fault

PASS, ACCEPT, STATUS, PART = "pass", "accept", "status", "part"
SHOWN_FOR = 2.0
"""Seconds after a retry for which an error is shown that did not occur again: a status is written once a second at most."""
LASTING = frozenset({ACCEPT, STATUS})
"""The work that is asked for until it succeeds."""
BLOCKING = frozenset({PASS, ACCEPT, STATUS, PART, "step", "broadcast"})
"""The work without which a Stack does not get on; the rest is told in a condition of its own alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Work that failed."""

    failures: int
    due: float
    """Monotonic seconds at which it is tried again."""


class Faults:
    """The work of one Stack that fails now."""

    def __init__(self) -> None:
        self._failing: dict[str, Failing] = {}

    def note(self, work: str, *, now: float) -> float:
        """It failed; the seconds after which it is to be tried again."""
        before = self._failing.get(work)
        failures = before.failures + 1 if before is not None else 1
        delay = supervision.current().find_backoff(failures)
        self._failing[work] = Failing(failures=failures, due=now + delay)
        return delay

    def find_due(self, work: str) -> float:
        """The monotonic seconds at which it is tried again; 0 where it did not fail."""
        failing = self._failing.get(work)
        return failing.due if failing is not None else 0.0

    def clear(self, work: str) -> bool:
        """It succeeded; whether it had failed before."""
        return self._failing.pop(work, None) is not None

    def settle(self, running: Container[str], *, now: float) -> None:
        """Forget what was due and that nothing asks for any more. running: the work that is under way."""
        if self._failing:
            self._failing = {
                work: each
                for work, each in self._failing.items()
                if now < each.due + SHOWN_FOR or work in running or work in LASTING
            }

    def describe(self, *, besides: str = "") -> Fault | None:
        """What the status says of it, besides some work."""
        works = tuple(sorted(work for work in self._failing if work != besides))
        return Fault(works=works, is_blocking=not BLOCKING.isdisjoint(works)) if works else None
