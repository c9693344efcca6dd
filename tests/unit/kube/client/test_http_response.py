"""HTTP/1.1 responses in any fragmentation, and attacks of a server on the transport that fail."""

from __future__ import annotations

import contextlib
import gzip
import re
import ssl
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from hearth.kube.auth.credentials import Credentials
from hearth.kube.client import http_response, http_transport
from hearth.kube.client.connection import Connection
from hearth.kube.client.http_response import HttpResponse, HttpResponseParser, MalformedResponse, TooLong
from hearth.model import errors, limits
from support import repository
from support.real.servers import stub_server
from support.real.servers.stub_server import StubServer, run_stub, says
from support.units.static_credentials import FixedSource

CHUNKS = b'4\r\n{"a"\r\n3;name=value\r\n:1}\r\n'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def head(*lines: str, code: str = "200 OK", version: str = "HTTP/1.1") -> bytes:
    """The beginning of an answer."""
    return "\r\n".join([f"{version} {code}", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("raw", "code", "body"),
    [
        pytest.param(head("Content-Length: 2") + b"{}", 200, b"{}", id="of a stated length"),
        pytest.param(head("content-length:2") + b"{}", 200, b"{}", id="names in any case"),
        pytest.param(CHUNKED + CHUNKS + b"0\r\n\r\n", 200, b'{"a":1}', id="in chunks"),
        pytest.param(CHUNKED + CHUNKS + b"0\r\nChecksum: x\r\n\r\n", 200, b'{"a":1}', id="fields behind the chunks"),
        pytest.param(CHUNKED + b"0\r\n\r\n", 200, b"", id="no chunk at all"),
        pytest.param(head("Content-Length: 0", code="409 Conflict"), 409, b"", id="empty"),
        pytest.param(head(code="204 No Content"), 204, b"", id="no body"),
        pytest.param(head("Content-Length: 9", code="304 Not Modified"), 304, b"", id="the length of what is not sent"),
        pytest.param(head("Content-Length: 2", code="429") + b"no", 429, b"no", id="no words behind the code"),
        pytest.param(
            head(code="103 Early Hints") + head("Content-Length: 2") + b"{}", 200, b"{}", id="hints before it"
        ),
        pytest.param(
            head("Content-Encoding: gzip", f"Content-Length: {len(gzip.compress(b'{}', mtime=0))}")
            + gzip.compress(b"{}", mtime=0),
            200,
            b"{}",
            id="compressed",
        ),
    ],
)
def test_an_answer_is_whole_with_its_last_byte(raw: bytes, code: int, body: bytes) -> None:
    reader = HttpResponseParser()
    pieces = [reader.feed(raw[at : at + 1]) for at in range(len(raw))]
    at_once = HttpResponseParser().feed(raw)
    assert pieces[:-1] == [None] * (len(raw) - 1)
    assert pieces[-1] == at_once
    assert at_once is not None
    assert (at_once.code, at_once.body, at_once.keep_alive) == (code, body, True)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(head("Connection: close", "Content-Length: 2") + b"{}", id="the server says so"),
        pytest.param(head("Content-Length: 2", version="HTTP/1.0") + b"{}", id="an old server"),
        pytest.param(head("Content-Length: 2") + b"{}HTTP", id="more came than was asked for"),
    ],
)
def test_a_connection_is_of_no_more_use(raw: bytes) -> None:
    answer = HttpResponseParser().feed(raw)
    assert answer is not None
    assert (answer.body, answer.keep_alive) == (b"{}", False)


def test_an_answer_may_end_with_its_connection() -> None:
    reader = HttpResponseParser()
    assert reader.feed(head("Retry-After: 7", code="503 Busy") + b"later") is None
    assert reader.finish() == HttpResponse(503, {"retry-after": "7"}, b"later", keep_alive=False)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 20", id="in the head"),
        pytest.param(head("Content-Length: 3") + b"{}", id="in the body"),
        pytest.param(CHUNKED + b"4\r\n{", id="in a chunk"),
        pytest.param(CHUNKED + CHUNKS, id="between chunks"),
        pytest.param(CHUNKED + CHUNKS + b"0\r\n", id="before the very end"),
    ],
)
def test_an_answer_that_was_cut_is_none(raw: bytes) -> None:
    reader = HttpResponseParser()
    assert reader.feed(raw) is None
    with pytest.raises(MalformedResponse):
        reader.finish()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another protocol"),
        pytest.param(head("Content-Length: 2", version="HTTP/2.0") + b"{}", id="another version"),
        pytest.param(
            head("Connection: upgrade", "Upgrade: h2c", code="101 Switching"), id="another protocol from now on"
        ),
        pytest.param(head(code="2x0 OK"), id="no code"),
        pytest.param(head("Content-Length: -1"), id="a length below nothing"),
        pytest.param(CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n", id="a size with a sign"),
        pytest.param(CHUNKED + b"four\r\n", id="a chunk of no size"),
        pytest.param(CHUNKED + b"\r\n", id="a chunk that says nothing"),
        pytest.param(
            head("Content-Encoding: br", "Content-Length: 2") + b"{}", id="an encoding that was not requested"
        ),
        pytest.param(head("Content-Encoding: gzip", "Content-Length: 2") + b"{}", id="compressed, and yet not"),
        pytest.param(b"x" * 70_000, id="a head without an end"),
    ],
)
def test_what_is_no_answer_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedResponse):
        HttpResponseParser().feed(raw)


