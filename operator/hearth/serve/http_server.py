"""HTTP server of the process: `/healthz` and `/readyz` for the kubelet, and `/metrics` for Prometheus.

Written directly on asyncio streams, because it only answers GET for three paths. Each connection carries one request,
limited in size and time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TypeAlias

from hearth.model import limits, value_class
from hearth.serve import metrics
from hearth.settings import Address

Check: TypeAlias = Callable[[], Sequence[str]]
"""Returns the present problems, one sentence each; empty if there are none."""

REQUEST_LIMIT = 16 * 1024
"""Maximum bytes of a request with its headers; scrapers send a few hundred."""
TIMEOUT = 10.0
"""Seconds for one request and its response, so that idle connections do not accumulate."""
TEXT = "text/plain; charset=utf-8"


class CannotListen(Exception):
    """The address is not available; the user must set another."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The functions that provide the content of the three paths."""

    alive: Check
    ready: Check
    metrics: Callable[[], bytes]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """A response."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


class HttpServer:
    """Serves the endpoints from `start` to `stop`, in the event loop that starts it."""

    def __init__(self, endpoints: Endpoints, *, on_limit: Callable[[str], None] = lambda _limit: None) -> None:
        """on_limit: gets the name of a limit that is reached, for metrics."""
        self._pages = endpoints
        self._server: asyncio.Server | None = None
        self._on_limit = on_limit
        self._connections: dict[asyncio.Task[None], None] = {}
        """The open connections, oldest first."""

    async def start(self, address: Address) -> Address:
        """Start to listen, and return the address with its actual port. Raises `CannotListen`."""
        try:
            self._server = await asyncio.start_server(
                self._serve, host=address.host, port=address.port, limit=REQUEST_LIMIT
            )
        except OSError as error:
            raise CannotListen(
                f"cannot listen on {address}: {error.strerror or error}; set another address with --http-address"
            ) from error
        return Address(host=address.host, port=self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening, and close open connections."""
        if self._server is None:
            return
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- streams call this within a task of their own
        self._make_room()
        self._connections[task] = None
        try:
            # Ignore peers that disconnect, time out or send invalid requests.
            with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(TIMEOUT):
                    await answer(reader, writer, self._pages)
        finally:
            self._connections.pop(task, None)
            writer.close()

    def _make_room(self) -> None:
        """Close the oldest connection if there are too many. A health check sends its request at once and gets its response."""
        if len(self._connections) >= limits.HTTP_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
            self._on_limit("http-connections")


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoints: Endpoints) -> None:
    """Read one request and write its answer."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        head = b""
    except asyncio.IncompleteReadError:
        return
    method, target = parse_request_line(head)
    writer.write(write_response(respond(method, target, endpoints), has_body=method != "HEAD"))
    await writer.drain()


def parse_request_line(head: bytes) -> tuple[str, str]:
    """Parse method and path without the query; both are empty if this is not a request."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return "", ""
    return words[0], words[1].partition("?")[0]


def respond(method: str, path: str, endpoints: Endpoints) -> HttpReply:
    """Return the reply."""
    if not method:
        return HttpReply(status=HTTPStatus.BAD_REQUEST, body=b"this is no HTTP/1.1 request of a sensible size\n")
    if method not in ("GET", "HEAD"):
        return HttpReply(status=HTTPStatus.METHOD_NOT_ALLOWED, body=b"only GET and HEAD are served\n")
    match path:
        case "/healthz":
            return health_reply(endpoints.alive())
        case "/readyz":
            return health_reply(endpoints.ready())
        case "/metrics":
            return HttpReply(status=HTTPStatus.OK, body=endpoints.metrics(), content_type=metrics.CONTENT_TYPE)
        case _:
            return HttpReply(status=HTTPStatus.NOT_FOUND, body=b"not found; there are /healthz, /readyz and /metrics\n")


def health_reply(troubles: Sequence[str]) -> HttpReply:
    """Return `ok`, or one line per problem."""
    if not troubles:
        return HttpReply(status=HTTPStatus.OK, body=b"ok\n")
    body = "".join(f"{trouble}\n" for trouble in troubles)
    return HttpReply(status=HTTPStatus.SERVICE_UNAVAILABLE, body=body.encode())


def write_response(reply: HttpReply, *, has_body: bool) -> bytes:
    """Return the reply as bytes."""
    allow = "Allow: GET, HEAD\r\n" if reply.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\n"
        f"Content-Type: {reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n"
        f"{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (reply.body if has_body else b"")
