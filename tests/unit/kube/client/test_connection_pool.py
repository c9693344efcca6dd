"""Requests over keep-alive connections to a server that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from hearth.kube.client.connection_pool import SPARE_CONNECTIONS, ConnectionDropped, ConnectionPool
from hearth.kube.client.http_response import HttpResponse, MalformedResponse
from support.units import waiting

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
REQUEST = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Server:
    """Answers each connection's requests with scripted responses, and closes it at None; [] means silence."""

    plans: list[list[bytes | None]]
    """One plan per connection; the last one serves all further connections."""
    heard: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plan = list(self.plans[min(len(self.writers), len(self.plans) - 1)])
        self.writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heard.append(head)
                self.asked.set()
                answer = plan.pop(0) if plan else b""
                if answer is None:
                    break
                writer.write(answer)
        writer.close()


@contextlib.asynccontextmanager
async def run(*plans: list[bytes | None], path: str = "") -> AsyncIterator[tuple[Server, ConnectionPool]]:
    """A server, and a pool of connections to it."""
    server = Server(list(plans))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = ConnectionPool(f"http://127.0.0.1:{port}{path}", context=None, server_name=None, agent="test/1")
    try:
        yield server, pool
    finally:
        pool.close()
        listening.close()


async def send(pool: ConnectionPool, method: str = "GET", *, seconds: float = 5.0, **headers: str) -> HttpResponse:
    return await pool.send(method, "/x?y=z", headers=headers, body=None, seconds=seconds)


async def test_a_request_is_written_out() -> None:
    async with run([OK], path="/prefix") as (server, pool):
        await pool.send("PATCH", "/x?y=z", headers={"Accept": "a"}, body=b"", seconds=5)
        host = pool._common.split("\r\n")[0]
        assert server.heard == [
            f"PATCH /prefix/x?y=z HTTP/1.1\r\n{host}\r\nUser-Agent: test/1\r\nAccept: a\r\nContent-Length: 0\r\n\r\n".encode()
        ]
        assert host.startswith("Host: 127.0.0.1:")


async def test_a_connection_is_used_again() -> None:
    async with run([OK, OK]) as (server, pool):
        assert [(await send(pool)).body, (await send(pool)).body] == [b"{}", b"{}"]
        assert len(server.writers) == 1


async def test_requests_at_once_have_connections_of_their_own() -> None:
    async with run([OK, OK]) as (server, pool):
        await asyncio.gather(*(send(pool) for _ in range(3)))
        assert len(server.writers) == 3


async def test_a_connection_that_the_server_ends_is_not_used_again() -> None:
    async with run([LAST], [OK, None], [OK]) as (server, pool):
        await send(pool)
        await send(pool)
        assert len(server.writers) == 2
        server.writers[1].close()
        await waiting.wait_until(lambda: not any(link.is_open for link in pool._links))
        await send(pool, "PATCH")
        assert len(server.writers) == 3


async def test_an_idle_connection_that_the_server_ends_keeps_no_buffers() -> None:
    async with run([OK]) as (server, pool):
        await send(pool)
        left = weakref.ref(next(iter(pool._links))._transport)
        server.writers[0].close()
        await waiting.wait_until(lambda: not any(link.is_open for link in pool._links))
        # The transport of this event loop refers to itself.
        gc.collect()
        assert left() is None


async def test_a_connection_that_ends_before_its_first_request_fails_at_once() -> None:
    async with run([OK]) as (server, pool), asyncio.timeout(10):
        soon = asyncio.get_running_loop().time() + 1000
        link = await pool._connect(soon)
        await waiting.wait_until(lambda: bool(server.writers))
        server.writers[0].close()
        await waiting.wait_until(lambda: not link.is_open)
        with pytest.raises(ConnectionDropped):
            await pool._send_request(link, b"", soon)
        assert pool._links == set()


async def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth.kube.client.connection_pool.KEEP_ALIVE", -1.0)
    async with run([OK, OK]) as (server, pool):
        await send(pool)
        await send(pool)
        assert len(server.writers) == 2


async def test_what_only_a_burst_needs_is_closed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth.kube.client.connection_pool.SPARE_TIMEOUT", 0.01)
    async with run([OK, OK]) as (_, pool):
        soon = asyncio.get_running_loop().time() + 1000
        links = [await pool._connect(soon) for _ in range(SPARE_CONNECTIONS + 4)]
        await asyncio.gather(*(pool._send_request(link, REQUEST, soon) for link in links[1:]))
        await waiting.wait_until(lambda: len(pool._links) == SPARE_CONNECTIONS + 1)
        assert links[0].is_open
        assert links[0] in pool._links
        assert sum(link.is_open for link in links) == SPARE_CONNECTIONS + 1


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_may_be_repeated_is_where_an_idle_connection_turns_out_closed(method: str) -> None:
    async with run([OK, None], [OK]) as (server, pool):
        await send(pool)
        assert (await send(pool, method)).code == 200
        assert len(server.writers) == 2


async def test_a_write_is_not_repeated() -> None:
    async with run([OK, None], [OK]) as (server, pool):
        await send(pool)
        with pytest.raises(ConnectionDropped):
            await send(pool, "PATCH")
        assert len(server.writers) == 1


async def test_a_fresh_connection_without_an_answer_is_not_repeated() -> None:
    async with run([None]) as (server, pool):
        with pytest.raises(ConnectionDropped):
            await send(pool)
        assert len(server.writers) == 1


@pytest.mark.parametrize("answer", [OK[:-1], b"HTTP/2 200\r\n\r\n"], ids=["cut", "malformed"])
async def test_half_an_answer_is_none(answer: bytes) -> None:
    async with run([answer, None], [OK]) as (server, pool):
        sending = asyncio.ensure_future(send(pool))
        await server.asked.wait()
        await waiting.wait_until(lambda: sending.done() or pool._links != set())
        server.writers[0].close()
        with pytest.raises(MalformedResponse):
            await sending
        assert len(server.writers) == 1


async def test_a_late_answer_is_nobodys() -> None:
    async with run([b""], [OK]) as (server, pool):
        with pytest.raises(TimeoutError):
            await send(pool, seconds=0.05)
        server.writers[0].write(OK.replace(b"200 OK", b"500 No"))
        assert (await send(pool)).code == 200
        assert len(server.writers) == 2


async def test_what_was_not_requested_ends_the_connection() -> None:
    async with run([OK + OK.replace(b"200 OK", b"500 No")], [OK]) as (_, pool):
        await send(pool)
        assert (await send(pool)).code == 200
    async with run([OK], [OK]) as (server, pool):
        await send(pool)
        server.writers[0].write(OK.replace(b"200 OK", b"500 No"))
        await waiting.wait_until(lambda: not any(link.is_open for link in pool._links))
        assert (await send(pool)).code == 200


async def test_a_waiting_caller_is_notified_when_the_pool_is_closed() -> None:
    async with run([OK, b""], [OK]) as (server, pool):
        await send(pool)
        server.asked.clear()
        sending = asyncio.ensure_future(send(pool))
        await server.asked.wait()
        pool.close()
        with pytest.raises(ConnectionError):
            await sending
        with pytest.raises(ConnectionError):
            await send(pool)
        assert len(server.heard) == 2


async def test_a_header_cannot_hold_another_one() -> None:
    async with run([OK]) as (server, pool):
        with pytest.raises(ValueError, match="line"):
            await send(pool, Accept="a\r\nImpersonate-User: admin")
        with pytest.raises(ValueError, match="line"):
            await pool.send("GET", "/x HTTP/1.1\r\n", headers={}, body=None, seconds=1)
        assert server.heard == []
