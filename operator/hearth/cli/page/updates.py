"""Server-sent events: what changed of a page, as often as reading costs little. One loop per stream, no other task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import orjson
from aiohttp import web

from hearth.cli.page.parts import Parts
from hearth.cli.stack_views import safe_text
from hearth.model import errors, limits

PAUSE: Final = 1.0
"""Minimum seconds between two reads of the page's objects."""
PAUSE_FACTOR: Final = 3
"""The pause is so many times as long as the read took, because a large Stack costs the API server more."""
CLOSED_CHECK: Final = 0.1
"""Seconds between two checks whether the browser closed the connection. aiohttp could cancel the handler instead, but
it would cancel actions as well, between two writes."""
HEARTBEAT: Final = 15.0
"""Seconds without an event after which the browser learns that the connection still is there."""


class Updates:
    """The open streams of one server."""

    def __init__(self) -> None:
        self._count = 0

    async def follow(self, request: web.Request, make: Callable[[], Awaitable[Parts]]) -> web.StreamResponse:
        """Send each part again whenever it changes, until the browser closes the stream."""
        if self._count >= limits.PAGE_STREAMS:
            raise web.HTTPTooManyRequests(text="too many tabs follow this page; close some")
        self._count += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            await send(request, response, make)
        except ConnectionError:
            pass  # the browser left
        finally:
            self._count -= 1
        return response


class Changes:
    """What has changed since the browser was last sent something."""

    def __init__(self) -> None:
        self._sent: dict[str, str] = {}
        self._problem = ""

    def on_parts(self, found: Parts) -> bytes:
        """Return the events after a successful read; nothing if nothing changed."""
        events = self.on_problem("")
        changed = {key: part for key, part in found.items() if self._sent.get(key) != part.version}
        self._sent = {key: part.version for key, part in found.items()}
        if changed:
            contents = {key: {"version": part.version, "html": part.html} for key, part in changed.items()}
            events += write_event("parts", {"parts": contents, "all": list(found)})
        return events

    def on_problem(self, message: str) -> bytes:
        """Return the events after a read that failed; message: "" for one that succeeded."""
        if message == self._problem:
            return b""
        self._problem = message
        return write_event("problem", {"message": message})


async def send(request: web.Request, response: web.StreamResponse, make: Callable[[], Awaitable[Parts]]) -> None:
    """Send events until the browser closes the connection."""
    loop = asyncio.get_running_loop()
    changes, written_at = Changes(), loop.time()
    while request.transport is not None:
        began = loop.time()
        try:
            events = changes.on_parts(await make())
        except (errors.ApiStatusError, errors.Unreachable) as error:
            events = changes.on_problem(safe_text.one_line(error) or "the API server does not answer")
        if not events and loop.time() - written_at > HEARTBEAT:
            events = b": still here\n\n"
        if events:
            await response.write(events)
            written_at = loop.time()
        await pause(request, max(PAUSE, PAUSE_FACTOR * (loop.time() - began)))


async def pause(request: web.Request, seconds: float) -> None:
    """Wait, at most until the browser closes the connection: a closed tab must not count as one."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while request.transport is not None and loop.time() < end:  # noqa: ASYNC110 -- aiohttp has no event for it
        await asyncio.sleep(CLOSED_CHECK)


def write_event(name: str, content: object) -> bytes:
    """Return one event. JSON has no line ends, so nothing in the content ends an event."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(content) + b"\n\n"
