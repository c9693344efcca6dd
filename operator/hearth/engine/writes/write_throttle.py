"""Adaptation of the executor to the API server: feeds results to the limiter and ends pauses by timer."""

from __future__ import annotations

from collections.abc import Callable

from hearth.engine.ports import Clock
from hearth.engine.writes import step_execution
from hearth.engine.writes.concurrency_limiter import ConcurrencyLimiter
from hearth.plan.retry.backoff import ServerResponse
from hearth.plan.state.steps import Apply, Step

DEFAULT_PAUSE = 1.0
"""Seconds to pause if the API server throttles a write without a stated delay."""


class WriteThrottle:
    """The concurrency limiter of one API server, bound to the clock of this process."""

    def __init__(self, *, most: int, clock: Clock) -> None:
        """most: maximum writes in flight, regardless of the API server's capacity."""
        self._limiter = ConcurrencyLimiter(most=most)
        self._clock = clock
        self._cancel: Callable[[], None] | None = None

    @property
    def limit(self) -> int:
        """Writes that may be in flight apart from any pause."""
        return self._limiter.limit

    def find_limit(self) -> int:
        """Return the writes that may be in flight now."""
        return self._limiter.find_limit(self._clock.monotonic())

    def on_result(
        self, step: Step, result: step_execution.StepResult, *, begun: float, in_flight: int, wake: Callable[[], None]
    ) -> None:
        """Record the result of a step. begun: monotonic seconds; wake: called at the end of a pause that starts now."""
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
        """Wake the executor at the end of the pause; some timers fire a moment early."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        hold = self._limiter.find_pause(self._clock.monotonic())
        if hold > 0:
            self._cancel = self._clock.call_later(hold, lambda: self._hold(wake))
        else:
            wake()


def classify_write(step: Step) -> tuple[object, ...]:
    """Return a key that is equal for steps of similar latency."""
    if isinstance(step, Apply):
        return Apply, step.uid is None, step.kind.group, step.kind.name
    return type(step), False, step.child.kind.group, step.child.kind.name
