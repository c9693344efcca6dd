"""Connection to one API server: JSON requests, and streams of bytes.

Limits concurrent requests, and reloads credentials. `hearth.kube.client.http_transport` sends the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self
from urllib import parse

import orjson

from hearth.kube.auth import credentials as credentials_module
from hearth.kube.auth.credentials import Credentials, CredentialSource
from hearth.kube.auth.foreign_servers import Traffic
from hearth.kube.client import JSON, http_transport
from hearth.kube.client.http_transport import HttpTransport, ReadAnswer
from hearth.model import errors
from hearth.model.child import Object

REQUESTS_IN_FLIGHT = 80
"""Maximum number of concurrent requests. It slightly exceeds all writes and reads of definitions together, so that
these do not queue here. A higher limit gains nothing, because 32 requests saturate the API server's CPU."""
TIMEOUT = 30.0
"""Seconds for a request; admission webhooks may take as long."""
IDLE_TIMEOUT = 90.0
"""Seconds without data on a watch; a bookmark arrives every 60."""
CHECK_INTERVAL = 60.0
"""Seconds between two checks of the credentials; a mounted token is renewed minutes before its expiration."""
RENEW_INTERVAL = 5.0
"""Minimum seconds between two reloads after a 401: a thousand rejected requests must not run an exec plugin each."""


class Connection:
    """A pool of connections to one API server under one identity.

    Use `async with`, or `open` and `close`. Requests beyond the limit wait in a queue; streams do not count.
    """

    def __init__(
        self,
        source: CredentialSource,
        traffic: Traffic | None = None,
        *,
        in_flight: int = REQUESTS_IN_FLIGHT,
        body_bytes: int | None = None,
    ) -> None:
        """traffic: charges for the traffic of an untrusted server; in_flight: maximum number of concurrent requests;
        body_bytes: maximum size of one response; None for the usual one.
        """
        self._source = source
        self._traffic = traffic
        self._body_bytes = body_bytes
        self._transport: HttpTransport | None = None
        self._generation = 0
        self._slots = traffic.slots if traffic is not None else asyncio.Semaphore(in_flight)
        self._renewing = asyncio.Lock()
        self._check_at = 0.0
        self._renew_at = 0.0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Load the credentials and close an earlier session; send nothing. Raises `NoCredentials`."""
        await self.close()
        credentials, context = await asyncio.to_thread(load, self._source)
        self._transport = HttpTransport(credentials, context, self._traffic, body_bytes=self._body_bytes)
        self._check_at = asyncio.get_running_loop().time() + CHECK_INTERVAL

    async def close(self) -> None:
        """Close everything at once; pending requests raise `Unreachable`."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    @property
    def credentials(self) -> Credentials:
        """Return the credentials in use."""
        return self._get_transport().credentials

    async def request(  # noqa: PLR0913 -- the parts of an HTTP request
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | Object | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        impersonate: str | None = None,
        timeout: float = TIMEOUT,  # noqa: ASYNC109 -- aiohttp's own timer costs less than a scope around the call
        read: ReadAnswer | None = None,
    ) -> Object:
        """Send a request and return the parsed response; `path` is already quoted.

        impersonate: a user name; timeout: seconds, without the wait for a free slot; read: reads a response that need not
        be parsed as a whole.
        Raises `ApiStatusError` or `Unreachable`.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        if impersonate is not None:
            headers["Impersonate-User"] = impersonate
        data = orjson.dumps(body) if isinstance(body, dict) else body
        target = with_query(path, query)

        def send() -> Awaitable[Object]:
            transport = self._get_transport()
            return transport.send(method, target, headers=headers, data=data, seconds=timeout, read=read)

        async with self._slots:
            await self._check_credentials()
            generation = self._generation
            try:
                return await send()
            except errors.ApiStatusError as refused:
                if refused.code != 401 or not await self._renew(generation):
                    raise
            return await send()

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream the body of a GET in chunks of any size, without an overall time limit.

        idle_timeout: seconds without a single byte after which the stream counts as broken.
        Raises `ApiStatusError` on entry, `Unreachable` on entry and while reading.
        """
        target = with_query(path, query)

        def watch() -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
            return self._get_transport().watch(target, accept=accept, idle_timeout=idle_timeout)

        async with contextlib.AsyncExitStack() as stack:
            await self._check_credentials()
            generation = self._generation
            try:
                pieces = await stack.enter_async_context(watch())
            except errors.ApiStatusError as refused:
                if refused.code != 401 or not await self._renew(generation):
                    raise
                pieces = await stack.enter_async_context(watch())
            yield pieces

    def _get_transport(self) -> HttpTransport:
        if self._transport is None:
            raise errors.Unreachable("the connection is closed")
        return self._transport

    async def _check_credentials(self) -> None:
        """Check at intervals whether the credentials changed, and reload them."""
        now = asyncio.get_running_loop().time()
        if now < self._check_at:
            return
        self._check_at = now + CHECK_INTERVAL
        generation = self._generation
        if await asyncio.to_thread(credentials_module.is_stale, self.credentials):
            # The current credentials may remain valid for a while. If they do not, the 401 reveals the cause.
            with contextlib.suppress(credentials_module.NoCredentials):
                async with self._renewing:
                    await self._replace(generation)

    async def _renew(self, refused_generation: int) -> bool:
        """Reload credentials that the server rejected; return whether a repetition of the request makes sense."""
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if self._generation == refused_generation:
                if now < self._renew_at:
                    return False
                self._renew_at = now + RENEW_INTERVAL
            await self._replace(refused_generation)
            return True

    async def _replace(self, old_generation: int) -> None:
        """Replace the credentials of this generation with the source's current ones, unless already replaced."""
        if self._generation != old_generation:
            return
        credentials, context = await asyncio.to_thread(load, self._source)
        self._generation += 1
        old = self._get_transport()
        if not old.update_token(credentials):
            self._transport = HttpTransport(credentials, context, self._traffic, body_bytes=self._body_bytes)
            await old.close_when_idle()


def load(source: CredentialSource) -> tuple[Credentials, ssl.SSLContext | None]:
    """Return the credentials and their TLS settings. Blocks."""
    credentials = source.load()
    return credentials, http_transport.make_context(credentials)


def with_query(path: str, query: Mapping[str, str] | None) -> str:
    """Return the path with its query."""
    return f"{path}?{encode(tuple(query.items()))}" if query else path


@functools.lru_cache(maxsize=1024)
def encode(query: tuple[tuple[str, str], ...]) -> str:
    """Return the quoted parameters.

    All writes of one Stack have the same parameters, and quoting takes longer than all other work on a path.
    """
    return parse.urlencode(query)
