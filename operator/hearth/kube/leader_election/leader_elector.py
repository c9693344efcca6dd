"""Which of several processes works: the one that holds a Lease, and goes on renewing it.

A candidate never compares clocks: a lease has run out when its holder has not renewed it for as long as the lease says,
counted since this candidate saw the last renewal. It hears of renewals by a watch, so that a lease that is given back is
taken at once. Must not know what the work is.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from hearth.kube.client import api_requests
from hearth.kube.client.api_client import ApiClient
from hearth.kube.leader_election import overlapping_leases
from hearth.kube.leader_election.overlapping_leases import OverlappingLeases
from hearth.kube.objects import lease as lease_module
from hearth.kube.objects.lease import Lease, LeaseClient
from hearth.kube.watch.reflector import Reflector, WatchContext, WatchOptions
from hearth.kube.well_known_kinds import LEASE
from hearth.model import errors
from hearth.model.sharding import WHOLE, Share

if TYPE_CHECKING:
    from hearth.engine.ports import Observer
    from hearth.kube.client.connection import Connection
    from hearth.model.child import Object

log = structlog.get_logger(__name__)


class LeadershipLost(errors.HearthError):
    """This process no longer holds the lease, or cannot say so: it must not work any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionConfig:
    """Who stands for what, and how patiently; durations in seconds."""

    name: str
    """Of the Lease."""
    namespace: str
    identity: str
    """Of this process; no two are alike."""
    group: str = "hearth"
    """Of those who divide the same Stacks."""
    share: Share = WHOLE
    """What this process is to work on."""
    duration: float = 15.0
    """For which others leave a lease alone that is not renewed."""
    deadline: float = 10.0
    """After which a holder that could not renew gives up."""
    retry: float = 2.0
    """Between two renewals, and two attempts at one."""


