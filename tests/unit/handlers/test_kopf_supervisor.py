"""The supervision of kopf with a simple fake: its actions, their times and their threads."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import structlog
from aiohttp import web

from hearth import supervision
from hearth.handlers import kopf_supervisor
from hearth.handlers.callbacks import HandlerCallbacks
from hearth.handlers.kopf_supervisor import KopfCallbacks, KopfSupervisor, RunKopf, SupervisorTimeouts, make_run
from hearth.kube.auth.credentials import Credentials
from support.real.servers.stub_server import run_stub
from support.units.static_credentials import FixedSource

QUICK = SupervisorTimeouts(first_pause=0.0, longest_pause=0.0, stop=2.0)


class World:
    """Records the reports of the supervisor, in the loop of the test."""

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
    """Starts, reports kinds, and stops on request."""

    async def live() -> None:
        callbacks.on_kinds()
        await asyncio.get_running_loop().create_future()

    return live


def failing(_callbacks: HandlerCallbacks) -> RunKopf:
    """Fails with an error, as kopf does after an ERROR in its stream."""

    async def live() -> None:
        raise RuntimeError("etcd leader changed")

    return live


def ending(_callbacks: HandlerCallbacks) -> RunKopf:
    """Returns without an error."""
    return functools.partial(asyncio.sleep, 0)


def stubborn(callbacks: HandlerCallbacks) -> RunKopf:
    """Ignores the request to stop."""

    async def live() -> None:
        callbacks.on_kinds()
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    return live


async def test_what_kopf_hears_arrives_in_the_loop_of_its_starter() -> None:
    world = World()
    kopf = KopfSupervisor(obedient, world.ears(), timeouts=QUICK)

    kopf.start()
    await asyncio.wait_for(world.kinds.wait(), 5)
    await kopf.stop()

    assert world.threads == {threading.get_ident()}


async def test_a_failure_that_no_code_looks_at_in_kopfs_loop_is_reported() -> None:
    world = World()
    kopf = KopfSupervisor(obedient, world.ears(), timeouts=QUICK)

    kopf.start()
    await asyncio.wait_for(world.kinds.wait(), 5)
    assert kopf._inner is not None
    assert kopf._inner[0].get_exception_handler() is supervision.handle_loop_error
    await kopf.stop()


@pytest.mark.parametrize("live", [failing, ending], ids=["by an error", "of itself"])
async def test_a_kopf_that_ends_unasked_is_restarted(live: Callable[[HandlerCallbacks], RunKopf]) -> None:
    world = World()
    kopf = KopfSupervisor(live, world.ears(), timeouts=QUICK)

    kopf.start()
    counts = [await asyncio.wait_for(world.restarts.get(), 5) for _ in range(3)]
    await kopf.stop()

    assert counts == [1, 2, 3]


async def test_the_log_of_its_end_holds_no_message() -> None:
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
    world = World()
    kopf = KopfSupervisor(
        failing, world.ears(), timeouts=SupervisorTimeouts(first_pause=3600.0, longest_pause=3600.0, stop=5.0)
    )

    kopf.start()
    await asyncio.wait_for(world.restarts.get(), 5)
    await asyncio.wait_for(kopf.stop(), 5)

    assert not kopf.is_running


async def test_a_kopf_that_does_not_hear_is_left_behind() -> None:
    world = World()
    kopf = KopfSupervisor(stubborn, world.ears(), timeouts=SupervisorTimeouts(stop=0.01))

    kopf.start()
    await asyncio.wait_for(world.kinds.wait(), 5)
    await kopf.stop()

    assert kopf.is_running


async def test_a_frame_that_never_started_can_be_stopped() -> None:
    kopf = KopfSupervisor(obedient, World().ears(), timeouts=QUICK)

    await kopf.stop()

    assert not kopf.is_running


def test_patience_fits_into_the_five_seconds_that_the_process_has() -> None:
    assert kopf_supervisor.SupervisorTimeouts().stop < 4.5


def test_pauses_grow_up_to_a_limit() -> None:
    patience = SupervisorTimeouts(first_pause=1.0, longest_pause=5.0, settled_after=60.0)

    assert kopf_supervisor.find_restart_delay(None, lasted=0.0, timeouts=patience) == 1.0
    assert kopf_supervisor.find_restart_delay(1.0, lasted=2.0, timeouts=patience) == 2.0
    assert kopf_supervisor.find_restart_delay(4.0, lasted=2.0, timeouts=patience) == 5.0
    assert kopf_supervisor.find_restart_delay(5.0, lasted=61.0, timeouts=patience) == 1.0


# The real kopf under supervision, on a scripted server: faults that end kopf must not end anything else.


Item = TypeVar("Item")
PATIENCE = 20.0
"""Seconds, on a busy machine."""
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "lamps.example.org", "uid": "1", "resourceVersion": "7"},
}
RESOURCE = {
    "name": "customresourcedefinitions",
    "singularName": "customresourcedefinition",
    "kind": "CustomResourceDefinition",
    "namespaced": False,
    "verbs": ["get", "list", "watch"],
}
NAMESPACES = RESOURCE | {"name": "namespaces", "singularName": "namespace", "kind": "Namespace"}


class Definitions:
    """Serves one kind, without objects at first, and streams the events that the test puts into the queue of each
    watch.
    """

    def __init__(self) -> None:
        self.watches = asyncio.Queue[asyncio.Queue[bytes]]()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/apis":
                version = {"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"}
                group = {"name": "apiextensions.k8s.io", "versions": [version], "preferredVersion": version}
                return web.json_response({"kind": "APIGroupList", "groups": [group]})
            case "/apis/apiextensions.k8s.io/v1":
                return web.json_response({"kind": "APIResourceList", "resources": [RESOURCE]})
            case "/api":
                return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
            case "/api/v1":
                # kopf does not start before it knows the namespaces, although it never requests one.
                return web.json_response({"kind": "APIResourceList", "resources": [NAMESPACES]})
            case _ if "watch" in request.query:
                return await self.answer_watch(request)
            case _:
                return web.json_response({"kind": "List", "metadata": {"resourceVersion": "6"}, "items": []})

    async def answer_watch(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        lines = asyncio.Queue[bytes]()
        self.watches.put_nowait(lines)
        while True:
            await response.write(await lines.get())


class KopfWorld:
    """Records the reports of the supervisor."""

    def __init__(self) -> None:
        self.kinds = asyncio.Queue[None]()
        self.restarts = asyncio.Queue[None]()

    def start(self, url: str) -> KopfSupervisor:
        ears = KopfCallbacks(
            on_kinds=lambda: self.kinds.put_nowait(None), on_restart=lambda: self.restarts.put_nowait(None)
        )
        patience = SupervisorTimeouts(first_pause=0.0, longest_pause=0.0)
        kopf = KopfSupervisor(
            lambda callbacks: make_run(FixedSource(Credentials(server=url)), callbacks), ears, timeouts=patience
        )
        kopf.start()
        return kopf


def line(type_: str, object_: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": object_}).encode() + b"\n"


async def heard(queue: asyncio.Queue[Item]) -> Item:
    return await asyncio.wait_for(queue.get(), PATIENCE)


async def test_a_definition_that_comes_wakes_discovery() -> None:
    definitions, world = Definitions(), KopfWorld()
    async with run_stub(definitions.answer) as stub:
        kopf = world.start(stub.url)
        lines = await heard(definitions.watches)
        assert world.kinds.empty()

        lines.put_nowait(line("ADDED", DEFINITION))
        await heard(world.kinds)
        await kopf.stop()

    assert world.restarts.empty()
    assert {request.method for request in stub.requests} == {"GET"}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(line("ERROR", {"kind": "Status", "code": 500, "message": "etcd leader changed"}), id="an error"),
        pytest.param(b"<html>Bad Gateway</html>\n", id="a page of some proxy"),
    ],
)
async def test_a_fault_that_ends_kopf_ends_nothing_else(fault: bytes) -> None:
    definitions, world = Definitions(), KopfWorld()
    async with run_stub(definitions.answer) as stub:
        kopf = world.start(stub.url)
        (await heard(definitions.watches)).put_nowait(fault)
        await heard(world.restarts)
        (await heard(definitions.watches)).put_nowait(line("ADDED", DEFINITION))
        await heard(world.kinds)
        await kopf.stop()

    assert not kopf.is_running
