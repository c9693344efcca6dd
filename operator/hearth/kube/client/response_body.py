"""Reads and decompresses the bodies of HTTP responses, up to a limit."""

from __future__ import annotations

import zlib

import aiohttp

GZIP = 16 + zlib.MAX_WBITS
"""zlib's value for the gzip format."""


class MalformedResponse(ConnectionError):
    """Error for data that is not a complete HTTP response."""


class TooLong(MalformedResponse):
    """Error for a response body above the size limit."""


async def read(response: aiohttp.ClientResponse, *, most: int) -> bytes:
    """Return the decompressed body of at most this many bytes. Raises `MalformedResponse` or an error of aiohttp."""
    check_length(response.content_length or 0, most)
    body: bytes | bytearray = b""
    async for piece in response.content.iter_any():
        if not body:
            body = piece
            continue
        if isinstance(body, bytes):
            # A list of pieces would take fifty times the memory of a body that arrives in single bytes.
            body = bytearray(body)
        body += piece
        check_length(len(body), most)
    check_length(len(body), most)
    return decompress(bytes(body), response.headers.get("Content-Encoding", ""), most=most)


def decompress(body: bytes, encoding: str, *, most: int) -> bytes:
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
    check_length(len(inflated), most)
    if not inflater.eof:
        raise MalformedResponse("the response is not valid gzip: it ends too early")
    return inflated


def check_length(length: int, most: int) -> None:
    """Raise `TooLong` if a body is too long."""
    if length > most:
        raise TooLong(f"the answer has more than {most} bytes")
