"""kopf itself in its frame, on a server that answers what the test says: the faults that end kopf must end nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any, TypeVar

import pytest
from aiohttp import web

from hearth.handlers.kopf_supervisor import KopfCallbacks, KopfSupervisor, SupervisorTimeouts, make_run
from hearth.kube.auth.credentials import Credentials
from support.real.servers.stub_server import run_stub

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


class Source:
    """Credentials for the stub."""

    def __init__(self, url: str) -> None:
        self._url = url

    def load(self) -> Credentials:
        return Credentials(server=self._url)


class Definitions:
    """Serves one kind, of which there is none at first, and streams what the test puts into the queue of each watch."""

    def __init__(self) -> None:
        self.watches = asyncio.Queue[asyncio.Queue[bytes]]()

    async def answer(self, request: web.Request) -> web.StreamResponse:
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
                # Kopf does not begin before it knows of namespaces, though it never asks for one.
                return web.json_response({"kind": "APIResourceList", "resources": [NAMESPACES]})
            case _ if "watch" in request.query:
                return await self.answer_watch(request)
            case _:
                return web.json_response({"kind": "List", "metadata": {"resourceVersion": "6"}, "items": []})

    async def answer_watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        lines = asyncio.Queue[bytes]()
        self.watches.put_nowait(lines)
        while True:
            await response.write(await lines.get())


class World:
    """Hears what the frame tells."""

    def __init__(self) -> None:
        self.kinds = asyncio.Queue[None]()
        self.restarts = asyncio.Queue[None]()

    def start(self, url: str) -> KopfSupervisor:
        ears = KopfCallbacks(
            on_kinds=lambda: self.kinds.put_nowait(None), on_restart=lambda: self.restarts.put_nowait(None)
        )
        patience = SupervisorTimeouts(first_pause=0.0, longest_pause=0.0)
        kopf = KopfSupervisor(lambda callbacks: make_run(Source(url), callbacks), ears, timeouts=patience)
        kopf.start()
        return kopf


def line(type_: str, object_: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": object_}).encode() + b"\n"


async def heard(queue: asyncio.Queue[Item]) -> Item:
    return await asyncio.wait_for(queue.get(), PATIENCE)


async def test_a_definition_that_comes_wakes_discovery() -> None:
    """And nothing was heard before, since there was none."""
    definitions, world = Definitions(), World()
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
    """It is restarted, and hears again."""
    definitions, world = Definitions(), World()
    async with run_stub(definitions.answer) as stub:
        kopf = world.start(stub.url)
        (await heard(definitions.watches)).put_nowait(fault)
        await heard(world.restarts)
        (await heard(definitions.watches)).put_nowait(line("ADDED", DEFINITION))
        await heard(world.kinds)
        await kopf.stop()

    assert not kopf.is_running
