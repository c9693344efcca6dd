"""Detects other processes that work on the same Stacks, for a process without leader election.

Never compares clocks: a holder counts as active if it changes its Lease while this process observes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from hearth.kube.client import api_requests
from hearth.kube.leader_election import leases
from hearth.kube.leader_election.leases import Lease, LeaseClient
from hearth.model import errors, value_class
from hearth.model.sharding import WHOLE, Share
from hearth.model.well_known_kinds import LEASE

if TYPE_CHECKING:
    from hearth.kube.client.api_requests import ApiClient
    from hearth.model.child import Object

log = structlog.get_logger(__name__)

POLL_INTERVAL = 1.0
"""Seconds between two reads; a holder renews every two seconds by default."""
UNREADABLE = (401, 403, 404)
"""Response codes if the API server does not allow reading Leases."""
LABEL_PRESENCE = "hearth.dev/presence"
"""Label of the Lease of a process that runs without leader election."""
LOOK_INTERVAL = 5.0
"""Seconds between two checks by that process."""
VALID_LOOKS = 3
"""Checks without a renewal after which the Lease is free."""
RELEASE_TIMEOUT = 0.5
"""Seconds to release the Lease at the end."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The Stacks that a process works on."""

    share: Share = WHOLE
    namespace: str = ""
    """The only served namespace; "" for all."""

    def overlaps(self, other: Scope) -> bool:
        """Return whether the two have Stacks in common."""
        is_apart = self.namespace and other.namespace and self.namespace != other.namespace
        return not is_apart and self.share.overlaps(other.share)


@dataclass(slots=True)
class ActiveLeader:
    """The search for an active holder of a Lease in the operator's namespace whose Stacks overlap the scope."""

    client: ApiClient
    namespace: str
    """The operator's namespace."""
    scope: Scope
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By name: the version of the Lease when it was first read, and the loop's time."""
    _told: set[str] = field(default_factory=set)

    async def find(self) -> str:
        """Return a description of the first active holder, or "" if there is none.

        Takes as long as a Lease of a dead holder is valid. Retries if the API server does not answer.
        """
        while True:
            try:
                listed = await self._list()
            except errors.Unreachable as error:
                self._log_once("cannot read leases; retrying", str(error))
                await asyncio.sleep(POLL_INTERVAL)
                continue
            held = {name: lease for name, lease in listed if lease.holder}
            for name, lease in held.items():
                if self._is_renewed(name, lease):
                    return f"lease/{name} in namespace {self.namespace} is held by {lease.holder}"
            waits = [name for name, lease in held.items() if self._is_valid(name, lease)]
            if not waits:
                return ""
            self._log_once("checking whether the holders of leases are active", ", ".join(waits))
            await asyncio.sleep(POLL_INTERVAL)

    def _log_once(self, event: str, what: str) -> None:
        """Log once why the work does not start yet."""
        if event not in self._told:
            self._told.add(event)
            log.info(event, reason=what)

    async def _list(self) -> list[tuple[str, Lease]]:
        """Return the Leases whose holders may work on the same Stacks, by name. Raises Unreachable."""
        path = api_requests.collection_path(LEASE, self.namespace)
        words = [*(f"{key}={value}" for key, value in leases.LABELS.items()), f"!{LABEL_PRESENCE}"]
        query = {"labelSelector": ",".join(words)}
        try:
            page = await self.client.send("list", LEASE, path, query=query)
        except errors.ApiStatusError as refused:
            if refused.code not in UNREADABLE:
                raise errors.Unreachable(str(refused)) from refused
            log.warning("cannot read leases, so another active operator would not be noticed", reason=str(refused))
            return []
        return [(raw["metadata"]["name"], leases.parse_lease(raw)) for raw in self._find_overlapping(page)]

    def _find_overlapping(self, page: Object) -> Iterable[Object]:
        for raw in page.get("items") or ():
            share = leases.find_share(raw) or WHOLE
            namespace = (raw["metadata"].get("labels") or {}).get(leases.LABEL_SERVED_NAMESPACE, "")
            if self.scope.overlaps(Scope(share=share, namespace=namespace)):
                yield raw

    def _is_renewed(self, name: str, lease: Lease) -> bool:
        """Return whether the Lease changed since it was first read."""
        version, _ = self._seen.setdefault(name, (lease.version, asyncio.get_running_loop().time()))
        return version != lease.version

    def _is_valid(self, name: str, lease: Lease) -> bool:
        """Return whether the holder may still renew the Lease."""
        return asyncio.get_running_loop().time() < self._seen[name][1] + lease.seconds


@dataclass(slots=True)
class Presence:
    """Announces this process in a Lease to others without leader election, and detects those that started before it.

    The process starts work without waiting, and ends if it observes another process renewing the Lease. After a crash,
    no process renews the Lease, so the next process continues and takes it over.
    """

    client: ApiClient
    namespace: str
    """The operator's namespace."""
    name: str
    """The name of the Lease, shared by processes with the same Stacks."""
    identity: str
    scope: Scope
    interval: float = LOOK_INTERVAL
    _lease: Lease | None = None
    """The Lease as last read or written."""
    _unchanged: int = 0
    """Number of checks since the Lease of another holder last changed."""

    async def hold(self) -> str:
        """Hold the Lease. Returns a description of another active holder as soon as one is observed.

        Returns "" if Leases cannot be read or written; other processes are then not detected.
        """
        labels = {
            LABEL_PRESENCE: "alone",
            leases.LABEL_SERVED_NAMESPACE: self.scope.namespace,
            leases.LABEL_SHARD: str(self.scope.share),
        }
        lease_client = leases.LeaseClient(
            self.client, namespace=self.namespace, name=self.name, labels=labels, timeout=self.interval
        )
        try:
            while True:
                if found := await self._renew_or_acquire(lease_client):
                    return found
                await asyncio.sleep(self.interval)
        except errors.ApiStatusError as refused:
            log.info("other processes without an election would not be noticed", reason=str(refused))
            return ""
        except asyncio.CancelledError:
            await self._release(lease_client)
            raise

    async def _renew_or_acquire(self, lease_client: LeaseClient) -> str:
        """Renew the Lease, or take it if it is free; otherwise return its active holder."""
        try:
            found = await lease_client.find()
            if found is None or found.holder in ("", self.identity) or self._is_abandoned(found):
                self._lease = await self._write(lease_client, found)
                return ""
        except errors.Unreachable:
            return ""
        except errors.ApiStatusError as refused:
            if refused.code in UNREADABLE:
                raise
            return ""
        is_first = self._lease is None or self._lease.holder != found.holder
        is_renewed = not is_first and self._lease is not None and self._lease.version != found.version
        self._lease = found
        return f"lease/{self.name} in namespace {self.namespace} is held by {found.holder}" if is_renewed else ""

    def _is_abandoned(self, found: Lease) -> bool:
        """Return whether another holder has not renewed the Lease for long enough."""
        is_same = self._lease is not None and self._lease.version == found.version
        self._unchanged = self._unchanged + 1 if is_same else 0
        return self._unchanged >= VALID_LOOKS

    async def _write(self, lease_client: LeaseClient, found: Lease | None) -> Lease | None:
        """Write this process as the holder; return None if another one was faster."""
        self._unchanged = 0
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.interval * VALID_LOOKS),
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        return await lease_client.create(spec) if found is None else await lease_client.change(found, spec)

    async def _release(self, lease_client: LeaseClient) -> None:
        """Free the Lease. If that fails, it expires."""
        if self._lease is None or self._lease.holder != self.identity:
            return
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable, TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT):
                await lease_client.change(self._lease, {"holderIdentity": None})
