"""One Lease on an in-memory server, as several candidates see it: each may be cut off or delayed.

It rejects every change without the current resourceVersion.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import orjson

from hearth.model import errors
from hearth.model.child import Object
from support.server import api_errors
from support.units.scripted_api.scripted_connection import conflict, exists, missing

LATENCY = 0.005
"""Seconds until a response."""


@dataclass(slots=True)
class LeaseServer:
    """Stores the Lease, notifies its watchers, and records each holder with its time."""

    lease: Object | None = None
    has_namespace: bool = True
    denies_namespace: bool = False
    """Whether it responds with 404 to a candidate that creates the namespace, because another candidate creates it
    meanwhile."""
    version: int = 100
    held: list[str] = field(default_factory=list)
    """The successive holders; "" for none."""
    overlapping: list[Object] = field(default_factory=list)
    """Other Leases of the same group."""
    watchers: set[asyncio.Queue[bytes]] = field(default_factory=set)

    def write(self, spec: Object, owners: object = None) -> Object:
        """Store the Lease; return the stored one."""
        self.version += 1
        metadata: Object = {"name": "hearth", "namespace": "ops", "uid": "u1", "resourceVersion": str(self.version)}
        metadata |= {"ownerReferences": owners} if owners else {}
        spec = {key: value for key, value in spec.items() if value is not None}
        kind = "MODIFIED" if self.lease is not None else "ADDED"
        self.lease = {"metadata": metadata, "spec": spec}
        holder = spec.get("holderIdentity", "")
        if not self.held or self.held[-1] != holder:
            self.held.append(holder)
        self._tell(kind, self.lease)
        return self.lease

    def delete(self) -> None:
        """A user deletes the Lease."""
        assert self.lease is not None
        self.version += 1
        gone = {**self.lease, "metadata": {**self.lease["metadata"], "resourceVersion": str(self.version)}}
        self.lease = None
        self._tell("DELETED", gone)

    def show(self) -> None:
        """Send the current Lease once more, like a restarted stream."""
        assert self.lease is not None
        self._tell("ADDED", self.lease)

    def _tell(self, kind: str, shown: Object) -> None:
        for each in self.watchers:
            each.put_nowait(orjson.dumps({"type": kind, "object": shown}) + b"\n")


@dataclass(slots=True, eq=False)
class LeaseConnection:
    """One candidate's connection to the server."""

    server: LeaseServer
    is_cut: bool = False
    """Whether the connection is cut, so that no response and no event arrives."""
    is_refused: bool = False
    loses_answers: int = 0
    """Number of the next changes that take effect but whose responses are lost."""
    asked: list[str] = field(default_factory=list)

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Object | None = None, **_: object
    ) -> Object:
        """The server's answer."""
        self.asked.append("LIST" if method == "GET" and path.endswith("/leases") else method)
        await asyncio.sleep(LATENCY)
        if self.is_cut:
            await asyncio.get_running_loop().create_future()
        if self.is_refused:
            raise api_errors.refuse(403, "Forbidden", "leases is forbidden")
        answer = self._answer(method, path, body or {})
        if self.loses_answers and method == "PATCH":
            self.loses_answers -= 1
            raise errors.Unreachable("the answer was lost")
        return answer

    def _answer(self, method: str, path: str, body: Object) -> Object:
        server = self.server
        if path == "/api/v1/namespaces":
            server.has_namespace = True
            if server.denies_namespace:
                raise missing()
            return body
        if method == "POST":
            if not server.has_namespace:
                raise api_errors.namespace_missing("ops")
            if server.lease is not None:
                raise exists()
            return server.write(body["spec"], body["metadata"].get("ownerReferences"))
        if method == "GET" and path.endswith("/leases"):
            return {"items": [*server.overlapping, *([server.lease] if server.lease is not None else [])]}
        if server.lease is None:
            raise missing()
        if method == "GET":
            return server.lease
        if body["metadata"]["resourceVersion"] != server.lease["metadata"]["resourceVersion"]:
            raise conflict()
        owners = body["metadata"].get("ownerReferences", server.lease["metadata"].get("ownerReferences"))
        return server.write({**server.lease["spec"], **body["spec"]}, owners)

    @contextlib.asynccontextmanager
    async def stream(self, path: str, **_: object) -> AsyncIterator[AsyncIterator[bytes]]:
        """The current state, then all later events."""
        self.asked.append("WATCH")
        events: asyncio.Queue[bytes] = asyncio.Queue()
        if self.server.lease is not None:
            events.put_nowait(orjson.dumps({"type": "ADDED", "object": self.server.lease}) + b"\n")
        end = {"resourceVersion": str(self.server.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        events.put_nowait(orjson.dumps({"type": "BOOKMARK", "object": {"metadata": end}}) + b"\n")
        self.server.watchers.add(events)
        try:
            yield self._read(events)
        finally:
            self.server.watchers.discard(events)

    async def _read(self, events: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        while True:
            event = await events.get()
            if not self.is_cut:
                yield event
