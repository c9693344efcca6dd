"""Leases of processes that divide the same Stacks by another shard count.

While the count changes, no process starts to work on Stacks that such a process holds. Knows the Leases of one
installation by their labels; must not know how a lease is acquired.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from hearth.kube.client import api_requests
from hearth.kube.objects import lease as lease_module
from hearth.model.sharding import BUCKETS, Share
from hearth.model.well_known_kinds import LEASE

if TYPE_CHECKING:
    from hearth.kube.client.api_client import ApiClient
    from hearth.model.child import Object

LABEL_SHARD_GROUP = "hearth.dev/shard-group"
"""Label of a Lease: processes with the same value divide the same Stacks."""
LABEL_SHARD = "hearth.dev/shard"
LABEL_SERVED_NAMESPACE = "hearth.dev/served-namespace"
"""Label of a Lease: the only namespace whose Stacks its holder works on, "" for all."""
SHARD = re.compile(r"(\d{1,3})-of-(\d{1,3})")


def make_labels(group: str, share: Share, *, namespace: str = "") -> dict[str, str]:
    """Return the labels that describe the Stacks of a Lease's holder. namespace: the only one, "" for all."""
    return {LABEL_SHARD_GROUP: group, LABEL_SHARD: str(share), LABEL_SERVED_NAMESPACE: namespace}


def find_share(raw: Object) -> Share | None:
    """Return the shard of a Lease's holder, if its labels specify one."""
    found = SHARD.fullmatch((raw["metadata"].get("labels") or {}).get(LABEL_SHARD, ""))
    if found is None or not int(found[1]) < int(found[2]) <= BUCKETS:
        return None
    return Share(index=int(found[1]), count=int(found[2]))


class OverlappingLeases:
    """Leases of the same group whose holders may work on Stacks of this shard."""

    def __init__(self, client: ApiClient, *, namespace: str, group: str, share: Share) -> None:
        self._sender = client
        self._path = api_requests.collection_path(LEASE, namespace)
        self._group = group
        self._share = share
        self._heard: dict[str, tuple[int, float]] = {}
        """By name, the last observed version and the loop's time of its first observation."""

    async def find(self) -> str:
        """Return the name of one that is held, or may be; "" if there is none.

        Raises `ApiStatusError` or `Unreachable`.
        """
        query = {"labelSelector": f"{LABEL_SHARD_GROUP}={self._group}"}
        page = await self._sender.send("list", LEASE, self._path, query=query)
        return next((raw["metadata"]["name"] for raw in page.get("items") or () if self._is_rival(raw)), "")

    def _is_rival(self, raw: Object) -> bool:
        share = find_share(raw)
        if share is None or share.count == self._share.count or not share.overlaps(self._share):
            return False
        lease = lease_module.parse_lease(raw)
        now = asyncio.get_running_loop().time()
        name = raw["metadata"]["name"]
        version, heard_at = self._heard.get(name, (0, now))
        if version != lease.version:
            heard_at = now
            self._heard[name] = (lease.version, now)
        return bool(lease.holder) and now < heard_at + lease.seconds
