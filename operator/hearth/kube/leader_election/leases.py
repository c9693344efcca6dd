"""Leases (coordination.k8s.io/v1) for leader election: content, labels, requests, and the search for overlapping ones.

Every change includes the version that was read, so only one of two candidates succeeds. While the shard count changes,
no process starts on Stacks that a process with the old count holds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from hearth.kube.client import api_requests
from hearth.kube.client.api_requests import ApiClient
from hearth.model import errors, value_class
from hearth.model.child import Object
from hearth.model.sharding import BUCKETS, Share
from hearth.model.well_known_kinds import LEASE, NAMESPACE

LABEL_SHARD_GROUP = "hearth.dev/shard-group"
"""Label of a Lease. Processes with the same value divide the same Stacks."""
LABEL_SHARD = "hearth.dev/shard"
LABEL_SERVED_NAMESPACE = "hearth.dev/served-namespace"
"""Label of a Lease: the only namespace whose Stacks its holder manages; "" for all."""
SHARD = re.compile(r"(\d{1,3})-of-(\d{1,3})")
LABELS = {"app.kubernetes.io/part-of": "hearth"}
MOST = 2**31 - 2
"""The highest number that is read. Incremented by one, it still fits into the field."""

Answer = TypeVar("Answer")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The content of a Lease in one of its states."""

    holder: str
    """Empty if there is no holder."""
    seconds: float
    """Seconds for which a renewal is valid."""
    transitions: int
    """Number of changes of the holder."""
    version: int


def parse_lease(raw: Object) -> Lease:
    """Parse the object; missing and invalid data means that there is no holder."""
    stated = raw.get("spec")
    spec = stated if isinstance(stated, dict) else {}
    holder = spec.get("holderIdentity")
    return Lease(
        holder=holder if isinstance(holder, str) else "",
        seconds=float(read_count(spec, "leaseDurationSeconds")),
        transitions=read_count(spec, "leaseTransitions"),
        version=int(raw["metadata"]["resourceVersion"]),
    )


def read_count(spec: Object, field: str) -> int:
    """Return the integer in this field, limited to values that the API server accepts, or 0 if it is missing."""
    value = spec.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return 0
    return min(value, MOST)


class LeaseClient:
    """The requests for one Lease. Each raises `ApiStatusError` or `Unreachable`."""

    def __init__(
        self,
        client: ApiClient,
        *,
        namespace: str,
        name: str,
        labels: Mapping[str, str],
        timeout: float,
        owners: Sequence[Object] = (),
    ) -> None:
        """Create the client.

        labels: for the Lease; timeout: seconds for one response; owners: references to the Pod of this process. The
        Lease is deleted with it, even if the process could no longer release it.

        A request without a response must not consume the whole time for renewals.
        """
        self._sender = client
        self._namespace = namespace
        self._name = name
        self._labels = {**LABELS, **labels}
        self._timeout = timeout
        self._owners = list(owners) or None
        """None removes the reference to the Pod of an earlier holder."""
        self._path = api_requests.object_path(LEASE, namespace, name)

    async def find(self) -> Lease | None:
        """Return the current Lease, or None if it does not exist."""
        found = await self._limit(self._sender.send_existing("get", LEASE, self._path))
        return parse_lease(found) if found is not None else None

    async def create(self, spec: Object) -> Lease | None:
        """Create the Lease and, if missing, its namespace; return None if another process created the Lease."""
        try:
            return await self._create(spec)
        except errors.ApiStatusError as refused:
            if not refused.is_not_found:
                raise
        namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        await self._limit(self._sender.create_if_possible(NAMESPACE, namespace))
        return await self._create(spec)

    async def change(self, lease: Lease, spec: Object) -> Lease | None:
        """Change these fields and return the Lease, or None if its version differs from the one read, or it was deleted."""
        metadata = {"resourceVersion": str(lease.version), "labels": self._labels, "ownerReferences": self._owners}
        body = {"metadata": metadata, "spec": spec}
        try:
            return parse_lease(await self._limit(self._sender.send("patch", LEASE, self._path, body=body)))
        except errors.ApiStatusError as refused:
            if not (refused.is_not_found or refused.is_conflict):
                raise
            return None

    async def _create(self, spec: Object) -> Lease | None:
        body: Object = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "labels": self._labels,
                "ownerReferences": self._owners,
            },
            "spec": spec,
        }
        made = await self._limit(self._sender.create_new(LEASE, body))
        return parse_lease(made) if made is not None else None

    async def _limit(self, sending: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            async with asyncio.timeout(self._timeout):
                return await sending
        except TimeoutError as error:
            raise errors.Unreachable(f"no response for {self._path} within {self._timeout:g} s") from error


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
        """By name: the last observed version, and the loop's time when it was first observed."""

    async def find(self) -> str:
        """Return the name of a Lease that is or may be held, or "". Raises `ApiStatusError` or `Unreachable`."""
        query = {"labelSelector": f"{LABEL_SHARD_GROUP}={self._group}"}
        page = await self._sender.send("list", LEASE, self._path, query=query)
        return next((raw["metadata"]["name"] for raw in page.get("items") or () if self._is_rival(raw)), "")

    def _is_rival(self, raw: Object) -> bool:
        share = find_share(raw)
        if share is None or share.count == self._share.count or not share.overlaps(self._share):
            return False
        lease = parse_lease(raw)
        now = asyncio.get_running_loop().time()
        name = raw["metadata"]["name"]
        version, heard_at = self._heard.get(name, (0, now))
        if version != lease.version:
            heard_at = now
            self._heard[name] = (lease.version, now)
        return bool(lease.holder) and now < heard_at + lease.seconds
