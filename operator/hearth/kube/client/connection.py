"""One API server, spoken to: requests that give JSON, and streams that give bytes.

Knows how many requests go at once and when credentials are read anew; must not know kinds, objects or what an answer
means. HTTP itself is `hearth.kube.client.http_transport`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self
from urllib import parse

import orjson

from hearth.kube.auth import credentials as credentials_module
from hearth.kube.auth.credentials import Credentials, CredentialSource
from hearth.kube.client import http_transport as wire_module
from hearth.kube.client.http_transport import HttpTransport
from hearth.model import errors
from hearth.model.child import Object

JSON = "application/json"
REQUESTS_IN_FLIGHT = 64
"""More gain nothing: the API server's CPU is full at 32 to 64."""
TIMEOUT = 30.0
"""Seconds; admission webhooks may take as long."""
IDLE_TIMEOUT = 90.0
"""Seconds; a watch brings a bookmark every 60."""
CHECK_INTERVAL = 60.0
"""Seconds between two looks at whether the credentials changed; a mounted token is renewed minutes before its end."""
RENEW_INTERVAL = 5.0
"""Seconds between two renewals because of a 401: an exec plugin is not run for each of a thousand refused requests."""


class Connection:
    """A pool of connections to one API server under one identity.

    Use `async with`, or `open` and `close`. Requests beyond the limit queue up; streams are not counted.
    """

    def __init__(self, source: CredentialSource) -> None:
        self._source = source
        self._wire: HttpTransport | None = None
        self._generation = 0
        self._slots = asyncio.Semaphore(REQUESTS_IN_FLIGHT)
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
        """Read the credentials; nothing is sent yet. What was open before is ended. Raises `NoCredentials`."""
        await self.close()
        credentials, context = await asyncio.to_thread(load, self._source)
        self._wire = wire_module.make_wire(credentials, context)
        self._check_at = asyncio.get_running_loop().time() + CHECK_INTERVAL

    async def close(self) -> None:
        """End everything at once; whoever still waits for an answer gets `Unreachable`."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    @property
    def credentials(self) -> Credentials:
        """Those in use now."""
        return self._get_wire().credentials

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
    ) -> Object:
        """The parsed answer; `path` is quoted already.

        impersonate: a user name; timeout: seconds, waiting for a free place not counted.
        Raises `Refused` or `Unreachable`.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        if impersonate is not None:
            headers["Impersonate-User"] = impersonate
        data = orjson.dumps(body) if isinstance(body, dict) else body
        target = with_query(path, query)
        async with self._slots:
            await self._check_credentials()
            generation = self._generation
            try:
                return await self._get_wire().send(method, target, headers=headers, data=data, seconds=timeout)
            except errors.ApiStatusError as refused:
                if refused.code != 401 or not await self._renew(generation):
                    raise
            return await self._get_wire().send(method, target, headers=headers, data=data, seconds=timeout)

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The body of a GET as it comes, in pieces of any size; without a limit of time as a whole.

        idle_timeout: seconds without a single byte after which the stream counts as broken.
        Raises `Refused` on entering, `Unreachable` there and while reading.
        """
        return self._stream(with_query(path, query), accept, idle_timeout)

    @contextlib.asynccontextmanager
    async def _stream(self, target: str, accept: str, idle_timeout: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with contextlib.AsyncExitStack() as stack:
            await self._check_credentials()
            generation = self._generation
            try:
                pieces = await stack.enter_async_context(
                    self._get_wire().watch(target, accept=accept, idle_timeout=idle_timeout)
                )
            except errors.ApiStatusError as refused:
                if refused.code != 401 or not await self._renew(generation):
                    raise
                pieces = await stack.enter_async_context(
                    self._get_wire().watch(target, accept=accept, idle_timeout=idle_timeout)
                )
            yield pieces

    def _get_wire(self) -> HttpTransport:
        if self._wire is None:
            raise errors.Unreachable("the connection is closed")
        return self._wire

    async def _check_credentials(self) -> None:
        """Once in a while look whether the credentials changed, and read them anew."""
        now = asyncio.get_running_loop().time()
        if now < self._check_at:
            return
        self._check_at = now + CHECK_INTERVAL
        generation = self._generation
        if await asyncio.to_thread(credentials_module.is_stale, self.credentials):
            # What is in use may serve a while longer; where it does not, the 401 brings the reason to light.
            with contextlib.suppress(credentials_module.NoCredentials):
                async with self._renewing:
                    await self._replace(generation)

    async def _renew(self, refused_generation: int) -> bool:
        """Read the credentials anew since the server refused them; whether repeating the request makes sense."""
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if self._generation == refused_generation:
                if now < self._renew_at:
                    return False
                self._renew_at = now + RENEW_INTERVAL
            await self._replace(refused_generation)
            return True

    async def _replace(self, old_generation: int) -> None:
        """Put what the source gives now in the place of that generation, unless somebody else did so."""
        if self._generation != old_generation:
            return
        credentials, context = await asyncio.to_thread(load, self._source)
        self._generation += 1
        old = self._get_wire()
        if not old.update_token(credentials):
            self._wire = wire_module.make_wire(credentials, context)
            await old.close_when_idle()


def load(source: CredentialSource) -> tuple[Credentials, ssl.SSLContext | None]:
    """The credentials and the TLS settings that they mean. Blocks."""
    credentials = source.load()
    return credentials, wire_module.make_context(credentials)


def with_query(path: str, query: Mapping[str, str] | None) -> str:
    """The path with its query behind it."""
    return f"{path}?{encode(tuple(query.items()))}" if query else path


@functools.lru_cache(maxsize=1024)
def encode(query: tuple[tuple[str, str], ...]) -> str:
    """The parameters, quoted: all writes of one Stack have the same, and quoting takes longer than all else that is done to a path."""
    return parse.urlencode(query)
