"""Opens connections to API servers that are not trusted: checks their addresses, and charges and limits their traffic."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import aiohttp.abc
from aiohttp.client_proto import ResponseHandler

from hearth.kube.auth.foreign_servers import Traffic
from hearth.kube.client.response_body import MalformedResponse
from hearth.model import limits


class GuardedConnector(aiohttp.TCPConnector):
    """A connector whose connections are closed if a server sends too much in addition to bodies."""

    def __init__(self, traffic: Traffic, *, context: ssl.SSLContext | None, keep_alive: float) -> None:
        super().__init__(limit=0, ssl=context or True, keepalive_timeout=keep_alive, resolver=GuardedResolver(traffic))
        self._factory = functools.partial(make_protocol, asyncio.get_running_loop(), traffic.on_part)


class GuardedProtocol(ResponseHandler):
    """A connection that parses a limited amount of data at once, and in addition to bodies.

    aiohttp reads interim responses and extensions of chunks without end, and takes seconds for one read of interim
    responses.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_part: Callable[[float], None]) -> None:
        """on_part: gets the seconds that each part of a response took."""
        super().__init__(loop)
        self._on_part = on_part
        self._received = 0
        """Bytes since the last request."""

    def set_response_params(self, **params: Any) -> None:
        """Start a new response."""
        self._received = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Parse a part of a response."""
        started = time.perf_counter()
        self._parse(data)
        self._on_part(time.perf_counter() - started)

    def _parse(self, data: bytes) -> None:
        if len(data) <= limits.HEADER_BYTES:
            self._parse_piece(data)
            return
        for begin in range(0, len(data), limits.HEADER_BYTES):
            if self.transport is not None:
                self._parse_piece(data[begin : begin + limits.HEADER_BYTES])

    def _parse_piece(self, piece: bytes) -> None:
        super().data_received(piece)
        self._received += len(piece)
        body = self._payload.total_bytes if self._payload is not None else 0
        others = self._received - body
        if others <= (limits.FRAMING_BYTES + body if body else limits.HEADER_BYTES) or self.transport is None:
            return
        error = MalformedResponse(f"the answer has {others} bytes in addition to its body")
        self.set_exception(error)
        if self._payload is not None:
            self._payload.set_exception(error)
        self.transport.abort()


def make_protocol(loop: asyncio.AbstractEventLoop, on_part: Callable[[float], None]) -> ResponseHandler:
    """Create the protocol of a new connection."""
    return GuardedProtocol(loop, on_part)


class GuardedResolver(aiohttp.abc.AbstractResolver):
    """The resolver of sessions with a server that is not trusted."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """Return the addresses of a host."""
        addresses = await self._traffic.resolve(host, port)
        return [
            aiohttp.abc.ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
            if family in (socket.AF_UNSPEC, socket.AF_INET6 if ":" in address else socket.AF_INET)
        ]

    async def close(self) -> None:
        """Release nothing."""


def make_meter(traffic: Traffic) -> aiohttp.TraceConfig:
    """Create the trace that charges each new connection, also those to an address that need not be resolved."""

    async def charge(*_: object) -> None:
        traffic.on_connect()

    meter = aiohttp.TraceConfig()
    meter.on_connection_create_start.append(charge)
    return meter
