"""A small HTTP server with scripted responses, for faults that a real API server cannot produce on demand."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from aiohttp import web

Answer: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class StubServer:
    """Its responses, and the requests it received."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    """One response per request; the last one is repeated."""
    requests: list[web.BaseRequest] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    in_flight: int = 0
    in_flight_most: int = 0

    @property
    def asked(self) -> list[str]:
        """`METHOD /path` of each request, in order."""
        return [f"{request.method} {request.path}" for request in self.requests]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send the next scripted response."""
        self.requests.append(request)
        self.in_flight += 1
        self.in_flight_most = max(self.in_flight, self.in_flight_most)
        try:
            self.bodies.append(await request.read())
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            return await answer(request)
        finally:
            self.in_flight -= 1


@contextlib.asynccontextmanager
async def run_stub(*answers: Answer, certificate: Path | None = None) -> AsyncIterator[StubServer]:
    """A server on a free port of this machine; with a certificate, it serves HTTPS."""
    stub, context = StubServer(answers=list(answers)), None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    runner = web.ServerRunner(web.Server(stub.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    stub.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield stub
    finally:
        await runner.cleanup()


def says(body: str | bytes, *, code: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Always respond with that body."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        raw = body.encode() if isinstance(body, str) else body
        return web.Response(status=code, body=raw, headers=headers)

    return answer


def routes(answers: Mapping[str, Answer]) -> Answer:
    """Respond by `METHOD /path`; 404 in plain text for other requests. Looked up at each request, so it may change."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        found = answers.get(f"{request.method} {request.path}", says("404 page not found", code=404))
        return await found(request)

    return answer


def streams(*pieces: bytes, breaks: bool = False) -> Answer:
    """Send these pieces, then end the stream, or break the connection."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if breaks:
            tear(request)
        return response

    return answer


def waits(gate: asyncio.Event, then: Answer) -> Answer:
    """Wait until `gate` is set, then respond."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await gate.wait()
        return await then(request)

    return answer


async def hangs_up(request: web.BaseRequest) -> web.StreamResponse:
    """Break the connection without a response."""
    tear(request)
    return web.Response()


def tear(request: web.BaseRequest) -> None:
    """Close the connection during a request."""
    if request.transport is not None:
        request.transport.abort()
