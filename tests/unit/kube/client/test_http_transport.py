"""Requests over keep-alive connections to a server that sends any bytes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Sequence

import pytest
from aiohttp.client_proto import ResponseHandler

from hearth.kube.auth.credentials import Credentials
from hearth.kube.client import http_transport
from hearth.kube.client.http_transport import HttpTransport
from hearth.kube.remote.tenant_share import TenantShares
from hearth.model import errors, limits
from hearth.model.child import Object
from support.real.servers.raw_server import RawServer, run_raw_server
from support.units import waiting

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
OTHER = OK.replace(b"200 OK", b"500 No")
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b'4\r\n{"a"\r\n3;name=value\r\n:1}\r\n'
TRAILER = b"Content-Encoding: gzip\r\nConnection: close\r\nRetry-After: 9\r\n\r\n"


def head(*lines: str, code: str = "200 OK", version: str = "HTTP/1.1") -> bytes:
    """The beginning of an answer."""
    return "\r\n".join([f"{version} {code}", *lines, "", ""]).encode()


@contextlib.asynccontextmanager
async def run(
    *plans: Sequence[bytes | None], path: str = "", is_foreign: bool = False, closes: bool = False
) -> AsyncIterator[tuple[RawServer, HttpTransport]]:
    """A server, and a client of it."""
    traffic = TenantShares(is_guarded=False).find("shop") if is_foreign else None
    async with run_raw_server(*plans, closes=closes) as server:
        transport = HttpTransport(Credentials(server=server.url + path, is_foreign=is_foreign), None, traffic)
        try:
            yield server, transport
        finally:
            await transport.close()


async def send(
    transport: HttpTransport, method: str = "GET", *, seconds: float = 5.0, data: bytes | None = None, **headers: str
) -> Object:
    return await transport.send(method, "/x?y=z", headers=headers, data=data, seconds=seconds)


async def test_a_request_is_written_out() -> None:
    async with run([OK], path="/prefix") as (server, transport):
        await send(transport, "PATCH", data=b"", Accept="a")
    line, *fields = server.heard[0].decode().removesuffix("\r\n\r\n").split("\r\n")
    assert line == "PATCH /prefix/x?y=z HTTP/1.1"
    assert {"Accept: a", f"Host: {server.url.removeprefix('http://')}", "Content-Length: 0"} <= set(fields)
    assert f"User-Agent: {http_transport.AGENT}" in fields
    assert "Accept-Encoding: identity" in fields


async def test_a_connection_is_used_again() -> None:
    async with run([OK, OK]) as (server, transport):
        assert [await send(transport), await send(transport)] == [{}, {}]
    assert len(server.writers) == 1


async def test_requests_at_once_have_connections_of_their_own() -> None:
    async with run([OK, OK]) as (server, transport):
        await asyncio.gather(*(send(transport) for _ in range(3)))
    assert len(server.writers) == 3


async def test_a_connection_that_the_server_ends_is_not_used_again() -> None:
    async with run([LAST], [OK, None], [OK]) as (server, transport):
        await send(transport)
        await send(transport)
        assert len(server.writers) == 2
        server.writers[1].close()
        await waiting.wait_until(lambda: not any(link.is_connected() for link in list_idle(transport)))
        await send(transport, "PATCH")
    assert len(server.writers) == 3


def list_idle(transport: HttpTransport) -> list[ResponseHandler]:
    """The idle connections."""
    connector = transport.session.connector
    assert connector is not None
    return [link for links in connector._conns.values() for link, _ in links]


async def test_connections_that_only_a_burst_needs_are_closed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth.kube.client.http_transport.KEEP_ALIVE", 0.01)
    async with run([OK, OK]) as (server, transport):
        await asyncio.gather(*(send(transport) for _ in range(20)))
        await waiting.wait_until(lambda: not list_idle(transport))
        await send(transport)
    assert len(server.writers) == 21


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_repeatable_request_is_repeated_if_an_idle_connection_turns_out_closed(method: str) -> None:
    async with run([OK, None], [OK]) as (server, transport):
        await send(transport)
        assert await send(transport, method) == {}
    assert len(server.writers) == 2


@pytest.mark.parametrize("method", ["PATCH", "POST"])
async def test_a_write_is_not_repeated(method: str) -> None:
    async with run([OK, None], [OK]) as (server, transport):
        await send(transport)
        with pytest.raises(errors.Unreachable):
            await send(transport, method, data=b"{}")
    assert len(server.writers) == 1


async def test_a_request_is_repeated_only_once() -> None:
    async with run([None]) as (server, transport):
        with pytest.raises(errors.Unreachable, match="Server disconnected"):
            await send(transport)
    assert len(server.writers) == 2


async def test_a_late_answer_is_nobodys() -> None:
    async with run([b""], [OK]) as (server, transport):
        with pytest.raises(errors.Unreachable, match="none came in time"):
            await send(transport, seconds=0.05)
        server.writers[0].write(OTHER)
        assert await send(transport) == {}
    assert len(server.writers) == 2


async def test_a_connection_on_which_another_answer_arrived_serves_no_other_request() -> None:
    async with run([OK + OTHER], [OK]) as (server, transport):
        assert await send(transport) == {}
        assert await send(transport) == {}
    assert len(server.writers) == 2


async def test_an_answer_before_the_end_of_its_request_ends_the_connection() -> None:
    async with run([OK], [OK]) as (server, transport):
        assert await send(transport, "PATCH", data=bytes(30_000_000)) == {}
        assert await send(transport) == {}
    assert len(server.writers) == 2


async def test_a_waiting_caller_is_notified_when_the_client_is_closed() -> None:
    async with run([OK, b""], [OK]) as (server, transport):
        await send(transport)
        server.asked.clear()
        sending = asyncio.ensure_future(send(transport))
        await server.asked.wait()
        await transport.close()
        with pytest.raises(errors.Unreachable):
            await sending
    assert len(server.heard) == 2


async def test_a_header_cannot_hold_another_one() -> None:
    async with run([OK]) as (server, transport):
        with pytest.raises(errors.Unreachable, match="control character"):
            await send(transport, Accept="a\r\nImpersonate-User: admin")
        for target in ("/x HTTP/1.1\r\n", "/x y"):
            with pytest.raises(errors.Unreachable, match="line break"):
                await transport.send("GET", target, headers={}, data=None, seconds=1)
    assert server.heard == []


# Answers of any form, from a trusted server and from another one.

EITHER = pytest.mark.parametrize("is_foreign", [False, True], ids=["trusted", "foreign"])


@EITHER
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(head("content-length:2") + b"{}", {}, id="names in any case"),
        pytest.param(CHUNKED + CHUNKS + b"0\r\n\r\n", {"a": 1}, id="in chunks"),
        pytest.param(CHUNKED + CHUNKS + b"0\r\n" + TRAILER, {"a": 1}, id="fields behind the chunks change nothing"),
        pytest.param(head("Content-Length: 0", code="409 Conflict"), 409, id="empty"),
        pytest.param(
            head("Content-Length: 9", code="304 Not Modified"), 304, id="the length of a body that is not sent"
        ),
        pytest.param(head("Content-Length: 2", code="429") + b"no", 429, id="no words behind the code"),
        pytest.param(head(code="103 Early Hints") + OK, {}, id="hints before it"),
        pytest.param(head(code="103 Early Hints") * 100 + OK, {}, id="many hints before it"),
        pytest.param(
            head("Content-Encoding: gzip", f"Content-Length: {len(gzip.compress(b'{}', mtime=0))}")
            + gzip.compress(b"{}", mtime=0),
            {},
            id="compressed",
        ),
    ],
)
async def test_an_answer_is_read_in_any_pieces(raw: bytes, expected: Object | int, *, is_foreign: bool) -> None:
    async with run([raw], [b""], is_foreign=is_foreign) as (_, transport):
        assert await find_answer(transport) == expected
    async with run([b""], is_foreign=is_foreign) as (server, transport):
        sending = asyncio.ensure_future(find_answer(transport))
        await server.asked.wait()
        for at in range(len(raw)):
            server.writers[0].write(raw[at : at + 1])
            await asyncio.sleep(0)
        assert await sending == expected


async def find_answer(transport: HttpTransport) -> Object | int:
    """The object in the answer, or the code of another one."""
    try:
        return await send(transport)
    except errors.ApiStatusError as refused:
        return refused.code


@EITHER
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 20", id="cut in the head"),
        pytest.param(head("Content-Length: 3") + b"{}", id="cut in the body"),
        pytest.param(CHUNKED + b"4\r\n{", id="cut in a chunk"),
        pytest.param(CHUNKED + CHUNKS, id="cut between chunks"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/2 200\r\n\r\n", id="another version"),
        pytest.param(
            head("Connection: upgrade", "Upgrade: h2c", code="101 Switching"), id="another protocol from now on"
        ),
        pytest.param(head("Content-Length: 2", code="000 No") + b"{}", id="code zero"),
        pytest.param(head(code="2x0 OK"), id="no code"),
        pytest.param(head("Content-Length: -1"), id="a length below nothing"),
        pytest.param(head("Content-Length: " + "9" * 5_000), id="a length of 5,000 digits"),
        pytest.param(head("Content-Length: 2", "Content-Length: 4") + b"{}{}", id="two lengths"),
        pytest.param(
            head("Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n{}", id="a length and chunks"
        ),
        pytest.param(head("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n", id="another encoding under the chunks"),
        pytest.param(CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n", id="a size with a sign"),
        pytest.param(CHUNKED + b"2 2\r\n{}\r\n0\r\n\r\n", id="a size of two numbers"),
        pytest.param(CHUNKED + b"four\r\n", id="a chunk of no size"),
        pytest.param(CHUNKED + b"\r\n", id="an empty line for a size"),
        pytest.param(CHUNKED + b"f" * 5_000, id="a chunk's size without an end"),
        pytest.param(head("X: a\0b", "Content-Length: 2") + b"{}", id="a zero byte"),
        pytest.param(
            head("Content-Encoding: br", "Content-Length: 2") + b"{}", id="an encoding that was not requested"
        ),
        pytest.param(head("Content-Encoding: gzip", "Content-Length: 2") + b"{}", id="compressed, and yet not"),
        pytest.param(
            head("Content-Encoding: gzip", "Content-Length: 20") + gzip.compress(b"{}" * 50, mtime=0)[:20],
            id="half of a gzip",
        ),
    ],
)
async def test_anything_else_is_no_answer(raw: bytes, *, is_foreign: bool) -> None:
    async with run([raw], is_foreign=is_foreign, closes=True) as (_, transport):
        with pytest.raises(errors.Unreachable):
            await send(transport)


ENDLESS = {
    "a head without an end": b"x" * 2**20,
    "a field without an end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**20,
    "fields without an end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 2**18,
    "a trailer without an end": CHUNKED + b"0\r\n" + b"x" * 2**20,
    "fields of a trailer without an end": CHUNKED + b"0\r\n" + b"X: y\r\n" * 2**18,
    "hints without an end": head(code="103 Early Hints") * 2**17,
    "an extension of a chunk without an end": CHUNKED + b"2;" + b"x" * 2**22,
}


@pytest.mark.parametrize("raw", ENDLESS.values(), ids=ENDLESS)
async def test_an_answer_without_an_end_is_read_up_to_a_limit(raw: bytes) -> None:
    async with run([raw], is_foreign=True) as (_, transport):
        tracemalloc.start()
        try:
            async with asyncio.timeout(20):
                with pytest.raises(errors.Unreachable, match=r"HTTP/1\.1|in addition to its body"):
                    await send(transport, seconds=1_000)
                with pytest.raises(errors.Unreachable):
                    async with transport.watch("/x", accept="", idle_timeout=1_000) as pieces:
                        await anext(pieces)
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
        finally:
            tracemalloc.stop()


def make_bomb() -> bytes:
    """200 MiB of zeros as a gzip of some 200 KB: identical, independent blocks."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    start = deflater.compress(b"") + deflater.flush(zlib.Z_FULL_FLUSH)
    block = deflater.compress(bytes(2**20)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return start + block * 200


BOMB = make_bomb()
MOST = limits.CLUSTER_BODY_BYTES


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(head("Content-Encoding: gzip", f"Content-Length: {len(BOMB)}") + BOMB, id="200 MiB out of 204 KB"),
        pytest.param(head(f"Content-Length: {MOST + 1}"), id="a stated length"),
        pytest.param(CHUNKED + b"%x\r\n" % (MOST + 2**20) + bytes(MOST + 2**18), id="one chunk"),
        pytest.param(CHUNKED + (b"100000\r\n%b\r\n" % bytes(2**20)) * 9, id="many chunks"),
        pytest.param(head() + bytes(MOST + 2**18), id="until the connection ends"),
    ],
)
async def test_a_body_is_read_up_to_a_limit(raw: bytes) -> None:
    async with run([raw], is_foreign=True) as (_, transport):
        tracemalloc.start()
        try:
            with pytest.raises(errors.AnswerTooLarge, match=str(MOST)):
                await send(transport, seconds=20.0)
            # The server's own buffer has as many.
            assert tracemalloc.get_traced_memory()[1] < 4 * MOST
        finally:
            tracemalloc.stop()


async def test_chunks_of_one_byte_are_read_up_to_a_limit() -> None:
    async with run([CHUNKED + b"1\r\n \r\n" * 10_000 + b"2\r\n{}\r\n0\r\n\r\n"], is_foreign=True) as (_, transport):
        assert await send(transport) == {}
    async with run([CHUNKED + b"1\r\n \r\n" * 1_000_000], is_foreign=True) as (_, transport):
        tracemalloc.start()
        try:
            with pytest.raises(errors.Unreachable, match="in addition to its body"):
                await send(transport, seconds=100.0)
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
        finally:
            tracemalloc.stop()


async def test_each_connection_is_charged() -> None:
    charged: list[None] = []
    async with run_raw_server([LAST], [OK, OK]) as server:
        traffic = TenantShares(is_guarded=False).find("shop")
        traffic.on_connect = lambda: charged.append(None)  # type: ignore[method-assign]  # to count the calls
        transport = HttpTransport(Credentials(server=server.url), None, traffic)
        for _ in range(3):
            await send(transport)
        await transport.close()
    assert len(charged) == len(server.writers) == 2
