"""After any fault between the caches and a real API server, the caches eventually equal the server.

Each test injects one fault, changes the world meanwhile, and waits for a marker: an object that is created last, and
whose event can only arrive on a live stream.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from hearth.kube.auth.credentials import Credentials, KubeconfigSource
from hearth.kube.cache.child_cache import ChildCache
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.watch.reflector import WatchOptions
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.change_signal import Pulse
from support.real import fault_proxy as proxy_module
from support.real.fault_proxy import FaultProxy
from support.units.scripted_api.scripted_watch import CONFIG_MAP, ServedKinds
from support.units.static_credentials import FixedSource

SECRET = Kind(group="", version="v1", name="Secret", plural="secrets", namespaced=True)
STACK_UID = "fault-stack"
DATA = ("data",)
SHIFT = 1_000_000_000
"""Added to every resourceVersion before the store is "restored", so that the real ones are all older."""


@dataclass
class Listener:
    """Counts the Stacks that the caches would wake, and signals each change."""

    pulse: Pulse
    woken: list[str] = field(default_factory=list)

    def on_child(self, stack_uid: str, resource: str) -> None:
        self.woken.append(resource)
        self.pulse.beat()

    def on_synced(self, kind: Kind) -> None:
        self.pulse.beat()


@dataclass
class World:
    """A namespace on the server, the proxy, and caches behind it."""

    direct: Connection
    proxy: FaultProxy
    caches: ChildCache
    listener: Listener
    pulse: Pulse
    namespace: str
    _markers: itertools.count[int] = field(default_factory=itertools.count)

    async def apply(self, name: str, *, kind: Kind = CONFIG_MAP, value: str = "b25l", labelled: bool = True) -> Object:
        """Create or change an object as another client, bypassing the proxy. The value is also valid for a Secret."""
        labels = {names.LABEL_STACK_UID: STACK_UID, names.LABEL_RESOURCE: name} if labelled else {}
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "data": {"value": value},
        }
        return await self.direct.request(
            "PATCH",
            api_requests.object_path(kind, self.namespace, name),
            query={"fieldManager": "test", "force": "true"},
            body=manifest,
            content_type=api_requests.APPLY,
        )

    async def delete(self, name: str, *, kind: Kind = CONFIG_MAP) -> None:
        """Delete an object, bypassing the proxy."""
        await self.direct.request("DELETE", api_requests.object_path(kind, self.namespace, name))

    async def settle(self, *, kind: Kind = CONFIG_MAP) -> None:
        """Wait for a fresh marker; then the cache must equal the server."""
        marker = f"marker-{next(self._markers)}"
        await self.apply(marker, kind=kind)
        await self.pulse.until(lambda: marker in self.cached(kind))
        # A fresh list may have the marker before other objects, and deletions only show at the end of the list.
        stored = await self.stored(kind)
        await self.pulse.until(lambda: self.cached(kind) == stored)

    def cached(self, kind: Kind = CONFIG_MAP) -> dict[str, int]:
        """The versions that the cache has, by name."""
        groups = self.caches.children(STACK_UID).values()
        return {child.name: child.resource_version for group in groups for child in group if child.kind == kind}

    async def stored(self, kind: Kind) -> dict[str, int]:
        """The versions that the server has, by name."""
        path = api_requests.collection_path(kind, self.namespace)
        answer = await self.direct.request("GET", path, query={"labelSelector": names.LABEL_STACK_UID})
        metadata = [raw["metadata"] for raw in answer["items"]]
        return {each["name"]: int(each["resourceVersion"]) for each in metadata}

    def restarts(self, kind: Kind = CONFIG_MAP) -> dict[str, int]:
        """The reasons why the watch of a kind was restarted."""
        return next(dict(health.restarts) for health in self.caches.health() if health.kind == kind.key)

    async def wait_restart(self, reason: str, *, kind: Kind = CONFIG_MAP) -> None:
        """Wait until the watch has met that fault and sent its next request."""
        await self.pulse.until(lambda: self.restarts(kind).get(reason, 0) > 0)

    def fresh_lists(self) -> int:
        """Number of complete lists."""
        return sum("sendInitialEvents" in target or "limit=" in target for target in self.proxy.targets)


Build = Callable[..., Awaitable[World]]


@pytest.fixture
async def build(kubeconfig: Path, namespace: str) -> AsyncIterator[Build]:
    """Creates a world with `a`, `b` and `c`, all cached. Keywords: the rules of its watches."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(**rules: float) -> World:
            pulse = Pulse()
            listener = Listener(pulse)
            source = KubeconfigSource(paths=(str(kubeconfig),), context=None, environ={})
            direct = await stack.enter_async_context(Connection(source))
            proxy = await stack.enter_async_context(proxy_module.run_proxy(direct.credentials, pulse=pulse))
            through = await stack.enter_async_context(Connection(FixedSource(Credentials(server=proxy.url))))
            caches = ChildCache(through, ServedKinds(), listener, namespace=namespace, options=WatchOptions(**rules))  # type: ignore[arg-type]  # all of them are numbers here
            stack.push_async_callback(caches.close)
            world = World(direct, proxy, caches, listener, pulse, namespace)
            for name in ("a", "b", "c"):
                await world.apply(name)
            caches.follow(CONFIG_MAP, [DATA])
            await pulse.until(lambda: caches.follow(CONFIG_MAP, [DATA]))
            assert world.cached() == await world.stored(CONFIG_MAP)
            return world

        yield make


