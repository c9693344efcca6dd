"""The supervision of kopf, with something simpler in kopf's place: what it does, when, in which thread."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable

import pytest
import structlog

from hearth import supervision
from hearth.handlers import kopf_supervisor
from hearth.handlers.callbacks import HandlerCallbacks
from hearth.handlers.kopf_supervisor import KopfCallbacks, KopfSupervisor, RunKopf, SupervisorTimeouts

QUICK = SupervisorTimeouts(first_pause=0.0, longest_pause=0.0, stop=2.0)


class World:
    """Hears what the frame tells, in the loop of the test."""

    def __init__(self) -> None:
        self.kinds = asyncio.Event()
        self.restarts = asyncio.Queue[int]()
        self.threads: set[int] = set()
        self._count = 0

    def ears(self) -> KopfCallbacks:
        return KopfCallbacks(on_kinds=self.hear_kinds, on_restart=self.hear_restart)

    def hear_kinds(self) -> None:
        self.threads.add(threading.get_ident())
        self.kinds.set()

    def hear_restart(self) -> None:
        self.threads.add(threading.get_ident())
        self._count += 1
        self.restarts.put_nowait(self._count)


def obedient(callbacks: HandlerCallbacks) -> RunKopf:
    """Starts, speaks of kinds, and ends when asked."""

    async def live() -> None:
        callbacks.on_kinds()
        await asyncio.get_running_loop().create_future()

    return live


def failing(_callbacks: HandlerCallbacks) -> RunKopf:
    """Ends by itself with an error, as kopf does on an ERROR in its stream."""

    async def live() -> None:
        raise RuntimeError("etcd leader changed")

    return live


def ending(_callbacks: HandlerCallbacks) -> RunKopf:
    """Ends by itself without one."""
    return functools.partial(asyncio.sleep, 0)


def stubborn(callbacks: HandlerCallbacks) -> RunKopf:
    """Does not hear that it is to end."""

    async def live() -> None:
        callbacks.on_kinds()
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    return live


async def test_what_kopf_hears_arrives_in_the_loop_of_its_starter() -> None:
    """The engine's structures are touched by one thread alone."""
    world = World()
    kopf = KopfSupervisor(obedient, world.ears(), timeouts=QUICK)

    kopf.start()
    await asyncio.wait_for(world.kinds.wait(), 5)
    await kopf.stop()

    assert world.threads == {threading.get_ident()}


async def test_a_failure_that_no_code_looks_at_in_kopfs_loop_is_reported() -> None:
    """By type and place, as its message may hold what a server sent."""
    world = World()
    kopf = KopfSupervisor(obedient, world.ears(), timeouts=QUICK)

    kopf.start()
    await asyncio.wait_for(world.kinds.wait(), 5)
    assert kopf._inner is not None
    assert kopf._inner[0].get_exception_handler() is supervision.handle_loop_error
    await kopf.stop()


@pytest.mark.parametrize("live", [failing, ending], ids=["by an error", "of itself"])
async def test_a_kopf_that_ends_unasked_is_restarted(live: Callable[[HandlerCallbacks], RunKopf]) -> None:
    """Again and again; the engine's loop continues meanwhile, and is reported for its metrics."""
    world = World()
    kopf = KopfSupervisor(live, world.ears(), timeouts=QUICK)

    kopf.start()
    counts = [await asyncio.wait_for(world.restarts.get(), 5) for _ in range(3)]
    await kopf.stop()

    assert counts == [1, 2, 3]


async def test_the_log_of_its_end_holds_no_message() -> None:
    """That may hold what a server sent, or a credential: type and frames are enough to find the place."""
    world = World()
    kopf = KopfSupervisor(failing, world.ears(), timeouts=QUICK)

    with structlog.testing.capture_logs() as said:
        kopf.start()
        await asyncio.wait_for(world.restarts.get(), 5)
        await kopf.stop()

    reported = next(each for each in said if "kopf exited" in each["event"])
    assert reported["error"] == "RuntimeError"
    assert any(frame.endswith(" live") for frame in reported["traceback"])
    assert "etcd leader changed" not in str(said)


async def test_a_pause_does_not_outlast_the_end() -> None:
    """Anyone who ends the process need not wait for the next attempt."""
    world = World()
    kopf = KopfSupervisor(
        failing, world.ears(), timeouts=SupervisorTimeouts(first_pause=3600.0, longest_pause=3600.0, stop=5.0)
    )

    kopf.start()
    await asyncio.wait_for(world.restarts.get(), 5)
    await asyncio.wait_for(kopf.stop(), 5)

    assert not kopf.is_running


async def test_a_kopf_that_does_not_hear_is_left_behind() -> None:
    """Its thread is a daemon: the process ends in time regardless of what hangs in there."""
    world = World()
    kopf = KopfSupervisor(stubborn, world.ears(), timeouts=SupervisorTimeouts(stop=0.01))

    kopf.start()
    await asyncio.wait_for(world.kinds.wait(), 5)
    await kopf.stop()

    assert kopf.is_running


async def test_a_frame_that_never_started_can_be_stopped() -> None:
    """The start of the process may fail before it."""
    kopf = KopfSupervisor(obedient, World().ears(), timeouts=QUICK)

    await kopf.stop()

    assert not kopf.is_running


def test_patience_fits_into_the_five_seconds_that_the_process_has() -> None:
    """Between the signal and the end."""
    assert kopf_supervisor.SupervisorTimeouts().stop < 4.5


def test_pauses_grow_up_to_a_limit() -> None:
    """And start again after a life that lasted."""
    patience = SupervisorTimeouts(first_pause=1.0, longest_pause=5.0, settled_after=60.0)

    assert kopf_supervisor.find_restart_delay(None, lasted=0.0, timeouts=patience) == 1.0
    assert kopf_supervisor.find_restart_delay(1.0, lasted=2.0, timeouts=patience) == 2.0
    assert kopf_supervisor.find_restart_delay(4.0, lasted=2.0, timeouts=patience) == 5.0
    assert kopf_supervisor.find_restart_delay(5.0, lasted=61.0, timeouts=patience) == 1.0
