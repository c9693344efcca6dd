"""What a peer tried on the HTTP server and did not get: a second answer, another method, another path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hearth.serve.http_server import Endpoints, HttpServer
from hearth.settings import Address

HIDDEN = b"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n"


@pytest.fixture
async def address() -> AsyncIterator[Address]:
    """Where a server is whose metrics are easily known."""
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
async def test_a_connection_gets_one_answer_and_is_closed(address: Address, request_: bytes, code: int) -> None:
    """No part of a request counts as another one, and nothing of it is sent back."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(request_)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()

    assert answer.startswith(f"HTTP/1.1 {code} ".encode())
    assert answer.count(b"Connection: close") == 1
    assert b"the metrics" not in answer
    assert b"Cookie" not in answer
