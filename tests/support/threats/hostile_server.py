"""A tenant's API server whose responses are as expensive as possible for its client.

A separate program, because it uses much CPU.

    python -P hostile_server.py certificate.pem MODE KINDS

It prints its port, and serves until its standard input closes. Imports nothing of Hearth.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

MODES = ("pages", "empty", "lines", "schemas", "events", "accepts", "silent", "garbage")
GROUP = "hostile.test"
REQUEST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.1\r\n")
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
LARGE = gzip.compress(b'{"metadata": {"resourceVersion": "1", "continue": "x"}, "items": [' + b" " * 60_000_000 + b"]}")
EMPTY = {"metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}
SCHEMA_TEXT = "x" * 7_000_000


def discover(kinds: int, *, groups: int) -> dict[str, Any]:
    """The kinds that it serves, spread over that many groups."""

    def describe(number: int) -> dict[str, Any]:
        return {
            "resource": f"odd{number}s",
            "responseKind": {"group": "", "version": "", "kind": f"Odd{number}"},
            "scope": "Namespaced",
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        }

    items = [
        {
            "metadata": {"name": f"g{group}.{GROUP}"},
            "versions": [
                {"version": "v1", "resources": [describe(number) for number in range(group, kinds, groups)]},
            ],
        }
        for group in range(groups)
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


class HostileServer:
    def __init__(self, mode: str, kinds: int) -> None:
        self._mode = mode
        self._groups = kinds if mode == "schemas" else 1
        self._kinds = kinds
        self._number = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found, length = REQUEST.match(head), LENGTH.search(head)
                assert found is not None
                body = await reader.readexactly(int(length[1])) if length is not None else b""
                async for piece in self.answer(found[1].decode(), found[2].decode(), body):
                    writer.write(piece)
                    await writer.drain()
        writer.close()

    async def answer(self, method: str, target: str, body: bytes) -> AsyncIterator[bytes]:
        path, _, query = target.partition("?")
        if path in ("/api", "/apis"):
            known = discover(self._kinds, groups=self._groups) if path == "/apis" else discover(0, groups=0)
            yield plain(known)
        elif self._mode == "silent":
            await asyncio.sleep(3600)
        elif self._mode == "garbage":
            yield b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + b"[" * 5_000_000
        elif path == "/openapi/v3":
            paths = {
                f"apis/g{number}.{GROUP}/v1": {"serverRelativeURL": f"/{number}"} for number in range(self._groups)
            }
            yield plain({"paths": paths})
        elif path.startswith("/openapi/v3/") and self._mode == "schemas":
            yield plain({"components": {"schemas": {path: {"type": "object", "title": SCHEMA_TEXT}}}})
        elif "watch=" in query:
            async for piece in self.watch(query):
                yield piece
        elif self._mode == "pages":
            yield compressed(LARGE)
        elif method == "PATCH" and self._mode == "accepts":
            yield plain(self.accept(json.loads(body)))
        else:
            yield plain(EMPTY if self._mode == "empty" else {"metadata": {"resourceVersion": "1"}, "items": []})

    async def watch(self, query: str) -> AsyncIterator[bytes]:
        """A stream of events."""
        if self._mode in ("pages", "empty") and "sendInitialEvents" in query:
            status = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "sendInitialEvents is forbidden"}
            yield plain(status, code="422 Unprocessable Entity")
            return
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        if self._mode == "lines":
            yield chunk(b'{"type":"ADDED","object":{"x":"' + b"x" * 7_900_000)
            await asyncio.sleep(3600)
        if self._mode == "events":
            for number in iter(int, 1):
                self._number += 1 + number
                yield chunk(write_event("MODIFIED", self._number, "x" * 200_000))
        yield chunk(write_end())
        await asyncio.sleep(3600)

    def accept(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """The apparent result of a write."""
        self._number += 1
        metadata = manifest.setdefault("metadata", {})
        metadata |= {"uid": f"u{self._number}", "resourceVersion": str(self._number)}
        return manifest


def plain(content: dict[str, Any], *, code: str = "200 OK") -> bytes:
    """A JSON answer."""
    body = json.dumps(content).encode()
    return f"HTTP/1.1 {code}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def compressed(body: bytes) -> bytes:
    """A gzip answer."""
    return f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def chunk(line: bytes) -> bytes:
    return f"{len(line):x}\r\n".encode() + line + b"\r\n"


def write_event(type_: str, version: int, text: str) -> bytes:
    """An event about an object that belongs to no Stack."""
    metadata = {"name": "o", "namespace": "x", "uid": "o", "resourceVersion": str(version)}
    metadata["labels"] = {"hearth.dev/stack-uid": "none", "hearth.dev/resource": "o"}  # type: ignore[assignment]  # a map
    item = {"apiVersion": f"g0.{GROUP}/v1", "kind": "Odd0", "metadata": metadata, "data": text}
    return json.dumps({"type": type_, "object": item}).encode() + b"\n"


def write_end() -> bytes:
    """The end of the initial list."""
    metadata = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\n"


async def run(certificate: Path, mode: str, kinds: int) -> None:
    """Serve until the parent process exits."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(HostileServer(mode, kinds).serve, "127.0.0.1", 0, ssl=context, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextlib.contextmanager
def run_hostile(certificate: Path, mode: str, *, kinds: int = 1) -> Iterator[int]:
    """Run the server in a separate process at the lowest priority, because it shares the machine with its victim;
    yields its port.
    """
    command = ["nice", "-n", "19", sys.executable, "-P", __file__, str(certificate), mode, str(kinds)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
