"""Whether an elected process works on the same Stacks, for a process that takes no part in the election.

Compares no clocks: a holder is active if it changes its Lease while it is observed. Must not know what follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hearth.kube.client import api_requests
from hearth.kube.leader_election import overlapping_leases
from hearth.kube.objects import lease as lease_module
from hearth.kube.objects.lease import Lease
from hearth.kube.well_known_kinds import LEASE
from hearth.model import errors, value_class
from hearth.model.sharding import WHOLE, Share

if TYPE_CHECKING:
    from hearth.kube.client.api_client import ApiClient
    from hearth.model.child import Object

log = structlog.get_logger(__name__)

POLL_INTERVAL = 1.0
"""Seconds between two reads; a holder renews every two seconds by default."""
UNREADABLE = (401, 403, 404)
"""Response codes of an API server that does not show Leases."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The Stacks that a process works on."""

    share: Share = WHOLE
    namespace: str = ""
    """The only namespace, "" for all."""

    def overlaps(self, other: Scope) -> bool:
        """Return whether the two have Stacks in common."""
        is_apart = self.namespace and other.namespace and self.namespace != other.namespace
        return not is_apart and self.share.overlaps(other.share)


@dataclass(slots=True)
class ActiveLeader:
    """The search for an active holder of a Lease in the operator's namespace whose Stacks overlap the scope."""

    sender: ApiClient
    namespace: str
    """The operator's namespace."""
    scope: Scope
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By name, the version of the Lease at the first read, and the loop's time."""
    _told: set[str] = field(default_factory=set)

    async def find(self) -> str:
        """Return a description of the first active holder, or "" if there is none.

        Takes as long as a Lease whose holder died is valid. Without an answer, tries again.
        """
        while True:
            try:
                leases = await self._list()
            except errors.Unreachable as error:
                self._tell("cannot read leases; retrying", str(error))
                await asyncio.sleep(POLL_INTERVAL)
                continue
            held = {name: lease for name, lease in leases if lease.holder}
            for name, lease in held.items():
                if self._is_renewed(name, lease):
                    return f"lease/{name} in namespace {self.namespace} is held by {lease.holder}"
            waits = [name for name, lease in held.items() if self._is_valid(name, lease)]
            if not waits:
                return ""
            self._tell("checking whether the holders of leases are active", ", ".join(waits))
            await asyncio.sleep(POLL_INTERVAL)

    def _tell(self, event: str, what: str) -> None:
        """Log once why the work does not start yet."""
        if event not in self._told:
            self._told.add(event)
            log.info(event, reason=what)

    async def _list(self) -> list[tuple[str, Lease]]:
        """Return the Leases whose holders may work on the same Stacks, by name. Raises Unreachable."""
        path = api_requests.collection_path(LEASE, self.namespace)
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in lease_module.LABELS.items())}
        try:
            page = await self.sender.send("list", LEASE, path, query=query)
        except errors.ApiStatusError as refused:
            if refused.code not in UNREADABLE:
                raise errors.Unreachable(str(refused)) from refused
            log.warning("cannot read leases, so another active operator would not be noticed", reason=str(refused))
            return []
        return [(raw["metadata"]["name"], lease_module.parse_lease(raw)) for raw in self._find_overlapping(page)]

    def _find_overlapping(self, page: Object) -> Iterable[Object]:
        for raw in page.get("items") or ():
            share = overlapping_leases.find_share(raw) or WHOLE
            namespace = (raw["metadata"].get("labels") or {}).get(overlapping_leases.LABEL_SERVED_NAMESPACE, "")
            if self.scope.overlaps(Scope(share=share, namespace=namespace)):
                yield raw

    def _is_renewed(self, name: str, lease: Lease) -> bool:
        """Return whether the Lease changed since it was first read."""
        version, _ = self._seen.setdefault(name, (lease.version, asyncio.get_running_loop().time()))
        return version != lease.version

    def _is_valid(self, name: str, lease: Lease) -> bool:
        """Return whether the holder may still renew the Lease."""
        return asyncio.get_running_loop().time() < self._seen[name][1] + lease.seconds
