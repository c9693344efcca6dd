"""A server that sends scripted bytes, for responses that no HTTP library would produce."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field


@dataclass
class RawServer:
    """Answers each connection's requests with scripted bytes, and closes it at None; b"" means silence."""

    plans: Sequence[Sequence[bytes | None]]
    """One plan per connection; the last one serves all further connections."""
    closes: bool = False
    """Whether it closes a connection at the end of its plan."""
    url: str = ""
    heard: list[bytes] = field(default_factory=list)
    """The head of each request."""
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None] | None] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.tasks.append(asyncio.current_task())
        plan = list(self.plans[min(len(self.writers), len(self.plans) - 1)])
        self.writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heard.append(head)
                self.asked.set()
                answer = plan.pop(0) if plan else b""
                if answer is None:
                    break
                writer.write(answer)
                if self.closes and not plan:
                    break
        writer.close()


@contextlib.asynccontextmanager
async def run_raw_server(*plans: Sequence[bytes | None], closes: bool = False) -> AsyncIterator[RawServer]:
    """A server on a free port of this machine."""
    server = RawServer(plans, closes)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for writer in server.writers:
            writer.transport.abort()
        await asyncio.gather(*filter(None, server.tasks))
