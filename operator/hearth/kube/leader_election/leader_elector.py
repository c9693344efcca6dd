"""Leader election: only the process that holds and renews a Lease may work.

A candidate never compares clocks. A Lease expires if its holder does not renew it for its duration, counted from the
time when this candidate observed the last renewal. A watch reports changes, so a candidate acquires a released Lease at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from hearth.kube.client import api_requests
from hearth.kube.client.api_requests import ApiClient
from hearth.kube.leader_election import leases
from hearth.kube.leader_election.leases import Lease, LeaseClient, OverlappingLeases
from hearth.kube.watch.reflector import ClusterObserver, Reflector, WatchContext, WatchOptions
from hearth.model import errors, value_class
from hearth.model.sharding import WHOLE, Share
from hearth.model.well_known_kinds import LEASE, POD

if TYPE_CHECKING:
    from hearth.kube.client.connection import Connection
    from hearth.model.child import Object

log = structlog.get_logger(__name__)


class LeaseHeld(errors.HearthError):
    """Error of a process that takes no part in the election and finds an active leader of the same Stacks."""


class LeadershipLost(errors.HearthError):
    """Error of a process that lost the lease or cannot confirm it; the process must stop its work."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PodIdentity:
    """The Pod of this process."""

    namespace: str
    name: str
    uid: str

    @property
    def prefix(self) -> str:
        """The start of the identity of every process of this Pod."""
        return f"{self.name}_{self.uid}_"

    def refer(self) -> Object:
        """Return an owner reference."""
        return {"apiVersion": POD.api_version, "kind": POD.name, "name": self.name, "uid": self.uid}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionConfig:
    """Identity, shard and timing of a candidate; durations in seconds."""

    name: str
    """Name of the Lease."""
    namespace: str
    identity: str
    """Unique identity of this process."""
    pod: PodIdentity | None = None
    """The Pod of this process, if it is known."""
    group: str = "hearth"
    """Group of the processes that divide the same Stacks."""
    share: Share = WHOLE
    """The shard of this process."""
    served_namespace: str = ""
    """The only namespace whose Stacks it works on, "" for all."""
    duration: float = 15.0
    """How long other candidates respect a lease without renewal."""
    deadline: float = 10.0
    """Time after which a holder that could not renew the lease stops."""
    retry: float = 2.0
    """Time between two renewals, and between two attempts at one."""


