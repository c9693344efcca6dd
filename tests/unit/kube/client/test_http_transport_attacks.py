"""What a server tried on the transport and did not get: a second answer, a forged one, our token."""

from __future__ import annotations

import contextlib
import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from hearth.kube.auth.credentials import Credentials
from hearth.kube.client import http_response, http_transport
from hearth.kube.client.connection import Connection
from hearth.model import errors
from support.real.servers import stub_server
from support.real.servers.stub_server import StubServer, run_stub, says

OK = "HTTP/1.1 200 OK"
CERTIFICATE = Path(__file__).resolve().parents[3] / "data" / "loopback.pem"
TOKEN = "Bearer token-of-the-operator"


@dataclass
class FixedSource:
    """Gives these credentials."""

    found: Credentials

    def load(self) -> Credentials:
        """Always the same."""
        return self.found


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            b"Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", id="a second answer"
        ),
        pytest.param(b"Content-Length: 0\r\n\r\nx", id="a letter behind the end"),
        pytest.param(
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", id="an answer behind the chunks"
        ),
    ],
)
def test_a_connection_on_which_more_came_serves_no_other_request(raw: bytes) -> None:
    """What stands behind an answer never counts as that of the next request."""
    answer = http_response.HttpResponseParser().feed(f"{OK}\r\n".encode() + raw)

    assert answer is not None
    assert not answer.keep_alive
    assert answer.body in (b"", b"{}")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{}", id="a length and chunks"),
        pytest.param(b"Content-Length: 2\r\nContent-Length: 4\r\n\r\n{}{}", id="two lengths"),
        pytest.param(b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="another encoding under the chunks"),
        pytest.param(b"Transfer-Encoding: identity\r\n\r\n{}", id="another encoding"),
        pytest.param(b"Content-Length : 2\r\n\r\n{}", id="a name that ends in a space"),
        pytest.param(b"X: a\r\n Content-Length: 2\r\n\r\n{}", id="a folded field"),
        pytest.param(b"Content-Length: 2\n\n{}", id="lines without a carriage return"),
        pytest.param(b"X: a\0b\r\nContent-Length: 2\r\n\r\n{}", id="a zero byte"),
    ],
)
def test_an_answer_with_two_readings_is_none(raw: bytes) -> None:
    """A proxy before the server may have read it in the other way."""
    with pytest.raises(http_response.MalformedResponse):
        http_response.HttpResponseParser().feed(f"{OK}\r\n".encode() + raw)


def test_a_field_behind_the_chunks_changes_nothing() -> None:
    """Neither what the body is, nor whether the connection serves another request."""
    trailer = b"Content-Encoding: gzip\r\nConnection: close\r\nRetry-After: 9\r\n\r\n"
    answer = http_response.HttpResponseParser().feed(
        f"{OK}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n".encode() + trailer
    )
    assert answer is not None
    assert (answer.body, dict(answer.fields)) == (b"{}", {"transfer-encoding": "chunked"})


@pytest.mark.parametrize("length", ["+2", "-2", "0x2", " 2 2", "2,2", "2.0", "٢", "", "2_0"])
def test_a_length_is_digits_and_nothing_else(length: str) -> None:
    """Anything else that Python would take for a number."""
    with pytest.raises(http_response.MalformedResponse):
        http_response.HttpResponseParser().feed(f"{OK}\r\nContent-Length: {length}\r\n\r\n{{}}".encode())


@pytest.mark.parametrize("size", ["+2", "-2", "0x2", "2 2", "2,2", "2_0", "", "zz"])
def test_the_size_of_a_chunk_is_digits_and_nothing_else(size: str) -> None:
    """Anything else that Python would take for a number."""
    with pytest.raises(http_response.MalformedResponse):
        http_response.HttpResponseParser().feed(
            f"{OK}\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n{{}}\r\n0\r\n\r\n".encode()
        )


async def test_a_redirect_is_refused_and_not_followed() -> None:
    """The token goes to the server of the kubeconfig alone."""
    async with run_stub(says("{}")) as elsewhere:
        moved = says("moved", code=307, headers={"Location": f"{elsewhere.url}/api"})
        async with run_stub(moved) as stub, Connection(find_source(stub.url)) as connection:
            for method in ("GET", "PATCH"):
                with pytest.raises(errors.ApiStatusError) as refused:
                    await connection.request(method, "/api")
                assert refused.value.code == 307
            with pytest.raises(errors.ApiStatusError):
                async with connection.stream("/api"):
                    pass
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("authority", "name", "is_trusted"),
    [
        pytest.param(True, None, True, id="its own authority"),
        pytest.param(True, "localhost", True, id="a name of its certificate"),
        pytest.param(False, None, False, id="an unknown authority"),
        pytest.param(True, "kubernetes.default.svc", False, id="another name"),
    ],
)
async def test_a_server_is_verified_before_it_hears_anything(
    authority: bool, name: str | None, is_trusted: bool
) -> None:
    """For requests and for streams."""
    own = re.search("-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----", CERTIFICATE.read_text(), re.DOTALL)
    assert own is not None
    async with run_tls(says("{}")) as stub:
        source = find_source(stub.url, authority=own.group().encode() if authority else None, server_name=name)
        async with Connection(source) as connection:
            if is_trusted:
                assert await connection.request("GET", "/api") == {}
            else:
                with pytest.raises(errors.Unreachable):
                    await connection.request("GET", "/api")
                with pytest.raises(errors.Unreachable):
                    async with connection.stream("/api"):
                        pass
        assert [request.headers["Authorization"] for request in stub.requests] == [TOKEN] * is_trusted


def find_source(url: str, *, authority: bytes | None = None, server_name: str | None = None) -> FixedSource:
    """Credentials for that server."""
    return FixedSource(Credentials(server=url, authority=authority, authorization=TOKEN, server_name=server_name))


@contextlib.asynccontextmanager
async def run_tls(answer: stub_server.Answer) -> AsyncIterator[StubServer]:
    """A server with a certificate of its own authority."""
    stub = StubServer(answers=[answer])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    runner = web.ServerRunner(web.Server(stub.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    stub.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield stub
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("server", "is_encrypted"), [("https://east", True), ("HTTPS://east", True), ("http://east", False)]
)
def test_no_spelling_of_the_scheme_turns_encryption_off(server: str, is_encrypted: bool) -> None:
    """A token would be readable by every machine on the way."""
    assert (http_transport.make_context(Credentials(server=server)) is not None) is is_encrypted
