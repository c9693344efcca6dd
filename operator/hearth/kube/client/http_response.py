"""Parses the response to one HTTP/1.1 request with llhttp, and adds limits and checks that llhttp lacks. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import httptools

from hearth.model import limits, value_class

FIRST_FINAL = 200
"""Lower codes are of interim responses."""
VERSIONS = frozenset({"1.0", "1.1"})
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
    """Collector of the bytes of one response, which llhttp parses in its strict mode.

    llhttp has no limits on sizes; this class bounds the memory of a response, whether or not it ever ends.
    """

    def __init__(self, *, most: int = limits.BODY_BYTES) -> None:
        """most: bytes of the inflated body."""
        self._most = most
        self.has_begun = False
        """Whether any data arrived."""
        self._events = ParserEvents()
        self._parser = httptools.HttpResponseParser(self._events)
        self._received = 0
        """Bytes."""

    def feed(self, piece: bytes) -> HttpResponse | None:
        """Add data; return the response once it is complete. Raises `MalformedResponse`."""
        events = self._events
        events.parser = self._parser
        self.has_begun = True
        self._received += len(piece)
        try:
            self._parser.feed_data(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Data after a complete response does not belong to it. The connection is then unusable.
            if not events.is_complete:
                raise MalformedResponse(f"the answer is not HTTP/1.1: {error}") from error
            events.has_more = True
        finally:
            # Break the reference cycle, which only a garbage collection would free.
            del events.parser
        self._check_sizes()
        return self._end(keep_alive=events.keep_alive and not events.has_more) if events.is_complete else None

    def finish(self) -> HttpResponse:
        """Return the response that ends with the connection.

        Raises `MalformedResponse` if a complete response would have ended earlier.
        """
        if not self._events.has_head or self._events.states_end:
            raise MalformedResponse(
                "the connection was closed in the middle of the answer" if self.has_begun else "no answer"
            )
        return self._end(keep_alive=False)

    def _check_sizes(self) -> None:
        events = self._events
        if events.fault:
            raise MalformedResponse(events.fault)
        check_body(max(events.length, len(events.body)), self._most)
        # The other bytes are headers, chunk lines, the trailer, and data after the response.
        others = self._received - len(events.body)
        if others > limits.HEADER_BYTES + limits.CHUNK_LINE_BYTES * events.chunks:
            raise MalformedResponse(f"the answer has {others} bytes in addition to its body")

    def _end(self, *, keep_alive: bool) -> HttpResponse:
        events = self._events
        body = decode(bytes(events.body), events.fields.get("content-encoding", ""), most=self._most)
        return HttpResponse(events.code, events.fields, body, keep_alive)


class ParserEvents:
    """Events that llhttp found in one response; httptools chooses the names of the methods. Raises nothing within
    llhttp.
    """

    parser: httptools.HttpResponseParser
    """Set while it parses."""

    def __init__(self) -> None:
        self.code = 0
        self.fields: dict[str, str] = {}
        self.body: bytes | bytearray = b""
        self.length = 0
        """The length of the body according to the header."""
        self.chunks = 0
        self.has_head = False
        self.states_end = False
        """Whether the response specifies where it ends, so that it does not end with the connection."""
        self.is_complete = False
        self.keep_alive = False
        self.has_more = False
        """Whether data arrived after the complete response."""
        self.fault = ""

    def on_message_begin(self) -> None:
        """Note data behind a complete response."""
        self.has_more = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a field of the head; fields of a trailer do not count."""
        if not self.has_head:
            self.fields[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """Read the head's information about the body."""
        if self.is_complete:
            return
        self.code = self.parser.get_status_code()
        if self.code < FIRST_FINAL:
            # An interim response; the final one is still to come.
            self.fields.clear()
            return
        self.has_head = True
        self.fault = self.fault or find_fault(self.parser.get_http_version(), self.fields)
        self.states_end = "content-length" in self.fields or "transfer-encoding" in self.fields
        if not self.fault and self.code not in WITHOUT_BODY:
            self.length = int(self.fields.get("content-length", "0"))

    def on_chunk_header(self) -> None:
        """Count a chunk."""
        self.chunks += 1

    def on_body(self, piece: bytes) -> None:
        """Collect the body; its size is checked after each piece of data."""
        if self.is_complete:
            return
        if not self.body:
            self.body = piece
            return
        if isinstance(self.body, bytes):
            self.body = bytearray(self.body)
        self.body += piece

    def on_message_complete(self) -> None:
        """Note the end of the response."""
        if self.has_head and not self.is_complete:
            self.is_complete, self.keep_alive = True, self.parser.should_keep_alive()


def find_fault(version: str, fields: Mapping[str, str]) -> str:
    """Return why llhttp's strict mode is not strict enough for this head, or empty if it is."""
    if version not in VERSIONS:
        return f"the answer is in HTTP/{version}"
    if fields.get("transfer-encoding", "chunked").lower() != "chunked":
        return f"the answer has the transfer encoding {fields['transfer-encoding'][:50]!r}, which was not requested"
    length = fields.get("content-length", "0")
    # Python does not convert thousands of digits.
    if not (length.isascii() and length.isdigit() and len(length) <= limits.INTEGER_DIGITS):
        return f"the answer has a length of {length[:50]!r}"
    return ""


def check_body(length: int, most: int) -> None:
    """Raise `TooLong` if a body is too long."""
    if length > most:
        raise TooLong(f"the answer has more than {most} bytes")


def decode(body: bytes, encoding: str, *, most: int) -> bytes:
    """Return the decompressed body. Raises `MalformedResponse`."""
    if encoding.lower() in ("", "identity") or not body:
        return body
    if encoding.lower() != "gzip":
        raise MalformedResponse(f"the response is encoded as {encoding[:50]!r}, which was not requested")
    inflater = zlib.decompressobj(GZIP)
    try:
        inflated = inflater.decompress(body, most + 1)
    except zlib.error as error:
        raise MalformedResponse(f"the response is not valid gzip: {error}") from error
    check_body(len(inflated), most)
    if not inflater.eof:
        raise MalformedResponse("the response is not valid gzip: it ends too early")
    return inflated
