"""Whether this process may work: alone, or because it won an election that runs in a thread and event loop of its own.

There renewals neither wait behind a long pass nor share the engine's connections; and a process that lost its lease ends
even where the engine's loop hangs. Must not know what the work is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from hearth import supervision
from hearth.kube.client.connection import Connection
from hearth.kube.leader_election.leader_elector import LeaderElectionConfig, LeaderElector
from hearth.model import errors

if TYPE_CHECKING:
    from hearth.kube.auth.credentials import CredentialSource
    from hearth.serve.metrics import Metrics
    from hearth.settings import Settings

RELEASE_TIMEOUT = 1.0
"""Seconds for giving the lease back; where that takes longer it runs out."""
JOIN_TIMEOUT = 1.5
FORCED_EXIT_CODE = 1


class Leadership(Protocol):
    """Whether to work."""

    acquired: asyncio.Event
    """This process is to work."""
    lost: asyncio.Event
    """It must stop at once."""
    reason: str
    """Why it was lost."""

    def start(self) -> None:
        """Stand for it; to be called in the loop that is to hear of it."""

    async def stop(self) -> None:
        """Give it back; the work must have ended."""

    def find_not_ready(self) -> Sequence[str]:
        """Why it cannot be said who works, a sentence each."""


class AlwaysLeader:
    """There is no other process."""

    def __init__(self) -> None:
        self.acquired = asyncio.Event()
        self.lost = asyncio.Event()
        self.reason = ""

    def start(self) -> None:
        """Won at once."""
        self.acquired.set()

    async def stop(self) -> None:
        """There is nothing to give back."""

    def find_not_ready(self) -> Sequence[str]:
        """That is always known."""
        return ()


class LeaseLeadership:
    """Stands for a Lease."""

    def __init__(
        self,
        source: CredentialSource,
        terms: LeaderElectionConfig,
        observer: Metrics,
        *,
        grace: float,
        end_by_force: Callable[[int], object] = os._exit,
    ) -> None:
        """grace: seconds after a loss in which the work must have ended; then the process is ended by force."""
        self.acquired = asyncio.Event()
        self.lost = asyncio.Event()
        self.reason = ""
        self._source = source
        self._terms = terms
        self._observer = observer
        self._grace = grace
        self._end_by_force = end_by_force
        self._loop: asyncio.AbstractEventLoop | None = None
        self._election: LeaderElector | None = None
        self._inner: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self) -> None:
        """Give the lease back and end; returns when that is done, or takes too long."""
        self._stopping.set()
        with self._lock:
            if self._inner is not None:
                loop, task = self._inner
                loop.call_soon_threadsafe(task.cancel)
        await asyncio.to_thread(self._thread.join, JOIN_TIMEOUT)

    def find_not_ready(self) -> Sequence[str]:
        """Why it cannot be said whose the lease is."""
        trouble = self._election.error if self._election is not None else "has not requested its lease yet"
        return [trouble] if trouble else []

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
        self.reason = reason
        end = threading.Timer(self._grace, self._end_by_force, args=(FORCED_EXIT_CODE,))
        end.daemon = True
        end.start()
        self._call(self.lost.set)

    async def _live(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- it runs as one
        with self._lock:
            if self._stopping.is_set():
                return
            self._inner = (asyncio.get_running_loop(), task)
        try:
            async with Connection(self._source) as connection:
                await self._stand(LeaderElector(connection, self._terms, observer=self._observer))
        finally:
            with self._lock:
                self._inner = None

    async def _stand(self, election: LeaderElector) -> None:
        self._election = election
        try:
            await election.acquire()
            self._call(self.acquired.set)
            await election.renew_forever()
        except asyncio.CancelledError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_TIMEOUT):
                    await election.release()
            raise

    def _call(self, action: Callable[[], None]) -> None:
        """Have the other loop do it, unless that has ended already."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)


def make_leadership(settings: Settings, source: CredentialSource, observer: Metrics, *, grace: float) -> Leadership:
    """What the settings ask for. grace: seconds that the end of the work may take."""
    if not settings.leader_election:
        return AlwaysLeader()
    spare = (settings.lease_duration - settings.renew_deadline).total_seconds()
    return LeaseLeadership(source, make_election_config(settings), observer, grace=min(grace, spare))


def make_election_config(settings: Settings) -> LeaderElectionConfig:
    """Under which this process stands, by a name that no other has."""
    return LeaderElectionConfig(
        name=settings.find_lease_name(),
        group=settings.find_lease_group(),
        share=settings.share,
        namespace=settings.operator_namespace,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        duration=settings.lease_duration.total_seconds(),
        deadline=settings.renew_deadline.total_seconds(),
        retry=settings.retry_period.total_seconds(),
    )
