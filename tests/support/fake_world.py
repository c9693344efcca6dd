"""A story's world in memory and in virtual time: the fake server, the engine on it, and the player of probes."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime
from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from typing import Any

import structlog

from hearth.engine import engine, inbox, services
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan import attempts, hashing, health
from support import fake_user, probe_player, silence, virtual_time
from support.fake_cluster import FakeCluster
from support.fake_home import FakeHome
from support.fake_marks import FakeMarks
from support.fake_server import FakeServer
from support.fake_user import FakeUser
from support.fake_wire import FakeWire
from support.oversight import Oversight
from support.traffic import Traffic
from support.virtual_time import VirtualClock
from support.witness import Witness
from support.world import Check

QUIET = 30.0
"""Seconds without a request or a change after which nothing moves any more."""
LONGEST = 3600.0
"""Seconds after which something that never comes to rest is taken for a fault."""
RESTART_AFTER = 1.0
"""Seconds from the death of an operator to the start of the next one."""
OPERATOR_NAMESPACE = "default"
"""Where every fake operator has what is its own."""
HASHER = hashing.Hasher(b"the key of every fake cluster")


class NeverRests(AssertionError):
    """Something was still busy after the longest time that a story may take."""


class SilentObserver:
    """The port `Observer`, for whoever measures nothing."""

    def on_pass(self, *, result: str, seconds: float) -> None:
        """As the port says."""

    def on_request(self, *, verb: str, kind: str, code: int) -> None:
        """As the port says."""

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """As the port says."""


class InternalError(AssertionError):
    """Something that must never happen, whatever the world does."""


@contextlib.contextmanager
def diary() -> Iterator[list[str]]:
    """What operators log as errors while this lasts; nothing is printed."""
    mistakes: list[str] = []

    def keep(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        shown = structlog.processors.format_exc_info(logger, method, event)
        told = "\n".join(str(value) for value in shown.values())
        if method in {"error", "critical", "exception"}:
            mistakes.append(told)
        mistakes.extend(silence.find_leaks("the log", told))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[keep], cache_logger_on_first_use=False)
    try:
        yield mistakes
    finally:
        structlog.configure(**before)


def run(test: Callable[[FakeWorld], Coroutine[Any, Any, None]]) -> None:
    """Run a test in a fake world of its own.

    Raises InternalError where an operator logged one, or where something happened that must never happen.
    """

    async def in_world() -> None:
        world = FakeWorld()
        await test(world)
        mistakes.extend(silence.find_leaks("an Event", world.traffic.events))
        mistakes.extend([*world.witness.wrong, *world.oversight.wrong])

    with diary() as mistakes:
        virtual_time.run(in_world)
    if mistakes:
        raise InternalError("\n".join(mistakes))


class Controller:
    """One life of the operator."""

    def __init__(self, server: FakeServer, traffic: Traffic) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._clock = VirtualClock()
        self._context = contextvars.copy_context()
        self._context.run(virtual_time.OWNER.set, self._tasks)
        self._context.run(self._make, server, traffic)

    def _make(self, server: FakeServer, traffic: Traffic) -> None:
        self.wire = FakeWire(server, traffic)
        heard = inbox.Inbox()
        shared = services.Services(
            home=FakeHome(self.wire, heard),
            marks=FakeMarks(self.wire, heard),
            cluster=FakeCluster(self.wire, heard),
            clock=self._clock,
            hashes=HASHER,
            inbox=heard,
            patience=attempts.Patience(chance=lambda: 0.5),
            rules=health.Rulebook(),
            own_namespace=OPERATOR_NAMESPACE,
        )
        self.engine = engine.Engine(services=shared, observer=SilentObserver())

    async def start(self) -> None:
        """Let it run."""
        await asyncio.get_running_loop().create_task(self.engine.start(), context=self._context)

    def kill(self) -> None:
        """End it at this very moment: nothing that it began gets through any more."""
        self.wire.cut()
        self._clock.stop()
        for task in list(self._tasks):
            task.cancel()


class FakeWorld:
    """The protocol `World`; made inside a virtual loop."""

    has_virtual_time = True

    def __init__(self, *, namespace: str = "default") -> None:
        self.namespace = namespace
        self.traffic = Traffic(kill=self._on_death)
        self._clock = VirtualClock()
        self.server = FakeServer(self._clock.now)
        self.controller: Controller | None = None
        self.event_delay: float | None = None
        """Seconds that events travel to operators that start from now on; None: as usual."""
        self.user = FakeUser(self.server)
        self._player = probe_player.Player(self.user, now=self._now)
        self._change = asyncio.Event()
        self._changes = 0
        self.witness = Witness()
        self.oversight = Oversight(self.traffic, self._clock.monotonic)
        self.traffic.listeners.append(self.oversight.on_request)
        self.server.watchers += [self._on_change, self.witness.on_change, self.oversight.on_change]
        self.server.create(probe_player.definition(), manager=fake_user.MANAGER)

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock.now(), tz=datetime.UTC)

    def _on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        self._changes += 1
        self._change.set()
        if kind.group == probe_player.GROUP:
            # In a context of its own: what the player begins must outlive the operator that made it look.
            asyncio.get_running_loop().call_soon(self._show, before, after, context=contextvars.Context())

    def _show(self, before: Object | None, after: Object | None) -> None:
        """The player of probes hears of a change."""
        if after is not None:
            self._player.show(after)
        elif before is not None:
            self._player.forget(before["metadata"]["uid"])

    # ------------------------------------------------------------ the operator

    async def start_controller(self) -> None:
        """As the protocol says."""
        self.controller = Controller(self.server, self.traffic)
        if self.event_delay is not None:
            self.controller.wire.delay = self.event_delay
            self.oversight.events_take(self.event_delay)
        await self.controller.start()

    async def kill_controller(self) -> None:
        """As the protocol says."""
        if self.controller is not None:
            self.controller.kill()
            self.controller = None

    def _on_death(self) -> None:
        """A planned death at a write: the next operator starts a moment later."""
        if self.controller is not None:
            self.controller.kill()
            self.controller = None
        loop = asyncio.get_running_loop()
        loop.call_later(RESTART_AFTER, self._rise, context=contextvars.Context())

    def _rise(self) -> None:
        if self.controller is None:
            self._rising = asyncio.ensure_future(self.start_controller())

    # ------------------------------------------------------------ events

    def hold_events(self, kind: str) -> None:
        """As the protocol says."""
        if self.controller is not None:
            self.controller.wire.hold(kind)

    def release_events(self, kind: str) -> None:
        """As the protocol says; an operator that was started since has heard all of it."""
        if self.controller is not None:
            self.controller.wire.release(kind)

    # ------------------------------------------------------------ time

    async def wait(self, seconds: float) -> None:
        """As the protocol says."""
        await asyncio.sleep(seconds)

    async def wait_until(self, check: Check) -> list[str]:
        """As the protocol says; looks at every single change."""
        while True:
            self._change.clear()
            wrong = await check()
            if not wrong:
                return []
            try:
                async with asyncio.timeout(QUIET):
                    await self._change.wait()
            except TimeoutError:
                return await check()

    async def wait_rest(self, check: Check, *, patience: float = 0.0) -> list[str]:
        """As the protocol says."""
        await self._rest()
        latest = self._clock.monotonic() + patience
        while (wrong := await check()) and self._clock.monotonic() < latest:
            await self._rest()
        return wrong

    async def _rest(self) -> None:
        """Until nothing was sent and nothing changed for a while."""
        begun = self._clock.monotonic()
        seen = None
        while seen != self._activity():
            seen = self._activity()
            await asyncio.sleep(QUIET)
            if self._clock.monotonic() > begun + LONGEST:
                raise NeverRests(f"still busy after {LONGEST:.0f} virtual seconds: {self.traffic.requests[-5:]}")

    def _activity(self) -> tuple[int, int]:
        return self._changes, len(self.traffic.requests)
