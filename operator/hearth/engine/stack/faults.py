"""Records internal errors in the work for one Stack, each until that work succeeds."""

from __future__ import annotations

from collections.abc import Container

from hearth import supervision
from hearth.engine.services import Services
from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.model import value_class
from hearth.plan.state.internal_errors import Fault

PASS, STEP, BROADCAST = "pass", "step", "broadcast"
"""Activities of the controller for a Stack."""
ACCEPT, PART, STATUS = "accept", "part", "status"
"""Processing the definition of a Stack, ending its deletion, and writing its status."""
SHOWN_FOR = 2.0
"""Seconds after a retry while the status still reports its error. The status is written at most once a second."""
SETTLED_AFTER = SHOWN_FOR + 0.1
"""Seconds after a retry until its error is settled: timers may fire a moment early."""
LASTING = frozenset({ACCEPT, STATUS})
"""Work that is requested until it succeeds."""
BLOCKING = frozenset({PASS, STEP, BROADCAST, ACCEPT, PART, STATUS})
"""Work that blocks the Stack when it fails. Failures of other work set only their own condition."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Work that failed."""

    failures: int
    due: float
    """Monotonic time in seconds of the next retry."""


class Faults:
    """The failing work of one Stack."""

    def __init__(self, uid: str, *, services: Services) -> None:
        self._uid = uid
        self._services = services
        self._failing: dict[str, Failing] = {}

    def note(self, work: str, *, what: DirtyItem = DirtyScope.ALL_RESOURCES) -> float:
        """Record a failure; enqueue `what` after the returned delay in seconds."""
        before = self._failing.get(work)
        failures = before.failures + 1 if before is not None else 1
        delay = supervision.current().find_backoff(failures)
        self._failing[work] = Failing(failures=failures, due=self._services.clock.monotonic() + delay)
        self._services.enqueue_after(delay, self._uid, what)
        self._services.enqueue_after(delay + SETTLED_AFTER, self._uid, DirtyScope.STACK)
        return delay

    def find_due(self, work: str) -> float:
        """Return the monotonic time in seconds of the next retry, or 0 if the work did not fail."""
        failing = self._failing.get(work)
        return failing.due if failing is not None else 0.0

    def clear(self, work: str) -> bool:
        """Record a success; return whether the work had failed before."""
        return self._failing.pop(work, None) is not None

    def settle(self, running: Container[str]) -> None:
        """Drop overdue failures of work that is no longer requested. running: the work in progress."""
        if self._failing:
            now = self._services.clock.monotonic()
            self._failing = {
                work: each
                for work, each in self._failing.items()
                if now < each.due + SHOWN_FOR or work in running or work in LASTING
            }

    def describe(self, *, besides: str = "") -> Fault | None:
        """Describe the failures for the status. besides: work to leave out."""
        works = tuple(sorted(work for work in self._failing if work != besides))
        return Fault(works=works, is_blocking=not BLOCKING.isdisjoint(works)) if works else None
