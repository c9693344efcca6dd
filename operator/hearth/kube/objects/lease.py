"""One Lease (coordination.k8s.io/v1): its content, and the requests that read and change it.

Every change includes the version that was read, so the API server rejects one of two candidates. Must not know when a
lease is acquired or renewed: `hearth.kube.leader_election.leader_elector` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from hearth.kube.client import api_requests
from hearth.kube.client.api_client import ApiClient
from hearth.kube.objects import hash_key
from hearth.model import errors, value_class
from hearth.model.child import Object
from hearth.model.well_known_kinds import LEASE, NAMESPACE

LABELS = {"app.kubernetes.io/part-of": "hearth"}
MOST = 2**31 - 2
"""The highest number that is read: incremented by one, it still fits into the field."""

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
    """Return the whole number in this field, 0 if there is none, limited to what the API server accepts."""
    value = spec.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return 0
    return min(value, MOST)


class LeaseClient:
    """The requests for one Lease. Each raises `ApiStatusError` or `Unreachable`."""

    def __init__(
        self, client: ApiClient, *, namespace: str, name: str, labels: Mapping[str, str], timeout: float
    ) -> None:
        """Create the client. labels: for the Lease; timeout: seconds for one response.

        A request without a response must not consume the whole time for renewals.
        """
        self._sender = client
        self._namespace = namespace
        self._name = name
        self._labels = {**LABELS, **labels}
        self._timeout = timeout
        self._path = api_requests.object_path(LEASE, namespace, name)

    async def find(self) -> Lease | None:
        """Return the current Lease, or None if there is none."""
        try:
            return parse_lease(await self._limit(self._sender.send("get", LEASE, self._path)))
        except errors.ApiStatusError as refused:
            if not refused.is_not_found:
                raise
            return None

    async def create(self, spec: Object) -> Lease | None:
        """Create the Lease and, if missing, its namespace; return None if another process created the Lease."""
        try:
            return await self._create(spec)
        except errors.ApiStatusError as refused:
            if not refused.is_not_found:
                raise
        namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        await self._limit(hash_key.create(self._sender, NAMESPACE, namespace))
        return await self._create(spec)

    async def change(self, lease: Lease, spec: Object) -> Lease | None:
        """Change these fields and return the Lease; None if its version differs from the one read, or it is gone."""
        body = {"metadata": {"resourceVersion": str(lease.version), "labels": self._labels}, "spec": spec}
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
            "metadata": {"name": self._name, "namespace": self._namespace, "labels": self._labels},
            "spec": spec,
        }
        path = api_requests.collection_path(LEASE, self._namespace)
        try:
            return parse_lease(await self._limit(self._sender.send("create", LEASE, path, body=body)))
        except errors.ApiStatusError as refused:
            if not refused.is_conflict:
                raise
            return None

    async def _limit(self, sending: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            async with asyncio.timeout(self._timeout):
                return await sending
        except TimeoutError as error:
            raise errors.Unreachable(f"no response for {self._path} within {self._timeout:g} s") from error
