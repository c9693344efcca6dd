"""Parser of the response to one HTTP/1.1 request.

Pure: bytes in, a response out; must not know connections, requests or the meaning of a response.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from hearth.model import limits, value_class

HEAD_END = b"\r\n\r\n"
LINE_END = b"\r\n"
WITHOUT_BODY = frozenset({204, 304})
GZIP = 16 + zlib.MAX_WBITS
"""zlib's value for the gzip format."""


class MalformedResponse(ConnectionError):
    """Error for data that is not a complete HTTP response."""


class TooLong(MalformedResponse):
    """Error for a response body above the size limit."""


@value_class.dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response."""

    code: int
    fields: Mapping[str, str]
    """The header fields, with names in lower case."""
    body: bytes
    keep_alive: bool
    """Whether the connection can serve another request."""


class HttpResponseParser:
    """Collector of the bytes of one response."""

    def __init__(self) -> None:
        self.has_begun = False
        """Whether any data arrived."""
        self._rest = bytearray()
        """Unparsed data."""
        self._head: tuple[int, dict[str, str]] | None = None
        self._length: int | None = None
        """Bytes of the body; None if the body itself or the end of the connection defines its end."""
        self._is_chunked = False
        self._chunks: list[bytes] = []
        self._chunked = 0
        """Total bytes of the chunks."""

    def feed(self, piece: bytes) -> HttpResponse | None:
        """Add data; return the response once it is complete. Raises `MalformedResponse`."""
        self.has_begun = True
        self._rest += piece
        while self._head is None:
            end = self._rest.find(HEAD_END)
            if end < 0:
                check_head(len(self._rest))
                return None
            check_head(end)
            self._take_head(bytes(self._rest[:end]))
            del self._rest[: end + len(HEAD_END)]
        if self._is_chunked:
            return self._end(b"".join(self._chunks)) if self._take_chunks() else None
        if self._length is None or len(self._rest) < self._length:
            check_body(len(self._rest))
            return None
        body = bytes(self._rest[: self._length])
        del self._rest[: self._length]
        return self._end(body)

    def finish(self) -> HttpResponse:
        """Return the response that ends with the connection.

        Raises `MalformedResponse` if a complete response would have ended earlier.
        """
        if self._head is None or self._is_chunked or self._length is not None:
            raise MalformedResponse(
                "the connection was closed in the middle of the response" if self.has_begun else "no answer"
            )
        return self._end(bytes(self._rest))

    def _take_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or not (code.isascii() and code.isdigit() and len(code) == 3):
            raise MalformedResponse(f"the response is not HTTP: {first[:50]!r}")
        if code[0] == "1":
            # An interim response; the final one is still to come.
            return
        fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        if version == "HTTP/1.0":
            fields.setdefault("connection", "close")
        self._head = int(code), fields
        self._is_chunked = fields.get("transfer-encoding", "").lower() == "chunked"
        length = fields.get("content-length")
        if self._head[0] in WITHOUT_BODY:
            self._is_chunked, self._length = False, 0
        elif length is not None and not self._is_chunked:
            self._length = parse_length(length)
            check_body(self._length)

    def _take_chunks(self) -> bool:
        """Parse the available chunks; return whether all have arrived."""
        while True:
            end = self._rest.find(LINE_END)
            if end < 0:
                check_line(len(self._rest))
                return False
            check_line(end)
            size = parse_size(bytes(self._rest[:end]))
            if not size:
                return self._take_trailer(end)
            check_body(self._chunked + size)
            begin = end + len(LINE_END)
            if len(self._rest) < begin + size + len(LINE_END):
                return False
            self._chunks.append(bytes(self._rest[begin : begin + size]))
            self._chunked += size
            del self._rest[: begin + size + len(LINE_END)]

    def _take_trailer(self, begin: int) -> bool:
        """Return whether the trailer is complete; its fields are ignored. begin: position of the line end."""
        end = self._rest.find(HEAD_END, begin)
        if end < 0:
            check_head(len(self._rest))
            return False
        del self._rest[: end + len(HEAD_END)]
        return True

    def _end(self, body: bytes) -> HttpResponse:
        assert self._head is not None  # noqa: S101 -- it precedes the body
        code, fields = self._head
        is_bounded = self._is_chunked or self._length is not None
        may_go_on = is_bounded and not self._rest and fields.get("connection", "").lower() != "close"
        return HttpResponse(code, fields, decode(body, fields.get("content-encoding", "")), may_go_on)


def check_head(length: int) -> None:
    """Raise `MalformedResponse` if a head, or the trailer after the last chunk, is too long."""
    if length > limits.HEADER_BYTES:
        raise MalformedResponse(f"the response headers have more than {limits.HEADER_BYTES} bytes")


def check_line(length: int) -> None:
    """Raise `MalformedResponse` if the line before a chunk is too long."""
    if length > limits.CHUNK_LINE_BYTES:
        raise MalformedResponse(f"the chunk header has more than {limits.CHUNK_LINE_BYTES} bytes")


def check_body(length: int) -> None:
    """Raise `TooLong` if a body is too long."""
    if length > limits.BODY_BYTES:
        raise TooLong(f"the response has more than {limits.BODY_BYTES} bytes")


def parse_length(text: str) -> int:
    """Return the length of a body. Raises `MalformedResponse`."""
    # Python does not convert thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= limits.INTEGER_DIGITS):
        raise MalformedResponse(f"the response has a length of {text[:50]!r}")
    return int(text)


def parse_size(line: bytes) -> int:
    """Return the length of a chunk. Raises `MalformedResponse`."""
    digits = line.partition(b";")[0].strip()
    try:
        # Python would also accept a sign and a prefix.
        return int(digits, 16) if digits.isalnum() and b"x" not in digits.lower() else int("")
    except ValueError as error:
        raise MalformedResponse(f"the response has a chunk of the size {line[:50]!r}") from error


def decode(body: bytes, encoding: str) -> bytes:
    """Return the decompressed body. Raises `MalformedResponse`."""
    if encoding.lower() in ("", "identity") or not body:
        return body
    if encoding.lower() != "gzip":
        raise MalformedResponse(f"the response is encoded as {encoding[:50]!r}, which was not requested")
    inflater = zlib.decompressobj(GZIP)
    try:
        inflated = inflater.decompress(body, limits.BODY_BYTES + 1)
    except zlib.error as error:
        raise MalformedResponse(f"the response is not valid gzip: {error}") from error
    check_body(len(inflated))
    if not inflater.eof:
        raise MalformedResponse("the response is not valid gzip: it ends too early")
    return inflated