async def change_everything(world: World) -> None:
    """Change one object, delete one, remove the label of one, and create one."""
    await world.apply("a", value="dHdv")
    await world.delete("b")
    await world.apply("c", labelled=False)
    await world.apply("d")


async def test_without_faults_all_changes_arrive_on_one_stream(build: Build) -> None:
    world = await build()
    await change_everything(world)
    await world.settle()
    assert (world.restarts(), world.fresh_lists()) == ({}, 1)
    assert set(world.listener.woken) >= {"a", "b", "c", "d"}


INTERRUPTIONS = [
    pytest.param(
        b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n', "expired", 2, id="410 in stream"
    ),
    pytest.param(
        b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcdserver: leader changed"}}\n',
        "error",
        1,
        id="ERROR 500 in stream",
    ),
    pytest.param(b"<html>502 Bad Gateway</html>\n", "broken", 1, id="garbage line"),
    pytest.param(
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n', "backwards", 2, id="version goes back"
    ),
]


@pytest.mark.parametrize(("piece", "reason", "lists"), INTERRUPTIONS)
async def test_what_breaks_a_stream_loses_nothing(build: Build, piece: bytes, reason: str, lists: int) -> None:
    world = await build()
    world.proxy.flow.clear()
    await change_everything(world)
    away = world.proxy.refuse(503, where="watch=1")
    await world.proxy.say(piece)
    await world.wait_restart(reason)
    away.lift()
    world.proxy.flow.set()
    await world.settle()
    assert world.fresh_lists() >= lists
    assert world.restarts()[reason] == 1


async def test_an_event_without_an_object_is_skipped(build: Build) -> None:
    world = await build()
    await world.proxy.say(b'{"type":"MODIFIED","object":{}}\n')
    await change_everything(world)
    await world.settle()
    assert (world.restarts(), world.fresh_lists()) == ({}, 1)


async def test_half_a_line_and_a_cut_lose_nothing(build: Build) -> None:
    world = await build()
    await world.proxy.say(b'{"type":"MODIFIED","object":{"metadata":{"na')
    world.proxy.cut()
    await world.wait_restart("unreachable")
    await change_everything(world)
    await world.settle()


async def test_a_server_that_restarts_is_found_again(build: Build) -> None:
    world = await build()
    away = world.proxy.refuse(503)
    world.proxy.cut()
    await change_everything(world)
    await world.pulse.until(lambda: away.given >= 4)
    away.lift()
    await world.settle()
    assert world.restarts()["refused"] >= 4


async def test_a_silent_stream_is_noticed(build: Build) -> None:
    world = await build(stall_after=0.5)
    world.proxy.flow.clear()
    await change_everything(world)
    await world.wait_restart("stalled")
    world.proxy.flow.set()
    await world.settle()


REFUSALS = [
    pytest.param(401, "unauthorized", id="401 once"),
    pytest.param(403, "forbidden", id="403 for a while"),
    pytest.param(429, "throttled", id="429"),
    pytest.param(410, "expired", id="410 as an answer"),
    pytest.param(500, "refused", id="500"),
    pytest.param(503, "refused", id="503"),
]