def make_bomb() -> bytes:
    """200 MiB of zeros as a gzip of some 200 KB: identical, independent blocks."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    start = deflater.compress(b"") + deflater.flush(zlib.Z_FULL_FLUSH)
    block = deflater.compress(bytes(2**20)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return start + block * 200


BOMB = make_bomb()


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [head("Content-Encoding: gzip", f"Content-Length: {len(BOMB)}"), BOMB], id="200 MiB out of 204 KB"
        ),
        pytest.param([head(f"Content-Length: {limits.BODY_BYTES + 1}")], id="a stated length"),
        pytest.param(
            [CHUNKED, b"%x\r\n" % (limits.BODY_BYTES + 2**20), *[bytes(2**20)] * 65],
            id="one chunk",
        ),
        pytest.param([CHUNKED, *[b"100000\r\n%b\r\n" % bytes(2**20)] * 65], id="many chunks"),
        pytest.param([head(), *[bytes(2**20)] * 65], id="until the connection ends"),
    ],
)
def test_a_body_is_read_up_to_a_limit(pieces: list[bytes]) -> None:
    reader = HttpResponseParser()
    tracemalloc.start()
    try:
        with pytest.raises(TooLong):
            list(map(reader.feed, pieces))
        assert tracemalloc.get_traced_memory()[1] < 2.5 * limits.BODY_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(head("Content-Length: " + "9" * 5_000), id="a length of 5,000 digits"),
        pytest.param(CHUNKED + b"f" * 5_000, id="a chunk's size without an end"),
        pytest.param(CHUNKED + b"2;" + b"x" * 70_000, id="an extension of a chunk without an end"),
        pytest.param(CHUNKED + b"0\r\n" + b"x" * 70_000, id="fields behind the chunks without an end"),
        pytest.param(CHUNKED + b"0\r\nX: " + b"x" * 70_000, id="a field behind the chunks without an end"),
        pytest.param(head(code="103 Early Hints") * 3_000, id="hints without an end"),
        pytest.param(head("X: " + "x" * 70_000), id="a head that is too long and yet ends"),
        pytest.param(
            head("Content-Encoding: gzip", "Content-Length: 20") + gzip.compress(b"{}" * 50, mtime=0)[:20],
            id="half of a gzip",
        ),
    ],
)
def test_neither_is_anything_else_read_without_end(raw: bytes) -> None:
    with pytest.raises(MalformedResponse):
        HttpResponseParser().feed(raw)


def test_chunks_of_one_byte_take_no_more_than_their_body() -> None:
    reader = HttpResponseParser()
    pieces = [CHUNKED, *[b"1\r\nx\r\n" * 1_000] * 500]
    tracemalloc.start()
    try:
        assert [each for each in map(reader.feed, pieces) if each is not None] == []
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    answer = reader.feed(b"0\r\n\r\n")
    assert answer is not None
    assert len(answer.body) == 500_000


# Attacks of a server on the transport that fail: a second response, a forged one, our token.


OK = "HTTP/1.1 200 OK"
CERTIFICATE = repository.DATA / "loopback.pem"
TOKEN = "Bearer token-of-the-operator"


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
    with pytest.raises(http_response.MalformedResponse):
        http_response.HttpResponseParser().feed(f"{OK}\r\n".encode() + raw)


def test_a_field_behind_the_chunks_changes_nothing() -> None:
    trailer = b"Content-Encoding: gzip\r\nConnection: close\r\nRetry-After: 9\r\n\r\n"
    answer = http_response.HttpResponseParser().feed(
        f"{OK}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n".encode() + trailer
    )
    assert answer is not None
    assert (answer.body, dict(answer.fields)) == (b"{}", {"transfer-encoding": "chunked"})


@pytest.mark.parametrize("length", ["+2", "-2", "0x2", " 2 2", "2,2", "2.0", "٢", "", "2_0"])
def test_a_length_is_digits_and_nothing_else(length: str) -> None:
    with pytest.raises(http_response.MalformedResponse):
        http_response.HttpResponseParser().feed(f"{OK}\r\nContent-Length: {length}\r\n\r\n{{}}".encode())


@pytest.mark.parametrize("size", ["+2", "-2", "0x2", "2 2", "2,2", "2_0", "", "zz"])
def test_the_size_of_a_chunk_is_digits_and_nothing_else(size: str) -> None:
    with pytest.raises(http_response.MalformedResponse):
        http_response.HttpResponseParser().feed(
            f"{OK}\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n{{}}\r\n0\r\n\r\n".encode()
        )


async def test_a_redirect_is_refused_and_not_followed() -> None:
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
    """A server with a certificate from its own authority."""
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
    assert (http_transport.make_context(Credentials(server=server)) is not None) is is_encrypted
