"""A proxy between a client under test and a real API server that injects faults for a test.

Speaks plain HTTP on this machine and forwards over the server's TLS as the account in the credentials. It handles plain
requests and the lines of watches.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import aiohttp
import orjson
from aiohttp import web

from hearth.kube.auth.credentials import Credentials
from hearth.kube.client import http_transport
from support.change_signal import Pulse

Line: TypeAlias = bytes
Filter: TypeAlias = Callable[[Line], Line | None]
"""Returns the line that the client receives instead, or None for no line."""

PASSED_ON = frozenset({"accept", "content-type", "impersonate-user"})
TOO_MANY = 429
ANSWERED_ON = frozenset({"content-type", "retry-after"})


@dataclass(slots=True, kw_only=True, eq=False)
class Refusal:
    """A response that the proxy itself sends to requests."""

    code: int
    where: str
    """Part of the path and query of the affected requests."""
    times: int | None
    """Number of affected requests; None for all until the fault is removed."""
    retry_after: int | None = None
    given: int = 0

    def serves(self, target: str) -> bool:
        """Whether this request gets the refusal."""
        return self.where in target and (self.times is None or self.given < self.times)

    def lift(self) -> None:
        """Stop the refusals."""
        self.times = 0


@dataclass(slots=True, eq=False)
class LiveStream:
    """An open watch."""

    target: str
    request: web.BaseRequest
    response: web.StreamResponse

    async def say(self, piece: bytes) -> None:
        """Send this line to the client next."""
        await self.response.write(piece)

    def cut(self) -> None:
        """Break the connection, even in the middle of a line."""
        if self.request.transport is not None:
            self.request.transport.abort()


@dataclass(slots=True, eq=False)
class FaultProxy:
    """The injected faults, and the recorded traffic. Every event sends a pulse."""

    session: aiohttp.ClientSession
    credentials: Credentials
    pulse: Pulse
    url: str = ""
    targets: list[str] = field(default_factory=list)
    """Path and query of every request, in order."""
    moments: list[float] = field(default_factory=list)
    """The loop's time of each request."""
    streams: list[LiveStream] = field(default_factory=list)
    """The open watches."""
    refusals: list[Refusal] = field(default_factory=list)
    filter: Filter | None = None
    """Applied to every line of every watch, and to the bodies of lists."""
    flow: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, watches stay open but send nothing."""
    delay: float = 0.0
    """Delay of every response in seconds."""
    losses: int = 0
    """Number of the next writes that take effect but whose responses are lost."""
    losses_where: str = ""
    """Part of the path and query of these writes."""

    def refuse(
        self, code: int, *, where: str = "", times: int | None = None, retry_after: int | None = None
    ) -> Refusal:
        """Answer matching requests with that code from now on."""
        refusal = Refusal(code=code, where=where, times=times, retry_after=retry_after)
        self.refusals.append(refusal)
        return refusal

    def cut(self) -> None:
        """Break every open watch, like a killed server."""
        for stream in self.streams:
            stream.cut()

    async def say(self, piece: bytes) -> None:
        """Send this line to the client of every watch next."""
        for stream in self.streams:
            await stream.say(piece)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Refuse, or pass on."""
        target = request.path_qs
        self.targets.append(target)
        self.moments.append(asyncio.get_running_loop().time())
        self.pulse.beat()
        for refusal in self.refusals:
            if refusal.serves(target):
                refusal.given += 1
                return make_refusal(refusal)
        headers = {name: value for name, value in request.headers.items() if name.lower() in PASSED_ON}
        # Pass responses unchanged and omit the compression header, because the API server compresses large responses.
        headers["Accept-Encoding"] = "identity"
        if self.credentials.authorization is not None:
            headers["Authorization"] = self.credentials.authorization
        body = await request.read()
        await asyncio.sleep(self.delay)
        async with self.session.request(
            request.method, self.credentials.server + target, headers=headers, data=body or None
        ) as answer:
            if "watch=1" in target and answer.status == 200:
                return await self._pass_stream(request, answer)
            passed = await self._pass_answer(answer)
        is_loss = self.losses and request.method != "GET" and self.losses_where in target
        if is_loss and request.transport is not None:
            self.losses -= 1
            request.transport.abort()
            self.pulse.beat()
        return passed

    async def _pass_answer(self, answer: aiohttp.ClientResponse) -> web.Response:
        body: bytes | None = await answer.read()
        if self.filter is not None and body is not None:
            body = self.filter(body)
        return web.Response(status=answer.status, body=body, headers=keep(answer.headers))

    async def _pass_stream(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers=keep(answer.headers))
        response.enable_chunked_encoding()
        await response.prepare(request)
        stream = LiveStream(request.path_qs, request, response)
        self.streams.append(stream)
        self.pulse.beat()
        try:
            # Ignore clients that disconnect and connections that are cut.
            with contextlib.suppress(ConnectionError, aiohttp.ClientError):
                await self._pass_lines(answer, stream)
        finally:
            self.streams.remove(stream)
            self.pulse.beat()
        return response

    async def _pass_lines(self, answer: aiohttp.ClientResponse, stream: LiveStream) -> None:
        rest = b""
        async for piece in answer.content.iter_any():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                await self.flow.wait()
                passed = line if self.filter is None else self.filter(line)
                if passed is not None:
                    await stream.say(passed + b"\n")
            self.pulse.beat()


Proxy = TypeVar("Proxy", bound=FaultProxy)


def make_refusal(refusal: Refusal) -> web.Response:
    """The response with a Status as from a real server, except for its flow control."""
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    if refusal.code == TOO_MANY:
        return web.Response(status=refusal.code, text="Too many requests, please try again later.", headers=headers)
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": refusal.code, "message": "by the test"}
    return web.Response(
        status=refusal.code, body=orjson.dumps(status), headers=headers, content_type="application/json"
    )


def keep(headers: aiohttp.typedefs.LooseHeaders) -> dict[str, str]:
    """The headers of a response that matter to the client."""
    return {name: value for name, value in dict(headers).items() if str(name).lower() in ANSWERED_ON}


@contextlib.asynccontextmanager
async def run_proxy(credentials: Credentials, *, pulse: Pulse) -> AsyncIterator[FaultProxy]:
    """Run a proxy to that server on a free port of this machine, initially without faults."""
    async with run_proxy_of(FaultProxy, credentials, pulse=pulse) as proxy:
        yield proxy


@contextlib.asynccontextmanager
async def run_proxy_of(made: type[Proxy], credentials: Credentials, *, pulse: Pulse) -> AsyncIterator[Proxy]:
    """The same for a subclass of the proxy."""
    session = http_transport.make_session(credentials, http_transport.make_context(credentials))
    proxy = made(session, credentials, pulse)
    proxy.flow.set()
    runner = web.ServerRunner(web.Server(proxy.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield proxy
    finally:
        proxy.cut()
        await runner.cleanup()
        await session.close()