class LeaderElector:
    """One candidate for one Lease: `acquire`, then `renew_forever`, finally `release`. Use in one event loop."""

    def __init__(
        self,
        connection: Connection,
        config: LeaderElectionConfig,
        *,
        observer: ClusterObserver | None = None,
        options: WatchOptions | None = None,
        now: Callable[[], float] = time.time,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Create the candidate. now: seconds since the epoch, only for display."""
        self.error = "has not read its lease yet"
        """Why the holder of the lease is unknown, or empty if it is known."""
        self._config = config
        self._now = now
        self._uniform = uniform
        sender = ApiClient(connection, observer)
        self._client = LeaseClient(
            sender,
            namespace=config.namespace,
            name=config.name,
            labels=leases.make_labels(config.group, config.share, namespace=config.served_namespace),
            timeout=config.deadline / 2,
            owners=[config.pod.refer()] if config.pod is not None and config.pod.namespace == config.namespace else [],
        )
        self._overlapping = OverlappingLeases(
            sender, namespace=config.namespace, group=config.group, share=config.share
        )
        server = WatchContext(connection=connection, options=options or WatchOptions(), observer=observer)
        path = api_requests.collection_path(LEASE, config.namespace)
        selector = {"fieldSelector": f"metadata.name={config.name}"}
        self._watch = Reflector(server, path, self, name=LEASE.key, selector=selector)
        self._lease: Lease | None = None
        self._heard_at = 0.0
        self._is_stale = True
        self._is_shown = False
        self._changed = asyncio.Event()
        self._held_at: float | None = None

    async def acquire(self) -> None:
        """Wait without a limit until this process acquires the lease."""
        try:
            while not await self._try_take():
                await self._wait_chance()
        finally:
            await self._watch.close()

    async def renew_forever(self, check: Callable[[], None] = lambda: None) -> None:
        """Renew until cancelled. Raises `LeadershipLost`.

        check: called before each renewal; raises `LeadershipLost` if the work that the lease protects has stalled.
        """
        while True:
            await asyncio.sleep(self._config.retry)
            check()
            await self._renew()

    async def release(self) -> None:
        """Release the lease, so that other candidates need not wait. If that fails, the lease expires."""
        if self._held_at is None:
            return
        self._held_at = None
        try:
            await self._change({"holderIdentity": None, "renewTime": self._stamp()})
        except (LeadershipLost, errors.ApiStatusError, errors.Unreachable) as error:
            log.info("failed to release lease", lease=self._config.name, reason=str(error))

    # ---- candidate

    async def _try_take(self) -> bool:
        """Acquire the lease if it is free; return whether this process holds it."""
        try:
            is_ours = await self._acquire_lease()
        except (errors.ApiStatusError, errors.Unreachable) as error:
            self.error = f"cannot read lease/{self._config.name} in namespace {self._config.namespace}: {error}"
            log.warning("cannot acquire lease; retrying", reason=self.error)
            self._is_stale = True
            await asyncio.sleep(self._config.retry)
            return False
        self.error = ""
        return is_ours

    async def _acquire_lease(self) -> bool:
        if self._is_stale:
            self._record_lease(await self._client.find())
            self._is_stale = False
        if not self._is_free() or await self._yield_to_rival():
            return False
        begun = asyncio.get_running_loop().time()
        taken = await self._make()
        if taken is None:
            # Another process acquired or renewed the lease without this one noticing. Read it before anything else.
            self._is_stale = True
            return False
        self._lease, self._held_at = taken, begun
        # Check again: another process that checked at the same moment did not see this one either.
        if await self._yield_to_rival():
            return False
        log.info("acquired lease", lease=self._config.name, namespace=self._config.namespace)
        return True

    async def _yield_to_rival(self) -> bool:
        """Release the lease and pause if a process with another shard count has an overlapping shard.

        Returns whether that is the case.
        """
        found = await self._overlapping.find()
        if not found:
            return False
        log.info("waiting for leases of the previous shard count", lease=self._config.name, rival=found)
        await self.release()
        self._is_stale = True
        await asyncio.sleep(self._config.retry * self._uniform(0.5, 1.5))
        return True

    async def _make(self) -> Lease | None:
        """Write this process as the holder; return None if the lease is not in the observed state."""
        stamp = self._stamp()
        spec: Object = {
            "holderIdentity": self._config.identity,
            "leaseDurationSeconds": math.ceil(self._config.duration),
            "acquireTime": stamp,
            "renewTime": stamp,
        }
        if self._lease is None:
            return await self._client.create({**spec, "leaseTransitions": 0})
        return await self._client.change(self._lease, {**spec, "leaseTransitions": self._lease.transitions + 1})

    def _is_free(self) -> bool:
        # The lease names this process if it was acquired but the response was lost.
        if self._lease is None or self._lease.holder in ("", self._config.identity):
            return True
        # A container starts only after the previous one in the same Pod has ended.
        if self._config.pod is not None and self._lease.holder.startswith(self._config.pod.prefix):
            return True
        return asyncio.get_running_loop().time() >= self._heard_at + self._lease.seconds

    async def _wait_chance(self) -> None:
        """Wait until the lease may be free; start its watch."""
        if self._is_stale or self._is_free():
            return
        if not self._watch.is_running:
            log.info(
                "lease held by another process; standing by",
                lease=self._config.name,
                holder=self._lease.holder if self._lease else "",
            )
            self._watch.start()
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._heard_at + (self._lease.seconds if self._lease else 0.0)):
                await self._changed.wait()

    def _record_lease(self, lease: Lease | None) -> None:
        """Record the current lease; only another version of it proves that its holder is active."""
        if lease is None or self._lease is None or lease.version != self._lease.version:
            self._heard_at = asyncio.get_running_loop().time()
        self._lease = lease
        self._changed.set()

    # ---- events of the watch

    def on_list_started(self) -> None:
        """Start a full set."""
        self._is_shown = False

    def on_object(self, raw: Object) -> None:
        """Handle the lease in this state."""
        self._is_shown = True
        self._record_lease(leases.parse_lease(raw))

    def on_deleted(self, raw: Object) -> None:  # noqa: ARG002 -- only one lease is watched
        """Handle the deletion of the lease."""
        self._record_lease(None)

    def on_synced(self, version: int | None) -> None:  # noqa: ARG002 -- each change contains the version of the lease itself
        """Complete the full set."""
        if not self._is_shown:
            self._record_lease(None)

    # ---- holder

    async def _renew(self) -> None:
        """Renew with repeated attempts within the deadline, which counts from the last successful renewal."""
        loop = asyncio.get_running_loop()
        assert self._held_at is not None  # noqa: S101 -- only the holder renews
        reason = "the process was suspended or overloaded"
        try:
            async with asyncio.timeout_at(self._held_at + self._config.deadline):
                while True:
                    begun = loop.time()
                    try:
                        await self._change({"renewTime": self._stamp()})
                    except (errors.ApiStatusError, errors.Unreachable) as error:
                        reason = str(error)
                        log.warning("cannot renew lease; retrying", lease=self._config.name, reason=reason)
                        await asyncio.sleep(self._config.retry)
                    else:
                        self._held_at = begun
                        return
        except TimeoutError as error:
            raise LeadershipLost(
                f"lease/{self._config.name} could not be renewed for {self._config.deadline:g} s: {reason}"
            ) from error

    async def _change(self, spec: Object) -> None:
        """Change the lease despite changes by others, as long as this process holds it.

        Raises `LeadershipLost`, `ApiStatusError`, `Unreachable`.
        """
        while True:
            changed = await self._client.change(self._lease, spec) if self._lease is not None else None
            if changed is None:
                # A response may have been lost, or another client changed the lease.
                await self._refresh_lease()
                continue
            self._lease = changed
            return

    async def _refresh_lease(self) -> None:
        found = await self._client.find()
        if found is None or not found.holder:
            # The lease was deleted or cleared by hand, so it has no holder. This process acquires it unless another one
            # is faster.
            self._lease = found
            found = await self._make() or await self._client.find()
        if found is None or found.holder != self._config.identity:
            holder = found.holder if found is not None else ""
            raise LeadershipLost(f"lease/{self._config.name} is now held by {holder or 'no process'}")
        self._lease = found

    def _stamp(self) -> str:
        """Return the time in the format of Leases, with microseconds."""
        return datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
