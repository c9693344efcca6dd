"""The webhook's connections: few at a time, useless ones are closed first, and reviews are answered among thousands."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from hearth.kube.client import http_transport
from hearth.kube.webhook import certificates, webhook_server
from hearth.kube.webhook.certificates import CertificateSet
from hearth.kube.webhook.webhook_server import ConnectionGate, WebhookServer
from support import free_port
from support.units import waiting

MOST = 5
HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def pair() -> CertificateSet:
    return certificates.renew(CertificateSet(), hosts={HOST}, now=datetime.now(UTC))


class Served:
    """A gate in front of a server that answers each request, and trusts requests for `/secret` and of users: `/of-NAME`."""

    def __init__(self, pair: CertificateSet) -> None:
        self.reached: list[str] = []
        self.port = 0
        self.gate: ConnectionGate
        self._pair = pair

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/secret":
                self.gate.trust(request.protocol)
            if request.path.startswith("/of-"):
                self.gate.trust(request.protocol, request.path)
            return web.Response(text="ok")

        context = webhook_server.make_context()
        http_transport.load_certificate(context, self._pair.certificate, self._pair.key)
        self.gate = ConnectionGate(
            web.Server(answer), context, most=MOST, most_of_owner=2, on_limit=self.reached.append
        )
        self.port = await self.gate.start(HOST, 0)
        try:
            yield
        finally:
            await self.gate.stop()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that sends nothing."""
        return await asyncio.open_connection(HOST, self.port)

    async def speak(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection with TLS."""
        context = ssl.create_default_context(cadata=self._pair.authorities.decode())
        return await asyncio.open_connection(HOST, self.port, ssl=context)


async def ask(pair: tuple[asyncio.StreamReader, asyncio.StreamWriter], path: str) -> bytes:
    """The first line of the answer."""
    reader, writer = pair
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    line = await asyncio.wait_for(reader.readline(), 10)
    while await reader.readline() != b"\r\n":
        pass
    await reader.readexactly(2)
    return line


async def is_ended(pair: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bool:
    """Whether the server closes the connection soon."""
    try:
        return not await asyncio.wait_for(pair[0].read(1), 5)
    except ConnectionError:
        return True
    except TimeoutError:
        return False


async def test_the_oldest_connection_without_a_review_goes_first(pair: CertificateSet) -> None:
    served = Served(pair)
    async with served.running():
        server = await served.speak()
        assert await ask(server, "/secret") == b"HTTP/1.1 200 OK\r\n"
        idle, shaken, stranger = await served.connect(), await served.speak(), await served.speak()
        assert await ask(stranger, "/") == b"HTTP/1.1 200 OK\r\n"
        kept = [await served.connect()]
        assert served.reached == []
        for number, victim in enumerate((idle, shaken, stranger), 1):
            kept.append(await served.speak())
            assert await is_ended(victim)
            assert served.reached == [webhook_server.CONNECTION_LIMIT] * number
        assert await ask(kept[-1], "/") == b"HTTP/1.1 200 OK\r\n"
        assert await ask(server, "/secret") == b"HTTP/1.1 200 OK\r\n"


async def test_a_user_with_many_connections_loses_the_further_ones_first(pair: CertificateSet) -> None:
    served = Served(pair)
    async with served.running():
        ben = await served.speak()
        await ask(ben, "/of-ben")
        annas = [await served.speak() for _ in range(MOST - 1)]
        for connection in annas:
            await ask(connection, "/of-anna")
        strangers = []
        for further in annas[2:]:
            strangers.append(await served.speak())
            assert await is_ended(further)

        for connection in (ben, *annas[:2]):
            assert await ask(connection, "/") == b"HTTP/1.1 200 OK\r\n"


async def test_connections_that_ended_take_no_place(pair: CertificateSet) -> None:
    served = Served(pair)
    async with served.running():
        for _ in range(3 * MOST):
            reader, writer = await served.speak()
            assert await ask((reader, writer), "/") == b"HTTP/1.1 200 OK\r\n"
            writer.close()
            await writer.wait_closed()
            await waiting.wait_until(lambda: not any(each.is_open for each in served.gate._connections))
        assert served.reached == []


@pytest.mark.parametrize("sent", [b"", b"\x16", b"GET / HTTP/1.1\r\n\r\n"], ids=["silent", "half a word", "no TLS"])
async def test_a_connection_that_does_not_speak_tls_ends(
    pair: CertificateSet, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_server, "FIRST_BYTE_TIMEOUT", 0.2)
    monkeypatch.setattr(webhook_server, "HANDSHAKE_TIMEOUT", 0.2)
    served = Served(pair)
    async with served.running():
        reader, writer = await served.connect()
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 5)
        await waiting.wait_until(lambda: not any(each.is_open for each in served.gate._connections))


async def test_reviews_are_answered_beside_more_connections_than_may_be(pair: CertificateSet) -> None:
    reached: list[str] = []
    port = free_port.find_free_port()
    server = WebhookServer(HOST, port, on_limit=reached.append)
    server.load(pair, path="/secret")

    async def serve(review: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"response": review["request"]["uid"]}

    running = server(serve)
    assert isinstance(running, AsyncGenerator)
    await anext(running)
    held = [await asyncio.open_connection(HOST, port) for _ in range(400)]
    context = ssl.create_default_context(cadata=pair.authorities.decode())
    async with aiohttp.ClientSession() as session:
        url = f"https://{HOST}:{port}/secret/stacks.hearth.dev"
        async with session.post(url, json={"request": {"uid": "u"}}, ssl=context) as answer:
            assert await answer.json(content_type=None) == {"response": "u"}
    assert reached == [webhook_server.CONNECTION_LIMIT] * 201
    for _, writer in held:
        writer.close()
    await running.aclose()
