"""One engine's connection to the fake server: requests have latency, and events can be delayed.

Ends with its engine: once cut, nothing passes in either direction.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.server import request_faults
from support.server.fake_server import FakeServer
from support.server.request_faults import Request, Traffic

Answer = TypeVar("Answer")
Receiver: TypeAlias = Callable[[Kind, Object | None, Object | None], None]
"""Called for a change on the server with the kind, and the object before and after."""

LATENCY = 0.001
"""One-way latency of a request in seconds."""


class Desk:
    """A slow fake API server that serves the requests of all engines in order of arrival."""

    def __init__(self, *, places: int, seconds: float) -> None:
        """places: requests that are served at once; seconds: for each."""
        self._seconds = seconds
        self._free = [0.0] * places

    async def serve(self) -> None:
        """Wait until a request that arrives now has been served."""
        now = asyncio.get_running_loop().time()
        end = max(now, heapq.heappop(self._free)) + self._seconds
        heapq.heappush(self._free, end)
        await asyncio.sleep(end - now)


class FakeWire:
    def __init__(self, server: FakeServer, log: Traffic, *, latency: float = LATENCY) -> None:
        self.server = server
        self.traffic = log
        self.latency = latency
        self.delay = 2 * latency
        """Delay of events in seconds, slightly longer than the delay of responses.

        Without a delay, events arrive before responses, as they sometimes do on a real server.
        """
        self.find_latency: Callable[[], float] = lambda: self.latency
        """Returns the one-way latency in seconds. It may differ between requests, so that some overtake others."""
        self.slow: dict[str, float] = {}
        """Seconds by verb before a request takes effect, as with a webhook."""
        self.desk: Desk | None = None
        """Schedules the requests; None to serve them as they arrive."""
        self._is_alive = True
        self._held: dict[str, list[tuple[Kind, Object | None, Object | None]]] = {}
        self._is_pumping = False
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._notices: deque[tuple[float, Callable[[], None]]] = deque()
        self._receivers: list[Receiver] = []
        server.watchers.append(self._on_change)

    def cut(self) -> None:
        """Stop all traffic."""
        self._is_alive = False
        self._notices.clear()
        if self._on_change in self.server.watchers:
            self.server.watchers.remove(self._on_change)

    # ------------------------------------------------------------ requests

    async def send(self, request: Request, act: Callable[[], Answer]) -> Answer:
        """Return the response to a request after the latency in both directions."""
        await self.travel()
        await asyncio.sleep(self.slow.get(request.verb, 0.0))
        if self.desk is not None:
            await self.desk.serve()
        how = self.traffic.record(request)
        if how == "kill-before":
            self._die()
        number = self.traffic.writes if request.verb in request_faults.WRITES else None
        refusal = self.traffic.find_refusal(request, how)
        if refusal is not None and not isinstance(refusal, request_faults.Lost):
            self._note_refusal(number)
            if how == "kill-after":
                self._die()
            await self.travel()
            raise refusal
        self.traffic.acting, self.traffic.is_answer_lost = request, refusal is not None
        try:
            answer = act()
        except errors.ApiStatusError as error:
            self.traffic.acting = None
            self._note_refusal(number)
            await self.travel()
            raise error from None
        self.traffic.acting = None
        if how == "kill-after":
            self._die()
        await self.travel()
        if refusal is not None:
            raise errors.Unreachable("the connection was closed before an answer came")
        return answer

    def _note_refusal(self, number: int | None) -> None:
        if number is not None:
            self.traffic.refused.add(number)

    async def travel(self) -> None:
        """Wait for the one-way latency of a request or response."""
        if self._is_alive:
            await asyncio.sleep(self.find_latency())
        if not self._is_alive:
            raise asyncio.CancelledError

    def _die(self) -> None:
        self.traffic.kill()
        raise asyncio.CancelledError

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        """Call a function of this engine later."""
        self._loop.call_later(delay, lambda: action() if self._is_alive else None, context=self._context)

    # ------------------------------------------------------------ events

    def receive(self, receiver: Receiver) -> None:
        """Report every change from now on."""
        self._receivers.append(receiver)

    def hold(self, kind: str) -> None:
        """Hold back all events about that kind until `release`."""
        self._held.setdefault(kind, [])

    def release(self, kind: str) -> None:
        """Deliver all held events in order."""
        for change in self._held.pop(kind, ()):
            self._on_change(*change)

    def enqueue(self, notice: Callable[[], None]) -> None:
        """Deliver something after all earlier events."""
        self._notices.append((self._loop.time() + self.delay, notice))
        self._schedule()

    def _on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """The server's watcher."""
        if kind.name in self._held:
            self._held[kind.name].append((kind, before, after))
            return
        self.enqueue(lambda: self._deliver(kind, before, after))

    def _deliver(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        for receiver in self._receivers:
            receiver(kind, before, after)

    def _schedule(self) -> None:
        if self._notices and not self._is_pumping:
            self._is_pumping = True
            self._loop.call_at(self._notices[0][0], self._pump, context=self._context)

    def _pump(self) -> None:
        """Deliver due events."""
        self._is_pumping = False
        while self._notices and self._notices[0][0] <= self._loop.time():
            self._notices.popleft()[1]()
        self._schedule()
