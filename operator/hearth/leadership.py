"""Decides whether this process may work: as the only process, or as the leader of an election.

The election runs in its own thread and event loop. Its renewals therefore do not wait for a long reconcile or for the
engine's connections, and a process that lost its Lease exits even if the engine's loop hangs. If the engine's loop
hangs, the leader stops renewing, so another process takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import structlog

from hearth import supervision
from hearth.kube.client.api_requests import ApiClient
from hearth.kube.client.connection import Connection
from hearth.kube.leader_election import leader_elector
from hearth.kube.leader_election.active_leader import ActiveLeader, Presence, Scope
from hearth.kube.leader_election.leader_elector import LeaderElectionConfig, LeaderElector, PodIdentity
from hearth.model import errors

if TYPE_CHECKING:
    from hearth.kube.auth.credentials import CredentialSource
    from hearth.serve.metrics import Metrics
    from hearth.settings import Settings

log = structlog.get_logger(__name__)

RELEASE_TIMEOUT = 1.0
"""Seconds to release the lease. If that takes longer, the lease expires instead."""
JOIN_TIMEOUT = 1.5
BEATS = 5
"""Heartbeats of the engine's loop within the duration of a lease. Each costs a quarter of a millisecond."""
FORCED_EXIT_CODE = 1


class Leadership(Protocol):
    """Whether this process may work."""

    acquired: asyncio.Event
    """Set when this process may work."""
    lost: asyncio.Event
    """Set when this process must stop at once."""

    def explain_loss(self) -> errors.HearthError:
        """Return the reason why the process must stop or is not allowed to start."""

    def start(self) -> None:
        """Start the election. Call it in the loop that receives the result."""

    async def stop(self) -> None:
        """Give up the leadership. Call it after the work has ended."""

    def find_not_ready(self) -> Sequence[str]:
        """Return the reasons why the leader is unknown, a sentence each."""


class AlwaysLeader:
    """Takes no part in an election, and leaves the work to an active leader, or to a process like this that came first."""

    def __init__(
        self,
        find_leader: Callable[[], Awaitable[str]] | None,
        *,
        find_other: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """find_leader: describes the active leader, or returns ""; None disables the search. find_other: runs while
        this process works, and describes another active process without an election.
        """
        self.acquired = asyncio.Event()
        self.lost = asyncio.Event()
        self._find_leader = find_leader
        self._find_other = find_other
        self._leader = ""
        self._search: asyncio.Task[None] | None = None

    def explain_loss(self) -> errors.HearthError:
        """Explain which process leads, and what to do next."""
        return leader_elector.LeaseHeld(
            f"{self._leader}, which manages the same Stacks; set --leader-election to wait until it ends, or "
            f"--ignore-leader to start anyway, although both then undo each other's work"
        )

    def start(self) -> None:
        """Look for a leader, or work at once."""
        if self._find_leader is None:
            self.acquired.set()
        else:
            self._search = supervision.spawn_until_done(
                "leader search", functools.partial(self._check_leader, self._find_leader)
            )

    async def stop(self) -> None:
        """Do nothing: there is no lease to release."""
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)

    def find_not_ready(self) -> Sequence[str]:
        """Report the search for another leader while it continues."""
        return [] if self.acquired.is_set() else ["checks whether another operator leads the same Stacks"]

    async def _check_leader(self, find_leader: Callable[[], Awaitable[str]]) -> None:
        if not self.acquired.is_set():
            self._leader = await find_leader()
        if not self._leader:
            self.acquired.set()
            self._leader = await self._find_other() if self._find_other is not None else ""
        if self._leader:
            self.lost.set()


