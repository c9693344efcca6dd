"""Wire format between the operator and an evaluator process: frames over pipes.

A request contains a language, the text of an expression or script, and its inputs as JSON. A reply contains one letter
for its type, and its content.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct(">cII")
"""Header of a request: its language, and the lengths of text and inputs."""
CEL, PACKED, LUA = b"C", b"P", b"L"
"""The languages of requests: expressions, expressions that read lists of packed objects, and health scripts."""
REPLY_HEADER = struct.Struct(">cI")
"""Header of a reply: its letter, and the length of its content."""
READY = b"R"
"""Sent once, when the process is ready for requests."""
VALUE, FAILURE, ABSENT, UNWRITABLE, TOO_LARGE, NO_MEMORY = b"V", b"F", b"A", b"U", b"L", b"M"


def write_request(text: str, packed: bytes, language: bytes = CEL) -> bytes:
    """Encode a request for the value of an expression or the result of a script."""
    encoded = text.encode(errors="surrogatepass")
    return HEADER.pack(language, len(encoded), len(packed)) + encoded + packed


def write_reply(letter: bytes, content: bytes) -> bytes:
    """Encode a reply."""
    return REPLY_HEADER.pack(letter, len(content)) + content
