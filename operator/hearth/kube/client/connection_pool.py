"""Requests with a whole answer each, over HTTP/1.1 connections that are kept: the little of HTTP that a JSON API needs.

aiohttp can do all of this and does it at four times the CPU, which was a fifth of what a write of a child cost. Streams
and proxies are left to it. Must not know Kubernetes, nor what an answer means.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import cast

import yarl

from hearth.kube.client.http_response import HttpResponse, HttpResponseParser, MalformedResponse

KEEP_ALIVE = 60.0
"""Seconds; below the API server's own 90, so that it is not the server who closes first."""
CONNECT_TIMEOUT = 10.0
"""Seconds, TLS included; a server that is up needs milliseconds."""
REPEATABLE = frozenset({"GET", "DELETE"})
"""May be sent again where the server closed an idle connection at the very moment at which it was used again."""


class ConnectionDropped(ConnectionError):
    """The connection ended before any part of an answer came."""


class HttpConnection(asyncio.Protocol):
    """One connection, which serves one request at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        """Seconds of the loop's clock."""
        self.is_open = False
        self._transport: asyncio.WriteTransport | None = None
        self._reader = HttpResponseParser()
        self._answer: asyncio.Future[HttpResponse] | None = None

    async def request(self, request: bytes, *, until: float) -> HttpResponse:
        """The answer, where it is there by then (by the loop's clock).

        The connection is of no use any more where this raises, or is cancelled.
        """
        assert self._transport is not None  # noqa: S101 -- whoever has a link has a connection
        self._reader = HttpResponseParser()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[HttpResponse] = loop.create_future()
        self._answer = answer
        # A scope of asyncio around it would take three times as long, which is as long as to read the answer.
        timer = loop.call_at(until, self._fail, TimeoutError("none came in time"))
        self._transport.write(request)
        try:
            return await answer
        finally:
            timer.cancel()
            self._answer = None

    def close(self) -> None:
        """End it at once; whoever waits for an answer is told."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio says."""
        self._transport, self.is_open = cast(asyncio.WriteTransport, transport), True

    def data_received(self, data: bytes) -> None:
        """As asyncio says."""
        if self._answer is None or self._answer.done():
            # Nobody asked for anything.
            self.close()
            return
        try:
            answer = self._reader.feed(data)
        except MalformedResponse as error:
            self._fail(error)
        else:
            if answer is not None:
                self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio says."""
        self.is_open = False
        if self._answer is None or self._answer.done():
            return
        if not self._reader.has_begun:
            self._fail(ConnectionDropped(str(exc) if exc is not None else "the server closed the connection"))
            return
        try:
            self._answer.set_result(self._reader.finish())
        except MalformedResponse as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()


class ConnectionPool:
    """Connections to one server, made as they are needed and used again, the one first that was used last."""

    def __init__(self, server: str, *, context: ssl.SSLContext | None, server_name: str | None, agent: str) -> None:
        """server: `https://host:port`, perhaps with a path; server_name: in its certificate, where not the host."""
        url = yarl.URL(server)
        self._host, self._port = url.host or "", url.port or 443
        self._context = context
        self._server_name = (server_name or self._host) if context is not None else None
        self._path = url.raw_path.rstrip("/")
        authority = url.raw_authority.rpartition("@")[2]
        self._common = f"Host: {authority}\r\nUser-Agent: {agent}\r\n"
        self._links: set[HttpConnection] = set()
        self._idle: list[HttpConnection] = []
        self._is_closed = False

    async def send(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes | None, seconds: float
    ) -> HttpResponse:
        """The whole answer. target: quoted; seconds: for all of it.

        Raises OSError (`Malformed` among them), TimeoutError, or ValueError where a header cannot be sent.
        """
        request = self._write_out(method, target, headers, body)
        until = asyncio.get_running_loop().time() + seconds
        while (link := self._find_idle()) is not None:
            try:
                return await self._ask(link, request, until)
            except ConnectionDropped:
                if method not in REPEATABLE:
                    raise
        return await self._ask(await self._connect(until), request, until)

    def close(self) -> None:
        """End all connections, and make no other; whoever waits for an answer is told."""
        self._is_closed = True
        for link in self._links:
            link.close()
        self._links.clear()
        self._idle.clear()

    async def _ask(self, link: HttpConnection, request: bytes, until: float) -> HttpResponse:
        may_go_on = False
        try:
            answer = await link.request(request, until=until)
            may_go_on = answer.keep_alive and link.is_open
        finally:
            if may_go_on and link in self._links:
                link.idle_since = asyncio.get_running_loop().time()
                self._idle.append(link)
            else:
                # An answer that is still to come must not be taken for that of another request.
                self._links.discard(link)
                link.close()
        return answer

    def _find_idle(self) -> HttpConnection | None:
        """The connection that was used last, if there is one that the server has not closed."""
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE
        while self._idle:
            link = self._idle.pop()
            if link.is_open and link.idle_since >= oldest:
                return link
            self._links.discard(link)
            link.close()
        return None

    async def _connect(self, until: float) -> HttpConnection:
        link, loop = HttpConnection(), asyncio.get_running_loop()
        async with asyncio.timeout_at(min(until, loop.time() + CONNECT_TIMEOUT)):
            await loop.create_connection(
                lambda: link, self._host, self._port, ssl=self._context, server_hostname=self._server_name
            )
        if self._is_closed:
            link.close()
            raise ConnectionAbortedError("the connection was closed")
        self._links.add(link)
        return link

    def _write_out(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if lines.count("\r") + lines.count("\n") != 2 * len(headers) or not target.isprintable() or " " in target:
            # Whoever can write a line into a request can write a request of his own.
            raise ValueError("a header or the path holds the end of a line")
        length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
        head = f"{method} {self._path}{target} HTTP/1.1\r\n{self._common}{lines}{length}\r\n"
        return head.encode() + (body or b"")
