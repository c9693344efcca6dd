"""Answers in HTTP/1.1, however their bytes come."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from hearth.kube.client.http_response import HttpResponse, HttpResponseParser, MalformedResponse, TooLong
from hearth.model import limits

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
    """Not before, and it is the same whether it comes at once or byte by byte."""
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
    """The answer counts all the same."""
    answer = HttpResponseParser().feed(raw)
    assert answer is not None
    assert (answer.body, answer.keep_alive) == (b"{}", False)


def test_an_answer_may_end_with_its_connection() -> None:
    """Where it says nothing of its length."""
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
    """Half an object must never count as one."""
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
    """Rather than waited for."""
    with pytest.raises(MalformedResponse):
        HttpResponseParser().feed(raw)


def make_bomb() -> bytes:
    """200 MiB of zeros as a gzip of some 200 KB: blocks that need nothing of one another are the same bytes each."""
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
    """What it takes meanwhile is bounded, too: the gzip took 436 MiB."""
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
    """Nor does a number of thousands of digits raise anything else."""
    with pytest.raises(MalformedResponse):
        HttpResponseParser().feed(raw)


def test_chunks_of_one_byte_take_no_more_than_their_body() -> None:
    """A list of them took eight bytes and more for each."""
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
