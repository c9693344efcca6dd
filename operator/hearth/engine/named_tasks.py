"""Tasks of one owner, at most one per name at a time, and the internal errors in the work for one Stack until it succeeds.

Must not know what the work is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container

from hearth import supervision
from hearth.engine.services import Services
from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.model import value_class
from hearth.plan.state.internal_errors import Fault

PASS, ACCEPT, STATUS, PART = "pass", "accept", "status", "part"
SHOWN_FOR = 2.0
"""Seconds after a retry for which the status still reports its error. The status is written at most once a second."""
SETTLED_AFTER = SHOWN_FOR + 0.1
"""Seconds after a retry at which to settle its error: timers may fire a moment early."""
LASTING = frozenset({ACCEPT, STATUS})
"""Work that is requested until it succeeds."""
BLOCKING = frozenset({PASS, ACCEPT, STATUS, PART, "step", "broadcast"})
"""Work that blocks the Stack when it fails. Failures of other work set only their own condition."""


class NamedTasks:
    """Background actions beside the reconciles. Reports each unexpected exception of an action."""

    def __init__(
        self, on_error: Callable[[str, BaseException], None], on_success: Callable[[str], object] = lambda _name: None
    ) -> None:
        """on_error: called with the action's name and its exception; on_success: called with its name."""
        self._on_error = on_error
        self._on_success = on_success
        self._running: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, name: object) -> bool:
        """Return whether the action of that name is running."""
        running = self._running.get(name) if isinstance(name, str) else None
        return running is not None and not running.done()

    @property
    def has_any(self) -> bool:
        """Whether any action is running."""
        return bool(self._running)

    def is_any_running(self, prefix: str) -> bool:
        """Return whether an action whose name begins like this is running."""
        return any(name.startswith(prefix) and not task.done() for name, task in self._running.items())

    def run(self, name: str, work: supervision.Work) -> None:
        """Start `work` unless an action of that name is running."""
        running = self._running.get(name)
        # A finished task may still be registered. It must not swallow this new request.
        if running is None or running.done():
            task = supervision.spawn(
                "task",
                lambda: self._act(name, work),
                name=name,
                on_error=lambda error: self._on_error(name, error),
            )
            self._running[name] = task
            task.add_done_callback(lambda ended: self._end(name, ended))

    async def _act(self, name: str, work: supervision.Work) -> None:
        await work()
        self._on_success(name)

    async def wait(self) -> None:
        """Wait until no action runs, including those that start meanwhile."""
        while self._running:
            await asyncio.wait(list(self._running.values()))
            # The callbacks of a finished task run after those who wait for it.
            await asyncio.sleep(0)

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._running.values():
            task.cancel()

    def _end(self, name: str, task: asyncio.Task[None]) -> None:
        if self._running.get(name) is task:
            del self._running[name]


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
        """Return the monotonic time in seconds of the next retry; 0 if the work did not fail."""
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
