"""One executor and one throttle per cluster, so that a slow cluster does not delay writes to others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from hearth import supervision
from hearth.engine.cluster_links import HOME
from hearth.engine.ports import Clock
from hearth.engine.writes import step_execution
from hearth.engine.writes.concurrency_limiter import ConcurrencyLimiter
from hearth.engine.writes.fair_executor import FairExecutor
from hearth.model import limits, value_class
from hearth.plan.retry.backoff import ServerResponse
from hearth.plan.state import steps
from hearth.plan.state.steps import Apply, Step

DEFAULT_PAUSE = 1.0
"""Seconds to pause if the API server throttles a write without specifying a delay."""


@value_class.dataclass(frozen=True, slots=True)
class WriteLane:
    """The writes in one cluster."""

    executor: FairExecutor
    throttle: WriteThrottle


class WriteLanes:
    """The lanes of all clusters in use. The home cluster always has one."""

    def __init__(
        self,
        *,
        concurrency: int,
        clock: Clock,
        take_step: Callable[[WriteLane, str, str], Awaitable[None]],
        on_start: Callable[[float], None],
        on_error: Callable[[str, str], None],
    ) -> None:
        """concurrency: maximum writes in flight in the home cluster; take_step: executes the step of a Stack's key."""
        self._clock = clock
        self._take_step = take_step
        self._on_start = on_start
        self._on_error = on_error
        self._concurrency = concurrency
        self._lanes: dict[str, WriteLane] = {HOME: self._make(concurrency)}
        self._unused: set[str] = set()
        """Lanes of clusters that no Stack used at the last check."""

    @property
    def home(self) -> WriteLane:
        """The lane of the home cluster."""
        return self._lanes[HOME]

    def start(self) -> None:
        """Start the lane of the home cluster; the others start with their first step."""
        self.home.executor.start()

    async def stop(self) -> None:
        """Stop at once."""
        lanes, self._lanes = self._lanes, {HOME: self.home}
        for lane in lanes.values():
            await lane.executor.stop()

    def enqueue(self, cluster: str, stack_uid: str, keys: Collection[str], *, namespace: str) -> None:
        """Enqueue keys of a Stack in that namespace whose objects are in that cluster."""
        lane = self._lanes.get(cluster)
        if lane is None:
            if not keys:
                return
            lane = self._lanes[cluster] = self._make(min(self._concurrency, limits.CLUSTER_WRITES))
            lane.executor.start()
        lane.executor.enqueue(stack_uid, keys, namespace=namespace)

    def retain(self, used: Collection[str]) -> None:
        """Stop the lanes of clusters that were unused at this call and the last one."""
        unused = {key for key in self._lanes if key != HOME and key not in used}
        for key in unused & self._unused:
            lane = self._lanes.pop(key)
            supervision.spawn("executor", lane.executor.stop, name="end of a lane of writes")
        self._unused = unused & self._lanes.keys()

    def list_all(self) -> list[WriteLane]:
        """Return all lanes."""
        return list(self._lanes.values())

    def _make(self, concurrency: int) -> WriteLane:
        throttle = WriteThrottle(most=concurrency, clock=self._clock)

        async def take_step(stack_uid: str, key: str) -> None:
            await self._take_step(lane, stack_uid, key)

        executor = FairExecutor(
            workers=concurrency,
            take_step=take_step,
            clock=self._clock,
            find_room=throttle.find_limit,
            on_start=self._on_start,
            on_error=self._on_error,
        )
        lane = WriteLane(executor, throttle)
        return lane


class WriteThrottle:
    """The concurrency limiter of one API server: gets the results of steps, and ends pauses by timer."""

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
                self._schedule_resume(wake)

    def _schedule_resume(self, wake: Callable[[], None]) -> None:
        """Wake the executor at the end of the pause; some timers fire a moment early."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        hold = self._limiter.find_pause(self._clock.monotonic())
        if hold > 0:
            self._cancel = self._clock.call_later(hold, lambda: self._schedule_resume(wake))
        else:
            wake()


def classify_write(step: Step) -> tuple[object, ...]:
    """Return a key that is equal for steps of similar latency."""
    if isinstance(step, Apply):
        return Apply, step.uid is None, step.kind.group, step.kind.name
    kind = steps.find_kind(step)
    return type(step), False, kind.group, kind.name