@pytest.mark.parametrize(("code", "reason"), REFUSALS)
async def test_a_refused_watch_comes_back(build: Build, code: int, reason: str) -> None:
    world = await build()
    # On a first 401, the connection itself reads its credentials again.
    refusal = world.proxy.refuse(code, where="watch=1", times=2)
    world.proxy.cut()
    await change_everything(world)
    await world.pulse.until(lambda: refusal.given == 2)
    await world.settle()
    assert world.restarts().get(reason, 0) >= 1


async def test_a_kind_that_may_not_be_read_leaves_the_others_alone(build: Build) -> None:
    world = await build()
    await world.apply("hidden", kind=SECRET)
    refusal = world.proxy.refuse(403, where="/secrets")
    world.caches.follow(SECRET, [])
    await world.pulse.until(lambda: refusal.given >= 2)
    await change_everything(world)
    await world.settle()
    assert not world.caches.follow(SECRET, [])
    refusal.lift()
    await world.pulse.until(lambda: world.caches.follow(SECRET, []))
    await world.settle(kind=SECRET)


async def test_a_pause_that_the_server_asks_for_is_kept(build: Build) -> None:
    world = await build()
    refusal = world.proxy.refuse(429, where="watch=1", times=1, retry_after=1)
    world.proxy.cut()
    await world.pulse.until(lambda: refusal.given == 1)
    refused = len(world.proxy.moments) - 1
    await change_everything(world)
    await world.settle()
    assert world.proxy.moments[refused + 1] - world.proxy.moments[refused] >= 1.0


async def test_a_delete_in_a_gap_is_seen_by_the_next_list(build: Build) -> None:
    world = await build()
    expired = world.proxy.refuse(410, where="resourceVersion=", times=1)
    world.proxy.cut()
    await world.delete("b")
    await world.pulse.until(lambda: expired.given == 1)
    await world.pulse.until(lambda: "b" not in world.cached())
    assert world.listener.woken[-1] == "b"
    await world.settle()


async def test_a_delete_that_was_swallowed_is_seen_by_the_next_list(build: Build) -> None:
    world = await build()
    world.proxy.filter = lambda line: None if b'"DELETED"' in line else line
    await world.delete("b")
    await world.apply("d")
    await world.pulse.until(lambda: "d" in world.cached())
    assert "b" in world.cached()
    world.proxy.filter = None
    await world.proxy.say(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n')
    await world.settle()


async def test_a_lost_label_takes_the_object_away_and_its_return_brings_it_back(build: Build) -> None:
    world = await build()
    await world.apply("a", labelled=False)
    await world.pulse.until(lambda: "a" not in world.cached())
    await world.apply("a")
    await world.pulse.until(lambda: "a" in world.cached())
    await world.settle()
    assert world.restarts() == {}


async def test_a_fresh_list_that_shows_nothing_new_wakes_no_stack(build: Build) -> None:
    world = await build()
    world.listener.woken.clear()
    await world.proxy.say(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n')
    await world.settle()
    assert world.listener.woken == ["marker-0"]
    assert world.fresh_lists() == 2


async def test_a_server_without_watch_list_is_listed_in_pages(build: Build) -> None:
    world = await build(page_size=1)
    world.proxy.refuse(422, where="sendInitialEvents")
    expired = world.proxy.refuse(410, where="continue=", times=1)
    await world.proxy.say(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n')
    await change_everything(world)
    await world.settle()
    assert expired.given == 1
    assert world.restarts()["no-watch-list"] == 1


async def test_a_store_restored_from_a_backup_is_believed(build: Build) -> None:
    world = await build(stall_after=0.5)
    world.proxy.filter = shift_versions
    await world.proxy.say(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n')
    await world.apply("a", value="dHdv")
    await world.pulse.until(lambda: world.cached()["a"] > SHIFT)
    world.proxy.filter = None
    world.proxy.cut()
    await change_everything(world)
    await world.settle()
    assert max(world.cached().values()) < SHIFT


def shift_versions(line: bytes) -> bytes:
    """The same event, far in the future."""
    event = orjson.loads(line)
    metadata = event["object"]["metadata"]
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + SHIFT)
    return orjson.dumps(event)
