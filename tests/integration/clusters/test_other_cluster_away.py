"""Another cluster disconnects and reconnects at any time; a Stack here is not affected.

Also kills the operator (SIGKILL) at its changes there: the result is the same, without duplicates.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.real import other_cluster
from support.real.control_plane_processes import OwnPlane
from support.real.other_cluster import Region, config
from support.server import fake_kinds
from support.stories import stack_manifests

AWAY = "ClusterUnreachable"
CHAIN = 8


async def kill(plane: OwnPlane) -> None:
    """Stop the other cluster's API server."""
    await asyncio.to_thread(plane.kill, "kube-apiserver")


async def bring_back(plane: OwnPlane) -> None:
    """Start it again; returns when it is ready."""
    await asyncio.to_thread(plane.restore)


RESOURCES = {f"r{number}": config("1", needs=f"r{number - 1}" if number else "") for number in range(30)}
CHANGED = {f"r{number}": config("2", needs=f"r{number - 1}" if number else "") for number in range(30)}


async def test_away_in_the_middle_of_a_create_and_an_update(region: Region, other_plane: OwnPlane) -> None:
    await region.create(RESOURCES)
    async for _ in other_cluster.attempts():
        if await region.list_there():
            break
    await kill(other_plane)
    await region.until(reason=AWAY, message=f"cluster {region.other.server.removeprefix('https://')}")
    await bring_back(other_plane)
    await region.until(phase="CreateComplete")
    made = {name: raw["metadata"]["uid"] for name, raw in (await region.list_there()).items()}
    assert len(made) == 30

    await kill(other_plane)
    status = await region.until(phase="CreateInProgress", reason=AWAY)
    assert [each["status"] for each in status["conditions"] if each["type"] == AWAY] == ["True"]
    await region.edit({"template": {"resources": CHANGED}})
    await asyncio.sleep(1.0)
    await bring_back(other_plane)
    await region.until(phase="UpdateComplete")
    found = await region.list_there()
    assert {raw["data"]["v"] for raw in found.values()} == {"2"}
    assert {name: raw["metadata"]["uid"] for name, raw in found.items()} == made
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    region.check_operator()


async def test_a_deletion_waits_for_the_cluster(region: Region, other_plane: OwnPlane) -> None:
    await region.create(RESOURCES)
    await region.until(phase="CreateComplete")
    await kill(other_plane)
    await region.until(reason=AWAY)
    await region.here.delete(region.address_of("shop"))
    blocked = await region.until_blocked(reason=AWAY)
    assert "cannot be reached" in blocked
    await bring_back(other_plane)
    await region.until_gone()
    assert await region.list_there() == {}
    region.check_operator()


async def test_an_operator_that_starts_while_it_is_away(region: Region, other_plane: OwnPlane) -> None:
    await region.create(
        {"db": config("1")}, template={"resources": {"db": config("1")}, "outputs": {"v": {"value": "${db.data.v}"}}}
    )
    complete = await region.until(phase="CreateComplete")
    assert complete["outputs"] == {"v": "1"}
    made = await region.list_there()
    await region.operator.kill()
    await kill(other_plane)
    await region.operator.start()
    status = await region.until(reason=AWAY)
    assert status["outputs"] == {"v": "1"}
    await bring_back(other_plane)
    await region.until(phase="CreateComplete")
    assert (await region.list_there()).keys() == made.keys()
    assert (await region.list_there())["shop-db"]["metadata"]["uid"] == made["shop-db"]["metadata"]["uid"]

    await region.operator.kill()
    await kill(other_plane)
    await region.here.delete(region.address_of("shop"))
    await region.operator.start()
    await region.until_blocked(reason=AWAY)
    await bring_back(other_plane)
    await region.until_gone()
    assert await region.list_there() == {}
    region.check_operator()


async def test_an_abandoned_stack_does_not_wait(region: Region, other_plane: OwnPlane) -> None:
    await region.create({"db": config("1")}, deletionPolicy="Abandon")
    await region.until(phase="CreateComplete")
    await kill(other_plane)
    await region.until(reason=AWAY)
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    await bring_back(other_plane)
    assert list(await region.list_there()) == ["shop-db"]
    region.check_operator()


