"""How the operator and an evaluator process talk: frames over pipes. Knows bytes only.

A request is a language, the text of an expression or script, and its inputs as JSON; a reply is one letter that says what it is, and its content.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct(">cII")
"""Of a request: its language, the length of the text, and that of the inputs."""
CEL, LUA = b"C", b"L"
"""The languages of requests: expressions, and health scripts."""
REPLY_HEADER = struct.Struct(">cI")
"""Of a reply: its letter, and the length of its content."""
READY = b"R"
"""Sent once, when requests are taken."""
VALUE, FAILURE, UNWRITABLE, TOO_LARGE, NO_MEMORY = b"V", b"F", b"U", b"L", b"M"


def write_request(text: str, packed: bytes, language: bytes = CEL) -> bytes:
    """The frame that asks for the value of an expression, or for the verdict of a script."""
    encoded = text.encode(errors="surrogatepass")
    return HEADER.pack(language, len(encoded), len(packed)) + encoded + packed


def write_reply(letter: bytes, content: bytes) -> bytes:
    """The frame that answers."""
    return REPLY_HEADER.pack(letter, len(content)) + content
