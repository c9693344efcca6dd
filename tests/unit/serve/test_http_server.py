"""The HTTP server: three paths, and no harm from hostile peers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from hearth.model import limits
from hearth.serve import http_server
from hearth.serve.http_server import Endpoints, HttpServer
from hearth.settings import Address

ANY_PORT = Address(host="127.0.0.1", port=0)


class Process:
    """The state that the server shows."""

    def __init__(self) -> None:
        self.deaf: list[str] = []
        self.unready: list[str] = []

    def pages(self) -> Endpoints:
        return Endpoints(
            alive=lambda: self.deaf, ready=lambda: self.unready, metrics=lambda: b"hearth_reconcile_total 3\n"
        )


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
async def address(process: Process) -> AsyncIterator[Address]:
    running = HttpServer(process.pages())
    yield await running.start(ANY_PORT)
    await running.stop()


async def exchange(address: Address, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send the request, and read until the server closes the connection; return code, headers (lower case) and body."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    return int(status.split()[1]), {k.lower(): v for k, v in (line.split(": ", 1) for line in headers)}, body


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: somewhere\r\n\r\n".encode()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/readyz?verbose"])
async def test_all_is_well(address: Address, path: str) -> None:
    code, headers, body = await exchange(address, get(path))

    assert (code, body) == (200, b"ok\n")
    assert headers["content-length"] == "3"
    assert headers["connection"] == "close"


async def test_what_is_wrong_is_said(address: Address, process: Process) -> None:
    process.unready += ["stacks: not synced yet", "pods: not synced yet"]

    code, _, body = await exchange(address, get("/readyz"))

    assert (code, body) == (503, b"stacks: not synced yet\npods: not synced yet\n")
    assert (await exchange(address, get("/healthz")))[0] == 200


async def test_metrics_are_served_in_their_own_format(address: Address) -> None:
    code, headers, body = await exchange(address, get("/metrics"))

    assert (code, body) == (200, b"hearth_reconcile_total 3\n")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_head_gets_the_headers_alone(address: Address) -> None:
    code, headers, body = await exchange(address, get("/metrics", method="HEAD"))

    assert (code, headers["content-length"], body) == (200, "25", b"")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(get("/"), HTTPStatus.NOT_FOUND, id="another path"),
        pytest.param(get("/metrics/../healthz"), HTTPStatus.NOT_FOUND, id="a path is taken literally"),
        pytest.param(get("/healthz", method="POST"), HTTPStatus.METHOD_NOT_ALLOWED, id="another method"),
        pytest.param(b"nonsense\r\n\r\n", HTTPStatus.BAD_REQUEST, id="no request"),
        pytest.param(b"GET /healthz SPDY/3\r\n\r\n", HTTPStatus.BAD_REQUEST, id="another protocol"),
        pytest.param(b"\xff\xfe\r\n\r\n", HTTPStatus.BAD_REQUEST, id="bytes"),
        pytest.param(get("/" + "a" * http_server.REQUEST_LIMIT), HTTPStatus.BAD_REQUEST, id="too long"),
    ],
)
async def test_anything_else_is_refused(address: Address, request_: bytes, expected: HTTPStatus) -> None:
    assert (await exchange(address, request_))[0] == expected
    assert (await exchange(address, get("/healthz")))[0] == 200


async def test_a_peer_that_hangs_up_does_no_harm(address: Address) -> None:
    _, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"GET /heal")
    writer.close()
    await writer.wait_closed()

    assert (await exchange(address, get("/healthz")))[0] == 200


async def test_stopping_does_not_wait_for_idle_peers(process: Process) -> None:
    running = HttpServer(process.pages())
    address = await running.start(ANY_PORT)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"GET /heal")
    await writer.drain()

    await asyncio.wait_for(running.stop(), 5)

    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_an_address_that_is_taken_is_reported_with_the_flag(address: Address, process: Process) -> None:
    with pytest.raises(
        http_server.CannotListen, match=rf"cannot listen on {address}: .*; set another .* --http-address"
    ):
        await HttpServer(process.pages()).start(address)


async def test_a_server_that_never_started_can_be_stopped(process: Process) -> None:
    await HttpServer(process.pages()).stop()


async def test_idle_connections_beyond_the_limit_make_room_for_a_health_check() -> None:
    reached: list[str] = []
    running = HttpServer(Process().pages(), on_limit=reached.append)
    address = await running.start(ANY_PORT)
    idle = [await asyncio.open_connection(address.host, address.port) for _ in range(3 * limits.HTTP_CONNECTIONS)]
    try:
        code, _, _ = await exchange(address, get("/healthz"))
        assert code == HTTPStatus.OK
        oldest = idle[: 2 * limits.HTTP_CONNECTIONS]
        assert [await asyncio.wait_for(reader.read(), 5) for reader, _ in oldest] == [b""] * len(oldest)
        assert reached == ["http-connections"] * (2 * limits.HTTP_CONNECTIONS + 1)
    finally:
        for _, writer in idle:
            writer.close()
        await running.stop()


# Attacks on the HTTP server that fail: a second response, another method, another path.


HIDDEN = b"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n"


@pytest.fixture
async def target() -> AsyncIterator[Address]:
    """The address of a server with known metrics."""
    running = HttpServer(Endpoints(alive=list, ready=list, metrics=lambda: b"the metrics"))
    yield await running.start(Address(host="127.0.0.1", port=0))
    await running.stop()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        pytest.param(
            b"POST /healthz HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
            405,
            id="TE+CL",
        ),
        pytest.param(b"GET /healthz HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + HIDDEN, 200, id="a second request"),
        pytest.param(
            b"GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN, 200, id="chunks"
        ),
        pytest.param(b"GET /healthz HTTP/1.1\r\nConnection: keep-alive\r\n\r\n" + HIDDEN, 200, id="kept open"),
        pytest.param(b"TRACE /metrics HTTP/1.1\r\nCookie: a\r\n\r\n", 405, id="TRACE"),
        pytest.param(b"CONNECT kubernetes:443 HTTP/1.1\r\n\r\n", 405, id="CONNECT"),
        pytest.param(b"GET http://kubernetes/metrics HTTP/1.1\r\n\r\n", 404, id="a proxy's path"),
        pytest.param(b"GET /healthz/..%2fmetrics HTTP/1.1\r\n\r\n", 404, id="an encoded path"),
        pytest.param(b"GET //metrics HTTP/1.1\r\n\r\n", 404, id="two slashes"),
        pytest.param(b"GET /metrics\x00 HTTP/1.1\r\n\r\n", 404, id="a null byte"),
        pytest.param(b"GET /metrics HTTP/1.1 HTTP/1.1\r\n\r\n", 400, id="two versions"),
        pytest.param(b"GET  /metrics HTTP/1.1\r\n\r\n", 400, id="two spaces"),
    ],
)
async def test_a_connection_gets_one_answer_and_is_closed(target: Address, request_: bytes, code: int) -> None:
    reader, writer = await asyncio.open_connection(target.host, target.port)
    writer.write(request_)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()

    assert answer.startswith(f"HTTP/1.1 {code} ".encode())
    assert answer.count(b"Connection: close") == 1
    assert b"the metrics" not in answer
    assert b"Cookie" not in answer
