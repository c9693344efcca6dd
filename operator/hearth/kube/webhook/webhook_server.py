"""HTTPS server for admission reviews. Runs in kopf's event loop, and calls kopf for each review.

It answers only requests under a secret path, because the API server presents no credentials, and answers may quote
objects that other clients in the cluster network must not see. Any of these clients can connect, and TLS takes 300 KB
per connection, so the number of connections is limited before TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from hearth import supervision
from hearth.kube.client import http_transport
from hearth.kube.webhook.certificates import CertificateSet
from hearth.model import limits

SHUTDOWN_TIMEOUT = 1.0
"""Seconds for reviews in progress. If a review is cut off, the API server allows the write."""
IDENTIFYING_FIELDS = ("apiVersion", "kind", "metadata")
current_request: ContextVar[dict[str, Any]] = ContextVar("current_request")
"""The complete `request` of the AdmissionReview that the handler is called for. kopf receives only the metadata,
because it copies and compares whole objects, which takes longer than the review."""
Serve: TypeAlias = Callable[..., Awaitable[Any]]
"""kopf's function that answers one AdmissionReview."""
FIRST_BYTE_TIMEOUT = 5.0
"""Seconds to wait for the first byte of a connection, which the API server sends at once."""
HANDSHAKE_TIMEOUT = 5.0
CLOSE_TIMEOUT = 1.0
"""Seconds to wait for the peer to close TLS. The connection uses memory in the meantime."""
ACCEPT_PAUSE = 0.1
"""Seconds until the next accept if the process has too many open files."""
BACKLOG = 128
CONNECTION_LIMIT = "webhook-connections"
MakeHandler: TypeAlias = Callable[[], RequestHandler]


