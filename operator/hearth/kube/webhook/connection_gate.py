"""The listening socket of the webhook: bounds the connections before TLS, which takes 300 KB for each of them.

Anyone in the cluster's network may connect. A connection costs a file until its first byte arrives; when there are too
many, those go first that have asked for no review. Must not know what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp.web_protocol import RequestHandler

from hearth import supervision
from hearth.model import limits

FIRST_BYTE_TIMEOUT = 5.0
"""Seconds until the first byte of a connection; the API server sends it at once."""
HANDSHAKE_TIMEOUT = 5.0
CLOSE_TIMEOUT = 1.0
"""Seconds for the peer's end of TLS. Its memory is held meanwhile."""
ACCEPT_PAUSE = 0.1
"""Seconds until the next attempt where the process has too many open files."""
BACKLOG = 128
LIMIT = "webhook-connections"

MakeHandler: TypeAlias = Callable[[], RequestHandler]


@dataclass(slots=True, eq=False)
class Connection:
    """One connection."""

    plain: socket.socket
    opening: asyncio.Task[None] | None = None
    """Waits for the first byte, and for the end of the handshake."""
    handler: RequestHandler | None = None
    """Serves what is sent; its transport is None before the handshake, and after the end."""
    is_trusted: bool = False
    """Whether its peer knows the secret path."""

    @property
    def is_open(self) -> bool:
        """Return whether it takes memory."""
        is_opening = self.opening is not None and not self.opening.done()
        return is_opening or (self.handler is not None and self.handler.transport is not None)

    def abort(self) -> None:
        """End it at once."""
        if self.opening is not None:
            self.opening.cancel()
        if self.handler is not None and self.handler.transport is not None:
            self.handler.transport.abort()


class ConnectionGate:
    """Accepts connections from `start` to `stop`, in one event loop, and hands each to a handler of its own."""

    def __init__(
        self,
        make_handler: MakeHandler,
        context: ssl.SSLContext,
        *,
        most: int = limits.WEBHOOK_CONNECTIONS,
        on_limit: Callable[[str], None] = lambda _limit: None,
    ) -> None:
        """most: connections at the same time; on_limit: gets the name of the limit when it is reached."""
        self._make_handler = make_handler
        self._context = context
        self._most = most
        self._on_limit = on_limit
        self._connections: dict[Connection, None] = {}
        """The oldest first."""
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
        """Accept no more, and end what has not become a connection yet; the server ends its own."""
        for task in self._accepting:
            task.cancel()
        opening = [each.opening for each in self._connections if each.opening is not None]
        for task in opening:
            task.cancel()
        await asyncio.gather(*self._accepting, *opening, return_exceptions=True)
        for listening in self._listening:
            listening.close()
        self._connections.clear()

    def trust(self, handler: object) -> None:
        """Keep the connection of this handler when others must go."""
        for each in self._connections:
            if each.handler is handler:
                each.is_trusted = True

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                plain, _ = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            self._make_room()
            connection = Connection(plain)
            connection.opening = supervision.start(self._open(connection), name="webhook connection")
            self._connections[connection] = None

    def _make_room(self) -> None:
        """Close the oldest connection without a review if there are too many."""
        if len(self._connections) < self._most:
            return
        self._connections = {each: None for each in self._connections if each.is_open}
        if len(self._connections) >= self._most:
            others = (each for each in self._connections if not each.is_trusted)
            oldest = next(others, None) or next(iter(self._connections))
            del self._connections[oldest]
            oldest.abort()
            self._on_limit(LIMIT)

    async def _open(self, connection: Connection) -> None:
        """Speak TLS once the peer does. What it does instead is no matter of ours."""

        def make_handler() -> RequestHandler:
            connection.handler = self._make_handler()
            return connection.handler

        try:
            async with asyncio.timeout(FIRST_BYTE_TIMEOUT):
                await wait_readable(connection.plain)
            await asyncio.get_running_loop().connect_accepted_socket(
                make_handler,
                connection.plain,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
                ssl_shutdown_timeout=CLOSE_TIMEOUT,
            )
        except BaseException as error:
            connection.plain.close()
            if not isinstance(error, OSError):
                raise


def listen(family: int, address: object) -> socket.socket:
    """Return a listening socket. Raises OSError."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A restarted server may bind while the last connections of its predecessor still close.
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
