"""Regardless of what a large Stack is at, a small one is served nearly as soon as alone: on a fake server that is slow, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from hearth.engine.writes.concurrency_limiter import MIN_LIMIT_BY_LATENCY
from hearth.model import names
from hearth.model.child import Object
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server.request_queue import Desk
from support.stories.world import Address

LARGE = 280
"""Resources: work for the server for longer than everything else here takes."""
SECONDS = 0.02
"""Of the server for every request, two of which are served at once: so a hundred a second."""
LATEST = 10.0
Story = Callable[["Site"], Awaitable[None]]


class Site:
    """Two users of one operator and one slow server."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.statuses: list[float] = []
        """When the statuses of the large Stack were written."""
        self._numbers = itertools.count()

    async def start(self) -> None:
        """Let the operator run, and look at its requests."""
        # Where the limiter settles at such a server, which its own tests show.
        self.world.concurrency = MIN_LIMIT_BY_LATENCY
        await self.world.start_controller()
        self.world.controllers[0].wire.desk = Desk(places=2, seconds=SECONDS)
        self.world.traffic.listeners.append(
            lambda request: self.statuses.append(now()) if (request.verb, request.name) == ("status", "large") else None
        )

    async def create(self, name: str, size: int, *, is_chain: bool = False) -> Address:
        """A Stack of so many ConfigMaps; in a chain each requires the one before."""
        resources: Object = {}
        for number in range(size):
            resources[f"c{number}"] = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
            if is_chain and number:
                resources[f"c{number}"]["dependsOn"] = [f"c{number - 1}"]
        address = Address(api_version=f"{names.GROUP}/{names.VERSION}", kind="Stack", namespace="default", name=name)
        metadata = {"name": name, "namespace": address.namespace}
        manifest = {"apiVersion": address.api_version, "kind": address.kind, "metadata": metadata}
        await self.world.user.create({**manifest, "spec": {"template": {"resources": resources}}})
        return address

    async def measure_life(self) -> tuple[float, float]:
        """The seconds that a Stack of four takes from its creation until it is complete, and from its deletion until it is gone."""
        begun = now()
        address = await self.create(f"small-{next(self._numbers)}", 4, is_chain=True)
        await self._wait(address, "CreateComplete")
        completed = now()
        await self.world.user.delete(address)
        await self._wait(address, None)
        return completed - begun, now() - completed

    async def is_rolling_out(self, address: Address) -> bool:
        """Whether there is still work for the server."""
        status = expectations.status_of(await self.world.user.find(address))
        return status.get("phase") != "CreateComplete"

    async def _wait(self, address: Address, phase: str | None) -> None:
        for _ in range(round(LATEST / 0.01)):
            found = await self.world.user.find(address)
            if (expectations.status_of(found).get("phase") if found is not None else None) == phase:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{address} is not {phase} after {LATEST} s")


def now() -> float:
    """Virtual seconds."""
    return asyncio.get_running_loop().time()


def play(story: Story) -> None:
    """Run a story at a site of its own."""

    async def begin(world: FakeWorld) -> None:
        site = Site(world)
        await site.start()
        await story(site)

    fake_world.run(begin)


def measure_alone() -> tuple[float, float]:
    """The life of a small Stack with nothing else to do."""
    found: list[tuple[float, float]] = []

    async def story(site: Site) -> None:
        found.append(await site.measure_life())

    play(story)
    return found[0]


def test_a_small_stack_waits_behind_few_requests_of_a_large_one() -> None:
    """Created and deleted; and the large one keeps telling how far it is."""
    alone = measure_alone()

    async def story(site: Site) -> None:
        large = await site.create("large", LARGE)
        await asyncio.sleep(0.5)
        created, deleted = await site.measure_life()
        assert await site.is_rolling_out(large)
        # Six and seven requests, one after the other, each behind at most as many as are in flight.
        assert created <= alone[0] + 6 * MIN_LIMIT_BY_LATENCY / 2 * SECONDS
        assert deleted <= alone[1] + 7 * MIN_LIMIT_BY_LATENCY / 2 * SECONDS
        await asyncio.sleep(LARGE * SECONDS)
        gaps = [later - sooner for sooner, later in itertools.pairwise(site.statuses)]
        assert max(gaps) < 1.5

    play(story)