class LeaseLeadership:
    """Takes part in the election for a Lease."""

    def __init__(
        self,
        source: CredentialSource,
        config: LeaderElectionConfig,
        metrics: Metrics,
        *,
        grace: float,
        end_by_force: Callable[[int], object] = os._exit,
    ) -> None:
        """grace: seconds after a loss until the work must have ended; then the process is ended by force."""
        self.acquired = asyncio.Event()
        self.lost = asyncio.Event()
        self._reason = ""
        self._source = source
        self._config = config
        self._metrics = metrics
        self._grace = grace
        self._end_by_force = end_by_force
        self._loop: asyncio.AbstractEventLoop | None = None
        self._election: LeaderElector | None = None
        self._inner: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._beating: asyncio.Task[None] | None = None
        self._alive_at = 0.0
        """Monotonic time in seconds of the last heartbeat of the engine's loop."""
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    def start(self) -> None:
        """Start the election in a separate thread."""
        self._loop = asyncio.get_running_loop()
        self._alive_at = time.monotonic()
        self._beating = supervision.spawn_forever("lease_beat", self._beat)
        self._thread.start()

    async def stop(self) -> None:
        """Release the lease and stop. Returns when that is done or takes too long."""
        self._stopping.set()
        if self._beating is not None:
            self._beating.cancel()
        with self._lock:
            if self._inner is not None:
                loop, task = self._inner
                loop.call_soon_threadsafe(task.cancel)
        await asyncio.to_thread(self._thread.join, JOIN_TIMEOUT)

    def explain_loss(self) -> errors.HearthError:
        """Return the reason for the loss of the lease."""
        return leader_elector.LeadershipLost(self._reason)

    def find_not_ready(self) -> Sequence[str]:
        """Return the reason why the holder of the lease is unknown."""
        trouble = self._election.error if self._election is not None else "has not requested its lease yet"
        return [trouble] if trouble else []

    async def _beat(self) -> None:
        """Show the election's thread that the engine's loop is alive."""
        while True:
            self._alive_at = time.monotonic()
            await asyncio.sleep(self._config.duration / BEATS)

    def _check_engine(self) -> None:
        """Raise `LeadershipLost` if the engine's loop hangs, because it does the work that the lease is for."""
        silent = time.monotonic() - self._alive_at
        if silent > self._config.duration and not self._stopping.is_set():
            raise leader_elector.LeadershipLost(
                f"the operator has not worked for {silent:.0f} s, because its event loop hangs; another process takes over "
                f"lease/{self._config.name}"
            )

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except asyncio.CancelledError:
            return
        except errors.HearthError as error:
            self._lose(str(error))
        except Exception as error:  # noqa: BLE001 -- a thread ends here; it is reported
            supervision.report("election", error)
            self._lose(f"leader election ended with an internal error: {supervision.name_type(error)}")

    def _lose(self, reason: str) -> None:
        """Stop the work, by force if necessary: another process may start it soon."""
        if self._stopping.is_set():
            return
        self._reason = reason
        # Log it here too, because an event loop that hangs logs nothing.
        log.warning("lease lost", reason=reason)
        end = threading.Timer(self._grace, self._end_by_force, args=(FORCED_EXIT_CODE,))
        end.daemon = True
        end.start()
        self._call(self.lost.set)

    async def _live(self) -> None:
        asyncio.get_running_loop().set_exception_handler(supervision.handle_loop_error)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- it runs as one
        with self._lock:
            if self._stopping.is_set():
                return
            self._inner = (asyncio.get_running_loop(), task)
        try:
            async with Connection(self._source) as connection:
                await self._run_election(LeaderElector(connection, self._config, observer=self._metrics))
        finally:
            with self._lock:
                self._inner = None

    async def _run_election(self, election: LeaderElector) -> None:
        self._election = election
        try:
            await election.acquire()
            self._call(self.acquired.set)
            await election.renew_forever(self._check_engine)
        except asyncio.CancelledError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_TIMEOUT):
                    await election.release()
            raise

    def _call(self, action: Callable[[], None]) -> None:
        """Call the action in the engine's loop, unless that loop is closed."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)


def make_leadership(settings: Settings, source: CredentialSource, metrics: Metrics, *, grace: float) -> Leadership:
    """Make the leadership that the settings require. grace: seconds that the end of the work may take."""
    if not settings.leader_election:
        if settings.ignore_leader:
            return AlwaysLeader(None)
        return AlwaysLeader(
            lambda: find_leader(settings, source, metrics), find_other=lambda: find_other(settings, source)
        )
    spare = (settings.lease_duration - settings.renew_deadline).total_seconds()
    return LeaseLeadership(source, make_election_config(settings), metrics, grace=min(grace, spare))


async def find_leader(settings: Settings, source: CredentialSource, metrics: Metrics) -> str:
    """Return a description of the active leader of the Stacks that the settings specify, or ""."""
    scope = Scope(share=settings.share, namespace=settings.namespace or "")
    async with Connection(source) as connection:
        sender = ApiClient(connection, metrics)
        return await ActiveLeader(sender, settings.operator_namespace, scope).find()


async def find_other(settings: Settings, source: CredentialSource) -> str:
    """Show that this process works without an election; describe another one that does, once it is seen."""
    scope = Scope(share=settings.share, namespace=settings.namespace or "")
    config = make_election_config(settings)
    async with Connection(source) as connection:
        presence = Presence(
            ApiClient(connection, None), config.namespace, f"{config.name}-alone", config.identity, scope
        )
        return await presence.hold()


def find_pod(environ: Mapping[str, str]) -> PodIdentity | None:
    """Return the Pod of this process, from the environment that the shipped manifests set."""
    namespace, name, uid = (environ.get(f"HEARTH_POD_{field}", "") for field in ("NAMESPACE", "NAME", "UID"))
    return PodIdentity(namespace=namespace, name=name, uid=uid) if namespace and name and uid else None


def make_election_config(settings: Settings, environ: Mapping[str, str] = os.environ) -> LeaderElectionConfig:
    """Return the configuration of the election, with a unique identity of this process."""
    pod = find_pod(environ)
    prefix = f"{socket.gethostname()}_" if pod is None else pod.prefix
    return LeaderElectionConfig(
        name=settings.find_lease_name(),
        group=settings.find_lease_group(),
        share=settings.share,
        served_namespace=settings.namespace or "",
        namespace=settings.operator_namespace,
        identity=f"{prefix}{uuid.uuid4()}",
        pod=pod,
        duration=settings.lease_duration.total_seconds(),
        deadline=settings.renew_deadline.total_seconds(),
        retry=settings.retry_period.total_seconds(),
    )