class LeaderElector:
    """One candidate for one Lease: `win` it, then `hold` it, and `release` it in the end. In one event loop."""

    def __init__(
        self,
        connection: Connection,
        terms: LeaderElectionConfig,
        *,
        observer: Observer | None = None,
        rules: WatchOptions | None = None,
        now: Callable[[], float] = time.time,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """now: seconds since the epoch; only shown to people."""
        self.error = "has not looked at its lease yet"
        """Why it cannot be said whose the lease is; empty where it can."""
        self._terms = terms
        self._now = now
        self._uniform = uniform
        sender = ApiClient(connection, observer)
        self._client = LeaseClient(
            sender,
            namespace=terms.namespace,
            name=terms.name,
            labels=overlapping_leases.make_labels(terms.group, terms.share),
            patience=terms.deadline / 2,
        )
        self._rivals = OverlappingLeases(sender, namespace=terms.namespace, group=terms.group, share=terms.share)
        server = WatchContext(connection=connection, rules=rules or WatchOptions(), observer=observer)
        path = api_requests.collection_path(LEASE, terms.namespace)
        selector = {"fieldSelector": f"metadata.name={terms.name}"}
        self._watch = Reflector(server, path, self, name=LEASE.key, selector=selector)
        self._lease: Lease | None = None
        self._heard_at = 0.0
        self._is_stale = True
        self._is_shown = False
        self._changed = asyncio.Event()
        self._held_at: float | None = None

    async def acquire(self) -> None:
        """Returns once the lease is ours; however long that takes."""
        try:
            while not await self._try_take():
                await self._wait_chance()
        finally:
            await self._watch.close()

    async def renew_forever(self) -> None:
        """Renew until cancelled. Raises `LostLease`."""
        while True:
            await asyncio.sleep(self._terms.retry)
            await self._renew()

    async def release(self) -> None:
        """Give the lease back, so that somebody else need not wait; where that fails it runs out."""
        if self._held_at is None:
            return
        self._held_at = None
        try:
            await self._change({"holderIdentity": None, "renewTime": self._stamp()})
        except (LeadershipLost, errors.ApiStatusError, errors.Unreachable) as error:
            log.info("lease not given back", lease=self._terms.name, reason=str(error))

    # ---- being a candidate

    async def _try_take(self) -> bool:
        """Take the lease where it is free; whether it is ours now."""
        try:
            is_ours = await self._take()
        except (errors.ApiStatusError, errors.Unreachable) as error:
            self.error = f"cannot look at lease/{self._terms.name} in namespace {self._terms.namespace}: {error}"
            log.warning("cannot stand for the lease; it is tried again", reason=self.error)
            self._is_stale = True
            await asyncio.sleep(self._terms.retry)
            return False
        self.error = ""
        return is_ours

    async def _take(self) -> bool:
        if self._is_stale:
            self._hear(await self._client.find())
            self._is_stale = False
        if not self._is_free() or await self._yield_to_rival():
            return False
        begun = asyncio.get_running_loop().time()
        taken = await self._make()
        if taken is None:
            # Somebody was quicker, or renewed it unheard by us: look, before anything else.
            self._is_stale = True
            return False
        self._lease, self._held_at = taken, begun
        # Once more: a rival that looked at the same moment has seen nothing of us either.
        if await self._yield_to_rival():
            return False
        log.info("holds the lease", lease=self._terms.name, namespace=self._terms.namespace)
        return True

    async def _yield_to_rival(self) -> bool:
        """Whether somebody works on Stacks of this share under another division of them; after a pause then."""
        found = await self._rivals.find()
        if not found:
            return False
        log.info("stands by until the old division has ended", lease=self._terms.name, rival=found)
        await self.release()
        self._is_stale = True
        await asyncio.sleep(self._terms.retry * self._uniform(0.5, 1.5))
        return True

    async def _make(self) -> Lease | None:
        """The lease as ours; None where it is not as it was seen."""
        stamp = self._stamp()
        spec: Object = {
            "holderIdentity": self._terms.identity,
            "leaseDurationSeconds": math.ceil(self._terms.duration),
            "acquireTime": stamp,
            "renewTime": stamp,
        }
        if self._lease is None:
            return await self._client.create({**spec, "leaseTransitions": 0})
        return await self._client.change(self._lease, {**spec, "leaseTransitions": self._lease.transitions + 1})

    def _is_free(self) -> bool:
        if self._lease is None or not self._lease.holder:
            return True
        return asyncio.get_running_loop().time() >= self._heard_at + self._lease.seconds

    async def _wait_chance(self) -> None:
        """Until the lease may be free; begins to follow it."""
        if self._is_stale or self._is_free():
            return
        if not self._watch.is_running:
            log.info("stands by", lease=self._terms.name, holder=self._lease.holder if self._lease else "")
            self._watch.start()
        self._changed.clear()
        try:
            async with asyncio.timeout_at(self._heard_at + (self._lease.seconds if self._lease else 0.0)):
                await self._changed.wait()
        except TimeoutError:
            return

    def _hear(self, lease: Lease | None) -> None:
        """This is the lease now; only another state of it is a sign of its holder."""
        if lease is None or self._lease is None or lease.version != self._lease.version:
            self._heard_at = asyncio.get_running_loop().time()
        self._lease = lease
        self._changed.set()

    # ---- what the watch tells

    def on_list_started(self) -> None:
        """A full set begins."""
        self._is_shown = False

    def on_object(self, raw: Object) -> None:
        """The lease, in this state."""
        self._is_shown = True
        self._hear(lease_module.parse_lease(raw))

    def on_deleted(self, raw: Object) -> None:  # noqa: ARG002 -- there is only one that is watched
        """Somebody deleted the lease."""
        self._hear(None)

    def on_synced(self, version: int | None) -> None:  # noqa: ARG002 -- each change states the version of the lease itself
        """The full set is complete."""
        if not self._is_shown:
            self._hear(None)

    # ---- being the holder

    async def _renew(self) -> None:
        """Renew, in as many attempts as the deadline allows; it counts from the last renewal that took effect."""
        loop = asyncio.get_running_loop()
        assert self._held_at is not None  # noqa: S101 -- held by whoever renews
        reason = "the process was held up"
        try:
            async with asyncio.timeout_at(self._held_at + self._terms.deadline):
                while True:
                    begun = loop.time()
                    try:
                        await self._change({"renewTime": self._stamp()})
                    except (errors.ApiStatusError, errors.Unreachable) as error:
                        reason = str(error)
                        log.warning("cannot renew the lease; it is tried again", lease=self._terms.name, reason=reason)
                        await asyncio.sleep(self._terms.retry)
                    else:
                        self._held_at = begun
                        return
        except TimeoutError as error:
            raise LeadershipLost(
                f"lease/{self._terms.name} could not be renewed for {self._terms.deadline:g} s: {reason}"
            ) from error

    async def _change(self, spec: Object) -> None:
        """Change our lease, whatever others did to it, as long as it is ours. Raises `LostLease`, `Refused`, `Unreachable`."""
        while True:
            changed = await self._client.change(self._lease, spec) if self._lease is not None else None
            if changed is None:
                # An answer of ours may have been lost, or somebody touched it.
                await self._look_again()
                continue
            self._lease = changed
            return

    async def _look_again(self) -> None:
        found = await self._client.find()
        if found is None or not found.holder:
            # Deleted, or emptied by hand: nobody's, and so ours again unless somebody is quicker.
            self._lease = found
            found = await self._make() or await self._client.find()
        if found is None or found.holder != self._terms.identity:
            holder = found.holder if found is not None else ""
            raise LeadershipLost(f"lease/{self._terms.name} is held by {holder or 'nobody'} now")
        self._lease = found

    def _stamp(self) -> str:
        """The time as Leases write it, with microseconds."""
        return datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
