"""Lets the executor go as fast as the API server bears it: what came of each write goes to the limiter, and a hold ends by itself."""

from __future__ import annotations

from collections.abc import Callable

from hearth.engine.ports import Clock
from hearth.engine.writes import step_execution
from hearth.engine.writes.concurrency_limiter import ConcurrencyLimiter
from hearth.plan.retry.backoff import ServerResponse
from hearth.plan.state.steps import Apply, Step

DEFAULT_PAUSE = 1.0
"""Seconds to hold back where the server turned a write away and did not say for how long."""


class WriteThrottle:
    """The limiter of one API server, with the clock of this process."""

    def __init__(self, *, most: int, clock: Clock) -> None:
        """most: writes of children in flight, whatever the server bears."""
        self._limiter = ConcurrencyLimiter(most=most)
        self._clock = clock
        self._cancel: Callable[[], None] | None = None

    @property
    def limit(self) -> int:
        """Writes that may be in flight, apart from any hold."""
        return self._limiter.limit

    def find_limit(self) -> int:
        """Writes that may be in flight now."""
        return self._limiter.find_limit(self._clock.monotonic())

    def on_result(
        self, step: Step, result: step_execution.StepResult, *, begun: float, in_flight: int, wake: Callable[[], None]
    ) -> None:
        """What came of a step. begun: monotonic seconds; wake: is called when a hold that begins now has ended."""
        now = self._clock.monotonic()
        if isinstance(result, step_execution.StepDone):
            self._limiter.on_success(classify_write(step), begun=begun, now=now, in_flight=in_flight)
            return
        match result.server:
            case ServerResponse.ANSWERS:
                self._limiter.on_rejected(now=now)
            case ServerResponse.SILENT:
                self._limiter.on_no_answer(begun=begun)
            case ServerResponse.BUSY:
                self._limiter.on_throttled(
                    result.retry_after or DEFAULT_PAUSE, begun=begun, now=now, in_flight=in_flight
                )
                self._hold(wake)

    def _hold(self, wake: Callable[[], None]) -> None:
        """Begin again once nothing is held back; timers of some loops fire a moment early."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        hold = self._limiter.find_pause(self._clock.monotonic())
        if hold > 0:
            self._cancel = self._clock.call_later(hold, lambda: self._hold(wake))
        else:
            wake()


def classify_write(step: Step) -> tuple[object, ...]:
    """What takes about as long as other steps that give the same."""
    if isinstance(step, Apply):
        return Apply, step.uid is None, step.kind.group, step.kind.name
    return type(step), False, step.child.kind.group, step.child.kind.name
