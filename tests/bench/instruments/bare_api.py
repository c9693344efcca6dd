"""Direct access to the API server: the rate of a bare client, and the cost of measuring.

Knows paths and bytes; must not use the operator's own client, because it is the yardstick for that client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar
from urllib import parse

import aiohttp
import orjson
import yarl

from hearth.kube.auth import credentials
from hearth.kube.client import http_transport
from hearth.model.child import Object

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
IN_FLIGHT = 32
"""This number keeps both cores of a small API server busy."""
STREAM_SECONDS = 3600
BUSY = 429
BUSY_READS = 10
"""Retries of a read, one per second, while the API server responds that it is busy.

It does so for some seconds after a change of the kind's definition.
"""
APPLY_QUERY = "fieldManager=bench&force=true&fieldValidation=Strict"

Item = TypeVar("Item")


class Disturbed(Exception):
    """A measurement failed; the text has the reason."""


def find_reasons(error: Exception) -> list[str]:
    """The reasons why a measurement failed. Errors of our own code are raised again."""
    if isinstance(error, ExceptionGroup):
        return [reason for inner in error.exceptions for reason in find_reasons(inner)]
    if not isinstance(error, Disturbed | TimeoutError | aiohttp.ClientError):
        raise error
    return [str(error) or type(error).__name__]


class BareApi:
    """Requests to one API server; anything but 2xx ends the measurement."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        reads: int = BUSY_READS,
    ) -> bytes:
        """Return the unparsed response. reads: how often a busy server is asked."""
        data = None if body is None else orjson.dumps(body)
        url = yarl.URL(self._server + path, encoded=True)
        headers = {"Content-Type": content_type, "Accept": accept}
        async with self._session.request(method, url, data=data, headers=headers) as response:
            answer = await response.read()
        if response.status == BUSY and method == "GET" and reads > 1:
            await asyncio.sleep(1)
            return await self.send(method, path, accept=accept, reads=reads - 1)
        if response.status >= 300:
            raise Disturbed(f"{method} {path} was answered with {response.status}: {answer[:300].decode()}")
        return answer

    async def apply(self, path: str, manifest: Object) -> None:
        """Server-side apply."""
        await self.send("PATCH", f"{path}?{APPLY_QUERY}", body=manifest, content_type=APPLY)

    async def list(self, path: str) -> Object:
        """A collection, parsed."""
        found: Object = orjson.loads(await self.send("GET", path))
        return found

    async def watch(self, path: str, *, version: str, selector: str = "", accept: str = JSON) -> AsyncIterator[Object]:
        """The events of a collection since that version."""
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(STREAM_SECONDS)}
        if selector:
            query["labelSelector"] = selector
        url = yarl.URL(f"{self._server}{path}?{parse.urlencode(query)}", encoded=True)
        limits = aiohttp.ClientTimeout(total=None)
        async with self._session.get(url, headers={"Accept": accept}, timeout=limits) as response:
            if response.status == BUSY:
                # The caller restarts the watch at the current version.
                await asyncio.sleep(1)
                return
            if response.status >= 300:
                raise Disturbed(f"cannot watch {path}: {response.status}")
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield orjson.loads(line)


@contextlib.asynccontextmanager
async def connected(kubeconfig: str) -> AsyncIterator[BareApi]:
    """A client for the cluster that a kubeconfig names."""
    source = credentials.find_source(kubeconfig=kubeconfig, context=None, environ={})
    found = await asyncio.to_thread(source.load)
    context = await asyncio.to_thread(http_transport.make_context, found)
    headers = {"Authorization": found.authorization} if found.authorization else {}
    connector = aiohttp.TCPConnector(limit=0, ssl=context or True)
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
    ) as session:
        yield BareApi(session, found.server)


async def for_each(
    items: Iterable[Item], do: Callable[[Item], Awaitable[object]], *, in_flight: int = IN_FLIGHT
) -> None:
    """Call a function for each item, a limited number at a time."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(work())
