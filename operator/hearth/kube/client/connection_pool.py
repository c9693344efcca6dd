"""Sends requests over persistent HTTP/1.1 connections and returns complete responses.

Supports only the subset of HTTP that a JSON API needs. aiohttp takes four times the CPU time, a fifth of the cost of a
child's write. It still handles streams and proxies.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import cast

import yarl

from hearth import supervision
from hearth.kube.auth.foreign_servers import Traffic
from hearth.kube.client.http_response import HttpResponse, HttpResponseParser, MalformedResponse
from hearth.model import limits

KEEP_ALIVE = 60.0
"""Seconds that an idle connection stays open; less than the API server's own 90, so that the server is not the first to
close it."""
SPARE_CONNECTIONS = 8
"""Idle connections that stay open for the next burst. Each takes some 50 KiB, mostly TLS buffers."""
SPARE_TIMEOUT = 5.0
"""Seconds after which the other idle connections are closed."""
CONNECT_TIMEOUT = 10.0
"""Seconds to connect, including TLS; a healthy server needs milliseconds."""
REPEATABLE = frozenset({"GET", "DELETE"})
"""Methods that may be sent again if the server closed an idle connection at the moment of its reuse."""


class ConnectionDropped(ConnectionError):
    """Error for a connection that ended before any part of a response arrived."""


class HttpConnection(asyncio.Protocol):
    """One connection, which serves one request at a time."""

    def __init__(self, *, most: int) -> None:
        """most: bytes of an inflated answer."""
        self._most = most
        self.idle_since = 0.0
        """Seconds of the loop's clock."""
        self.is_open = False
        self._transport: asyncio.WriteTransport | None = None
        self._reader = HttpResponseParser(most=most)
        self._answer: asyncio.Future[HttpResponse] | None = None

    async def request(self, request: bytes, *, until: float) -> HttpResponse:
        """Send a request and return the response if it arrives before `until` (by the loop's clock).

        After an error or a cancellation, the connection is unusable.
        """
        if self._transport is None:
            # The server closed the connection before the caller could use it.
            raise ConnectionDropped("the server closed the connection")
        self._reader = HttpResponseParser(most=self._most)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[HttpResponse] = loop.create_future()
        self._answer = answer
        # An asyncio timeout scope would take three times as long, which is as long as reading the response.
        timer = loop.call_at(until, self._fail, TimeoutError("none came in time"))
        self._transport.write(request)
        try:
            return await answer
        finally:
            timer.cancel()
            self._answer = None

    def close(self) -> None:
        """Close the connection at once; a pending request fails."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement `asyncio.Protocol`."""
        self._transport, self.is_open = cast(asyncio.WriteTransport, transport), True

    def data_received(self, data: bytes) -> None:
        """Implement `asyncio.Protocol`."""
        if self._answer is None or self._answer.done():
            # There is no pending request.
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
        """Implement `asyncio.Protocol`."""
        # The pool keeps idle connections until it needs one, but their TLS buffers must not stay as long.
        self.is_open, self._transport = False, None
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
    """Connections to one server, created on demand and reused, the most recently used one first."""

    def __init__(
        self,
        server: str,
        *,
        context: ssl.SSLContext | None,
        server_name: str | None,
        agent: str,
        traffic: Traffic | None = None,
    ) -> None:
        """Create an empty pool.

        server: `https://host:port`, optionally with a path; server_name: in its certificate, if not the host;
        traffic: the account of a server that is not trusted.
        """
        self._traffic = traffic
        url = yarl.URL(server)
        self._host, self._port = url.host or "", url.port or 443
        self._context = context
        self._server_name = (server_name or self._host) if context is not None else None
        self._path = url.raw_path.rstrip("/")
        authority = url.raw_authority.rpartition("@")[2]
        self._common = f"Host: {authority}\r\nUser-Agent: {agent}\r\n"
        self._links: set[HttpConnection] = set()
        self._idle: list[HttpConnection] = []
        """Idle connections; the most recently used one is last."""
        self._closes_spare = False
        """Whether a timer runs that closes spare connections."""
        self._is_closed = False

    async def send(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes | None, seconds: float
    ) -> HttpResponse:
        """Send a request and return the complete response. target: quoted; seconds: for the whole response.

        Raises OSError (including `MalformedResponse`), TimeoutError, or ValueError if a header cannot be sent.
        """
        request = self._write_out(method, target, headers, body)
        until = asyncio.get_running_loop().time() + seconds
        while (connection := self._find_idle()) is not None:
            try:
                return await self._send_request(connection, request, until)
            except ConnectionDropped:
                if method not in REPEATABLE:
                    raise
        return await self._send_request(await self._connect(until), request, until)

    def close(self) -> None:
        """Close all connections permanently; pending requests fail."""
        self._is_closed = True
        for connection in self._links:
            connection.close()
        self._links.clear()
        self._idle.clear()

    async def _send_request(self, connection: HttpConnection, request: bytes, until: float) -> HttpResponse:
        may_go_on = False
        try:
            answer = await connection.request(request, until=until)
            may_go_on = answer.keep_alive and connection.is_open
        finally:
            if may_go_on and connection in self._links:
                connection.idle_since = asyncio.get_running_loop().time()
                self._idle.append(connection)
                self._watch_spare()
            else:
                # A response that is still to come must not be assigned to another request.
                self._links.discard(connection)
                connection.close()
        return answer

    def _watch_spare(self) -> None:
        if len(self._idle) > SPARE_CONNECTIONS and not self._closes_spare:
            self._closes_spare = True
            supervision.call_later(SPARE_TIMEOUT, self._close_spare)

    def _close_spare(self) -> None:
        """Close the idle connections that the last burst needed."""
        self._closes_spare = False
        oldest = asyncio.get_running_loop().time() - SPARE_TIMEOUT
        while len(self._idle) > SPARE_CONNECTIONS and self._idle[0].idle_since <= oldest:
            connection = self._idle.pop(0)
            self._links.discard(connection)
            connection.close()
        self._watch_spare()

    def _find_idle(self) -> HttpConnection | None:
        """Return the most recently used connection that the server has not closed, if any."""
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.idle_since >= oldest:
                return connection
            self._links.discard(connection)
            connection.close()
        return None

    async def _connect(self, until: float) -> HttpConnection:
        traffic, loop = self._traffic, asyncio.get_running_loop()
        connection = HttpConnection(most=traffic.body_bytes if traffic is not None else limits.BODY_BYTES)
        async with asyncio.timeout_at(min(until, loop.time() + CONNECT_TIMEOUT)):
            # Connect to the address that was checked, because another resolution may return a different one.
            host = self._host
            if traffic is not None:
                traffic.on_connect()
                host = (await traffic.resolve(self._host, self._port))[0]
            await loop.create_connection(
                lambda: connection, host, self._port, ssl=self._context, server_hostname=self._server_name
            )
        if self._is_closed:
            connection.close()
            raise ConnectionAbortedError("the connection was closed")
        self._links.add(connection)
        return connection

    def _write_out(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if lines.count("\r") + lines.count("\n") != 2 * len(headers) or not target.isprintable() or " " in target:
            # A line break in a request would allow the injection of another request.
            raise ValueError("a header or the path contains a line break")
        length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
        head = f"{method} {self._path}{target} HTTP/1.1\r\n{self._common}{lines}{length}\r\n"
        return head.encode() + (body or b"")
