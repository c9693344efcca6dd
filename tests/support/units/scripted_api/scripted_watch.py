"""A connection with scripted responses for watches, and helpers to write the objects and events in them.

Implements `hearth.kube.watch.reflector.Connection` without a network, so that watches run in virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from hearth.kube.watch.reflector import WatchOptions
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support import virtual_time
from support.units import signing

Piece: TypeAlias = bytes | Exception
"""The next part of a stream: bytes, or an error that ends it."""

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
RULES = WatchOptions(uniform=lambda low, high: high)
"""No randomness: each pause has its maximum length."""


class Stream:
    """One stream: its pieces, open until `end`."""

    def __init__(self, *pieces: Piece) -> None:
        self._pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        self.is_open = False
        self.say(*pieces)

    def say(self, *pieces: Piece) -> None:
        """Send these pieces next."""
        for piece in pieces:
            self._pieces.put_nowait(piece)

    def end(self) -> Stream:
        """Close it from the server's side after all pieces were sent."""
        self._pieces.put_nowait(None)
        return self

    async def read(self) -> AsyncIterator[bytes]:
        while True:
            piece = await self._pieces.get()
            if piece is None:
                return
            if isinstance(piece, Exception):
                raise piece
            yield piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The request of a watch."""

    path: str
    query: Mapping[str, str]
    accept: str

    @property
    def is_fresh(self) -> bool:
        """Whether it requests all objects, not only changes."""
        return "resourceVersion" not in self.query and "continue" not in self.query


@dataclass(slots=True)
class ScriptedConnection:
    """Sends responses in order. After the last one, streams stay silent and lists are refused."""

    streams: list[Stream | Exception] = field(default_factory=list)
    pages: list[Object | Exception] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)
    store: Object | Exception = field(default_factory=lambda: {"metadata": {}})
    """The answer to each request for the version of the store."""
    checks: int = 0
    """Number of these requests."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "application/json",
        impersonate: str | None = None,
    ) -> Object:
        """The next page; of a single object, the version of the store."""
        if query is not None and query.get("limit") == "1":
            self.checks += 1
            if isinstance(self.store, Exception):
                raise self.store
            return self.store
        self.asked.append(Question(path=path, query=dict(query or {}), accept=accept))
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        return page

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The next stream."""
        self.asked.append(Question(path=path, query=dict(query or {}), accept=accept))
        return self._open()

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[AsyncIterator[bytes]]:
        stream = self.streams.pop(0) if self.streams else Stream()
        if isinstance(stream, Exception):
            raise stream
        stream.is_open = True
        try:
            yield stream.read()
        finally:
            stream.is_open = False


@dataclass
class ServedKinds:
    """The kinds that a test lets the server have."""

    served: set[Kind] = field(default_factory=lambda: {CONFIG_MAP})
    generation: int = 0

    def find(self, api_version: str, kind: str) -> Kind | None:
        return next((each for each in self.served if (each.api_version, each.name) == (api_version, kind)), None)

    def all(self) -> set[Kind]:
        return self.served

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """None is known."""

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """None is known."""

    def serve(self, *kinds: Kind) -> None:
        """Serve these and no others."""
        self.served = set(kinds)
        self.generation += 1


def make_object(name: str, version: int, **parts: object) -> Object:
    """A ConfigMap called `name` of stack `s1`, whose uid and resource are its name too.

    parts: `data`, or anything that goes into its metadata; signed for `Trusting` readers, unless annotations are given.
    """
    data = parts.pop("data", None)
    labels = {names.LABEL_STACK_UID: "s1", names.LABEL_RESOURCE: name}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels, **parts}
    raw: Object = {"metadata": {**metadata, "resourceVersion": str(version)}}
    whole = raw if data is None else {**raw, "data": data}
    return whole if "annotations" in parts else signing.sign(whole)


def event(event_type: str, raw: Object) -> bytes:
    """One line of a watch."""
    return orjson.dumps({"type": event_type, "object": raw}) + b"\n"


def added(name: str, version: int, **parts: object) -> bytes:
    """The line that shows an object for the first time."""
    return event("ADDED", make_object(name, version, **parts))


def modified(name: str, version: int, **parts: object) -> bytes:
    """The line that shows it changed."""
    return event("MODIFIED", make_object(name, version, **parts))


def deleted(name: str, version: int, **parts: object) -> bytes:
    """The line that reports its deletion."""
    return event("DELETED", make_object(name, version, **parts))


def bookmark(version: int) -> bytes:
    """The line with the current version of the stream."""
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def list_end(version: int) -> bytes:
    """The bookmark that ends the initial set."""
    annotations = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


def error(code: int, message: str = "") -> bytes:
    """The line that ends a stream with a Status."""
    return event("ERROR", {"kind": "Status", "code": code, "message": message})


def page(version: int, *items: Object, token: str = "") -> Object:
    """One page of a list; `token` leads to the next."""
    metadata = {"resourceVersion": str(version)}
    return {"metadata": {**metadata, "continue": token} if token else metadata, "items": list(items)}


async def elapse(seconds: float) -> None:
    """Let that many seconds of virtual time pass, and run everything that is due."""
    loop = virtual_time.get_loop()
    over = loop.create_future()
    loop.call_later(seconds, over.set_result, None)
    await over
