"""A story's world on a real API server, with the operator in this process or in a separate one.

Each world has its own namespace, so that many stories share one control plane.
"""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Collection
from typing import Protocol

from hearth.engine.stack_controller import StackController
from hearth.kube.auth.credentials import CredentialSource
from hearth.model.tenancy import Mode
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.runtime import KubeRuntime
from hearth.settings import Settings
from support.ports.recorded_ports import (
    RecordedManagementCluster,
    RecordedMarks,
    RecordedSnapshots,
    RecordedWorkloadCluster,
)
from support.ports.silent_ports import SilentObserver
from support.real import real_user
from support.real.real_user import RealUser
from support.server.request_faults import Traffic
from support.stories import probe_controller
from support.stories.world import Check, find_nothing

POLL = 0.05
"""Seconds between checks for states that may be brief."""
UNHURRIED_POLL = 0.3
"""Seconds between checks for states that last."""
QUIET = 1.6
"""Seconds without a change after which the world is at rest; longer than the delay of status writes."""
TIMEOUT = 60.0
"""Maximum seconds for anything that a story waits for, on a machine that is busy with other tests."""
LONGEST_PAUSE = 1.0
"""Upper limit of waits, because real time cannot be skipped."""
MAX_BACKOFF = datetime.timedelta(seconds=2)
READY_TIMEOUT = 120.0
"""Maximum seconds from the start of an operator until it converges; about two on an idle machine."""


class Operator(Protocol):
    async def start(self) -> None:
        """Start the operator; returns when it converges."""

    async def kill(self) -> None:
        """End at once."""


class RecordedMachine(KubeRuntime):
    """The operator's runtime, with requests counted, and refused if a test plans it."""

    def __init__(self, settings: Settings, source: CredentialSource, log: Traffic) -> None:
        super().__init__(settings, source, SilentObserver())
        self._log = log

    def _build(self, hasher: KeyedHasher) -> StackController:
        recorded = RecordedManagementCluster(self._management_cluster, self._log)
        self._management_cluster = recorded  # type: ignore[assignment]  # the same port around the same client
        self._cluster = RecordedWorkloadCluster(self._cluster, self._log)  # type: ignore[assignment]  # as above
        self._health_marks = RecordedMarks(self._health_marks, self._log)  # type: ignore[assignment]  # as above
        self._snapshots = RecordedSnapshots(self._snapshots, self._log)  # type: ignore[assignment]  # as above
        return super()._build(hasher)


def make_settings(namespace: str, tenancy: Mode = Mode.ISOLATED) -> Settings:
    """The settings of an operator that serves one namespace and retries within seconds."""
    return Settings(namespace=namespace, operator_namespace=namespace, tenancy=tenancy, max_backoff=MAX_BACKOFF)


class InProcess:
    """An operator that is part of the test's own process."""

    def __init__(self, machine: KubeRuntime) -> None:
        self._machine = machine

    async def start(self) -> None:
        """As the protocol says."""
        await self._machine.start()
        latest = time.monotonic() + READY_TIMEOUT
        while waits := self._machine.find_not_ready():
            assert time.monotonic() < latest, f"the operator is not ready: {waits}"
            await asyncio.sleep(POLL)

    async def kill(self) -> None:
        """As the protocol says."""
        await self._machine.stop()

    def on_kinds(self) -> None:
        """A CustomResourceDefinition changed, as the handlers report it."""
        self._machine.on_kinds()

    def count_reconcilers(self) -> int:
        """How many Stacks are in memory."""
        engine = self._machine._controller
        return len(engine._reconcilers) if engine is not None else 0


class RealWorld:
    """The protocol `World`."""

    has_virtual_time = False
    timeout = TIMEOUT
    """Maximum seconds for anything that a story waits for."""

    def __init__(self, user: RealUser, source: CredentialSource) -> None:
        self.namespace = user.namespace
        self.tenancy = Mode.ISOLATED
        self.traffic = Traffic()
        self.user = user
        self._source = source
        self._operator: Operator | None = None
        self._player = probe_controller.Player(user, now=lambda: datetime.datetime.now(tz=datetime.UTC))
        self._watching: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Start to simulate probes."""
        self.follow_probes({"Probe"})

    def follow_probes(self, kinds: Collection[str]) -> None:
        """Simulate the probes of these kinds; kinds that are not served yet are requested repeatedly."""
        for kind in real_user.PROBES:
            if kind.name in kinds:
                self._watching.append(asyncio.create_task(self.user.show_probes(kind, self._player)))

    async def close(self) -> None:
        """Stop everything that this world started."""
        await self.kill_controller()
        self._player.stop()
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    # ------------------------------------------------------------ the operator

    def make_operator(self) -> Operator:
        """The next life of the operator."""
        return InProcess(RecordedMachine(make_settings(self.namespace, self.tenancy), self._source, self.traffic))

    async def start_controller(self) -> None:
        """As the protocol says."""
        self._operator = self.make_operator()
        await self._operator.start()

    async def kill_controller(self) -> None:
        """As the protocol says."""
        if self._operator is not None:
            await self._operator.kill()
            self._operator = None

    def on_kinds(self) -> None:
        """Report to an operator in this process that a CustomResourceDefinition changed; its handlers do not run here."""
        assert isinstance(self._operator, InProcess)
        self._operator.on_kinds()

    def count_reconcilers(self) -> int:
        """How many Stacks an operator in this process has in memory."""
        assert isinstance(self._operator, InProcess)
        return self._operator.count_reconcilers()

    # ------------------------------------------------------------ other clusters

    async def add_cluster(self, name: str) -> None:
        """Not supported: tests with other clusters on real servers are in `integration/clusters`."""
        raise NotImplementedError(f"the cluster {name} is there on the fake cluster alone; say so by `only: [fake]`")

    def set_away(self, cluster: str, *, is_away: bool) -> None:
        raise NotImplementedError(f"the cluster {cluster} is there on the fake cluster alone; say so by `only: [fake]`")

    # ------------------------------------------------------------ events

    def hold_events(self, kind: str) -> None:
        """This is not possible on a real server."""
        raise NotImplementedError(
            f"the events of {kind} can be held on the fake cluster alone; say so by `only: [fake]`"
        )

    def release_events(self, kind: str) -> None:
        raise NotImplementedError(
            f"the events of {kind} can be held on the fake cluster alone; say so by `only: [fake]`"
        )

    # ------------------------------------------------------------ time

    def now(self) -> float:
        """As the protocol says."""
        return time.time()

    async def wait(self, seconds: float) -> None:
        """See the protocol; waits only for a part of the time."""
        await asyncio.sleep(min(seconds, LONGEST_PAUSE))

    async def wait_until(self, check: Check) -> list[str]:
        """As the protocol says."""
        return await self._wait(check, pause=POLL)

    async def _wait(self, check: Check, *, pause: float) -> list[str]:
        latest = time.monotonic() + self.timeout
        while (wrong := await check()) and time.monotonic() < latest:  # noqa: ASYNC110 -- the server has no event for it
            await asyncio.sleep(pause)
        return wrong

    async def wait_rest(self, check: Check = find_nothing, *, patience: float = 0.0) -> list[str]:
        """See the protocol; waits of minutes are limited to the longest backoff."""
        latest = time.monotonic() + self.timeout
        while True:
            wrong = await self._wait(check, pause=UNHURRIED_POLL)
            before = self.traffic.settled
            await asyncio.sleep(QUIET)
            wrong = await check()
            is_quiet = self.traffic.settled == before
            if (not wrong and is_quiet) or time.monotonic() > latest:
                return wrong