@pytest.mark.parametrize("fault", ["kill", "hold"])
async def test_stacks_here_are_not_delayed(region: Region, other_plane: OwnPlane, fault: str) -> None:
    await region.create({f"r{number}": config("1") for number in range(40)})
    await region.until(phase="CreateComplete")
    spec = {"template": {"resources": {"a": config("0")}}}
    await region.here.create(stack_manifests.make_stack(spec, name="local", namespace=region.namespace))
    await region.until("local", phase="CreateComplete")
    usual = await measure(region, range(1, 21))
    if fault == "hold":
        with other_plane.held("kube-apiserver"):
            await region.edit({"template": {"resources": {f"r{number}": config("2") for number in range(40)}}})
            disturbed = await measure(region, range(21, 41))
    else:
        await kill(other_plane)
        await region.edit({"template": {"resources": {f"r{number}": config("2") for number in range(40)}}})
        disturbed = await measure(region, range(21, 41))
        await bring_back(other_plane)
    await asyncio.to_thread(other_plane.wait_ready)
    print(f"{fault}: median {usual:.3f} s, disturbed {disturbed:.3f} s")
    assert disturbed < 3 * usual + 0.2
    await region.until(phase="UpdateComplete")
    for name in ("shop", "local"):
        await region.here.delete(region.address_of(name))
        await region.until_gone(name)
    region.check_operator()


async def measure(region: Region, rounds: range) -> float:
    """The median time in seconds from a change of the Stack here until its object has it."""
    taken = []
    path = f"/api/v1/namespaces/{region.namespace}/configmaps/local-a"
    for number in rounds:
        begun = time.monotonic()
        await region.edit({"template": {"resources": {"a": config(str(number))}}}, name="local")
        while (await region.here.connection.request("GET", path))["data"]["v"] != str(number):
            assert time.monotonic() < begun + other_cluster.PATIENCE
            await asyncio.sleep(0.01)
        taken.append(time.monotonic() - begun)
    return sorted(taken)[len(taken) // 2]


def make_chain(value: str) -> Object:
    """ConfigMaps that each require the previous one."""
    return {f"r{number}": config(value, needs=f"r{number - 1}" if number else "") for number in range(CHAIN)}


class Killer:
    """Watches the changes there, and kills the operator at every n-th one; another operator starts at once."""

    def __init__(self, region: Region, *, every: int, first: int) -> None:
        self._region = region
        self._every = every
        self._left = first
        self._rising: asyncio.Task[None] | None = None
        self.deaths = 0
        self.made: dict[str, set[str]] = defaultdict(set)
        """UIDs by name."""

    def on_event(self, event: str, raw: Object) -> None:
        """A ConfigMap was written or deleted."""
        metadata = raw["metadata"]
        if names.LABEL_STACK_UID not in (metadata.get("labels") or {}):
            return
        self.made[metadata["name"]].add(metadata["uid"])
        self._left -= 1
        if self._left <= 0 and (self._rising is None or self._rising.done()):
            self._left = self._every
            self.deaths += 1
            self._region.operator.end_at_once()
            self._rising = asyncio.create_task(self._rise())

    async def _rise(self) -> None:
        await self._region.operator.kill()
        await self._region.operator.start()

    async def finish(self) -> None:
        """Wait until the last operator has started."""
        if self._rising is not None:
            await self._rising


@pytest.mark.parametrize(
    ("every", "first"),
    [pytest.param(2 * CHAIN, 4, id="some"), *(pytest.param(3, n, marks=pytest.mark.soak) for n in (1, 2, 3))],
)
async def test_killed_at_changes_in_another_cluster(region: Region, every: int, first: int) -> None:
    killer = Killer(region, every=every, first=first)
    following = asyncio.create_task(region.there.follow(fake_kinds.CONFIG_MAP.kind, killer.on_event))
    await region.create(make_chain("1"))
    await region.until(phase="CreateComplete")
    await region.edit({"template": {"resources": make_chain("2")}})
    await region.until(phase="UpdateComplete")
    assert {raw["data"]["v"] for raw in (await region.list_there()).values()} == {"2"}
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    assert await region.list_there() == {}
    await killer.finish()
    following.cancel()
    assert killer.deaths >= 2
    assert {name: len(uids) for name, uids in killer.made.items()} == {f"shop-r{n}": 1 for n in range(CHAIN)}
