"""One executor and one throttle for each cluster, so that a slow one delays no writes in another.

Must not know steps: the caller executes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from hearth import supervision
from hearth.engine.clusters.cluster_links import HOME
from hearth.engine.ports import Clock
from hearth.engine.writes.fair_executor import FairExecutor
from hearth.engine.writes.write_throttle import WriteThrottle
from hearth.model import limits, value_class


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
        """Lanes of clusters that no Stack used at the last look."""

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