class WebhookServer:
    """A server for kopf's `settings.admission.server`, started once there is a certificate."""

    def __init__(self, host: str, port: int, *, on_limit: Callable[[str], None] = lambda _limit: None) -> None:
        """on_limit: gets the name of a limit that is reached, for metrics; called in the loop that serves."""
        self._host, self._port = host, port
        self._on_limit = on_limit
        self._gate: ConnectionGate | None = None
        self._path = ""
        self._context = make_context()
        self._current: tuple[CertificateSet, str] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loaded = asyncio.Event()
        self._lock = threading.Lock()
        self.is_serving = False

    def load(self, certificates: CertificateSet, *, path: str) -> None:
        """Serve this certificate from the next handshake on, under this path. Callable from any thread; blocks briefly.

        Raises OSError if certificate and key do not belong together.
        """
        http_transport.load_certificate(make_context(), certificates.certificate, certificates.key)
        with self._lock:
            self._current = certificates, path
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._use_current)

    def _use_current(self) -> None:
        """Use the loaded certificate. Runs in the loop of the handshakes: OpenSSL allows no change of a context during
        one.
        """
        with self._lock:
            if self._current is not None:
                found, self._path = self._current
                http_transport.load_certificate(self._context, found.certificate, found.key)
                self._loaded.set()

    async def __call__(self, serve: Serve) -> AsyncIterator[dict[str, Any]]:
        """Serve until cancelled. Implements kopf's protocol for webhook servers."""
        with self._lock:
            self._loop, self._loaded = asyncio.get_running_loop(), asyncio.Event()
        self._use_current()
        await self._loaded.wait()
        app = web.Application(client_max_size=limits.ADMISSION_BYTES)

        async def answer(request: web.Request) -> web.StreamResponse:
            return await self._handle_review(request, serve)

        app.add_routes([web.post("/{path:.*}", answer)])
        runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT)
        await runner.setup()
        server = runner.server
        assert server is not None  # noqa: S101 -- it was just set up
        gate = self._gate = ConnectionGate(server, self._context, on_limit=self._on_limit)
        try:
            await gate.start(self._host, self._port)
            self.is_serving = True
            yield {}
            await asyncio.Event().wait()
        finally:
            self.is_serving = False
            await gate.stop()
            await runner.cleanup()

    async def _handle_review(self, request: web.Request, serve: Serve) -> web.StreamResponse:
        path, _, webhook = request.path.rpartition("/")
        if not hmac.compare_digest(path.encode(errors="replace"), self._path.encode()):
            raise web.HTTPNotFound
        if self._gate is not None:
            self._gate.trust(request.protocol)
        try:
            review = orjson.loads(await request.read())
            whole = review["request"]
            review = {
                **review,
                "request": {**whole, **{key: identify(whole.get(key)) for key in ("object", "oldObject")}},
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise web.HTTPBadRequest from error
        current_request.set(whole)
        try:
            answer = orjson.dumps(await serve(review, webhook=webhook))
        except Exception as error:
            # The API server allows the write after this response. This module does not know kopf's error classes.
            supervision.report("admission", error)
            raise web.HTTPInternalServerError from error
        return web.Response(body=answer, content_type="application/json")


def make_context() -> ssl.SSLContext:
    """Return TLS settings of a server, without a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def identify(raw: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the object without anything but its identity and metadata."""
    return None if raw is None else {key: raw[key] for key in IDENTIFYING_FIELDS if key in raw}


@dataclass(slots=True, eq=False)
class GateConnection:
    """One connection."""

    plain: socket.socket
    opening: asyncio.Task[None] | None = None
    """Waits for the first byte and then for the end of the handshake."""
    handler: RequestHandler | None = None
    """Serves one connection. Its transport is None before the handshake and after the end."""
    owner: str | None = None
    """The user who is known to send the requests, "" if the peer knows the secret path; None for strangers."""

    @property
    def is_open(self) -> bool:
        """Return whether it takes memory."""
        is_opening = self.opening is not None and not self.opening.done()
        return is_opening or (self.handler is not None and self.handler.transport is not None)

    def abort(self) -> None:
        """Close the connection immediately."""
        if self.opening is not None:
            self.opening.cancel()
        if self.handler is not None and self.handler.transport is not None:
            self.handler.transport.abort()


class ConnectionGate:
    """Accepts connections from `start` to `stop`, in one event loop, and passes each to its own handler.

    Until its first byte arrives, a connection costs only a file descriptor. When there are too many connections, those
    without a review are closed first.
    """

    def __init__(
        self,
        make_handler: MakeHandler,
        context: ssl.SSLContext | None,
        *,
        most: int = limits.WEBHOOK_CONNECTIONS,
        most_of_owner: int | None = None,
        on_limit: Callable[[str], None] = lambda _limit: None,
    ) -> None:
        """context: None for connections without TLS; most: connections at the same time; most_of_owner: connections of one
        owner that are trusted, None for all; on_limit: gets the name of the limit when it is reached.
        """
        self._make_handler = make_handler
        self._context = context
        self._most = most
        self._most_of_owner = most_of_owner if most_of_owner is not None else most
        self._on_limit = on_limit
        self._connections: dict[GateConnection, None] = {}
        """The open connections, oldest first."""
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port. Raises OSError."""
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, *_, address in dict.fromkeys(found):
                self._listening.append(listen(family, address))
        except OSError:
            await self.stop()
            raise
        self._accepting = [
            supervision.spawn_forever("webhook_accept", lambda each=each: self._accept(each))  # type: ignore[misc]  # mypy infers no type of it
            for each in self._listening
        ]
        return int(self._listening[0].getsockname()[1])

    async def stop(self) -> None:
        """Accept no more, and end attempts that have not become a connection yet; the server ends its own."""
        for task in self._accepting:
            task.cancel()
        opening = [each.opening for each in self._connections if each.opening is not None]
        for task in opening:
            task.cancel()
        await asyncio.gather(*self._accepting, *opening, return_exceptions=True)
        for listening in self._listening:
            listening.close()
        self._connections.clear()

    def trust(self, handler: object, owner: str = "") -> None:
        """Keep the connection of this handler when others must be closed. owner: a user, whose trusted connections are few."""
        connection = next((each for each in self._connections if each.handler is handler), None)
        if connection is None or connection.owner == owner:
            return
        own = sum(each.owner == owner and each.is_open for each in self._connections)
        connection.owner = owner if own < self._most_of_owner else None

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                plain, _ = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            self._make_room()
            connection = GateConnection(plain)
            connection.opening = supervision.start(self._open(connection), name="webhook connection")
            self._connections[connection] = None

    def _make_room(self) -> None:
        """Close the oldest connection without a review if there are too many."""
        if len(self._connections) < self._most:
            return
        self._connections = {each: None for each in self._connections if each.is_open}
        if len(self._connections) >= self._most:
            others = (each for each in self._connections if each.owner is None)
            oldest = next(others, None) or next(iter(self._connections))
            del self._connections[oldest]
            oldest.abort()
            self._on_limit(CONNECTION_LIMIT)

    async def _open(self, connection: GateConnection) -> None:
        """Serve the connection, with TLS if there is a certificate, once the peer sends something. Any other behavior of the peer is ignored."""

        def make_handler() -> RequestHandler:
            connection.handler = self._make_handler()
            return connection.handler

        try:
            async with asyncio.timeout(FIRST_BYTE_TIMEOUT):
                await wait_readable(connection.plain)
            tls = self._context is not None
            await asyncio.get_running_loop().connect_accepted_socket(
                make_handler,
                connection.plain,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT if tls else None,
                ssl_shutdown_timeout=CLOSE_TIMEOUT if tls else None,
            )
        except BaseException as error:
            connection.plain.close()
            if not isinstance(error, OSError):
                raise


def listen(family: int, address: object) -> socket.socket:
    """Return a listening socket. Raises OSError."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # After a restart, the address may still be in use, while the last connections of the previous server close.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)  # type: ignore[arg-type]  # as getaddrinfo gave it
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


async def wait_readable(plain: socket.socket) -> None:
    """Wait until something was sent, and read none of it."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(plain, note)
    try:
        await readable
    finally:
        with contextlib.suppress(ValueError, OSError):
            loop.remove_reader(plain)
