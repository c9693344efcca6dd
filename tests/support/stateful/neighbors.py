"""The time of ordinary Stacks from an edit to Ready, in virtual time, with or without a hostile tenant.

The same seed gives the same edits at the same moments in both runs. Requests are served in a queue, as on a real server
with few processors, so that a client with many requests makes others wait unless shares are fair.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.checks import expectations, invariants
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_connection import Desk
from support.server import fake_kinds
from support.stateful import hostile_specs, hostile_tenant
from support.stateful.hostile_tenant import Deed, Mallory
from support.stories import stack_manifests

STACKS = 20
EDITS = 150
CONCURRENCY = 8
PLACES = 4
SERVICE = 0.01
"""Seconds of work per request on the fake server."""
BETWEEN = 0.4
"""Average seconds between two edits."""
ACTS = 3
"""Average number of hostile acts per ordinary edit."""
PATIENCE = 120.0
"""Maximum seconds until the last edit must be Ready."""


@dataclass(slots=True)
class Stopwatch:
    """The time of each edit by Stack and generation, and its duration once Ready."""

    begun: dict[tuple[str, int], float] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    asked: dict[tuple[str, str], float] = field(default_factory=dict)
    """The time of the edit, by Stack and value."""
    applied: list[float] = field(default_factory=list)
    """The durations until the last object had the value."""

    def on_change(self, kind: Kind, _before: Object | None, after: Object | None) -> None:
        """The server's watcher."""
        if kind == fake_kinds.CONFIG_MAP.kind and after is not None and not hostile_tenant.is_hostile(after):
            labels = invariants.labels_of(after)
            if labels.get("hearth.dev/resource") == "r3":
                begun = self.asked.pop((labels["hearth.dev/stack"], after["data"]["v"]), None)
                if begun is not None:
                    self.applied.append(asyncio.get_running_loop().time() - begun)
        if kind != fake_kinds.STACK.kind or after is None or hostile_tenant.is_hostile(after):
            return
        status, now = expectations.status_of(after), asyncio.get_running_loop().time()
        name, generation = after["metadata"]["name"], after["metadata"]["generation"]
        if status.get("observedGeneration") == generation and str(status.get("phase")).endswith("Complete"):
            done = [each for each in self.begun if each[0] == name and each[1] <= generation]
            self.took += [now - self.begun.pop(each) for each in done]
        elif status.get("observedGeneration") != generation:
            self.begun.setdefault((name, generation), now)
            self.asked.setdefault((name, after["spec"]["template"]["resources"]["r0"]["manifest"]["data"]["v"]), now)


def find_slowest(watches: Iterable[Stopwatch]) -> float:
    """Seconds to Ready that 99 of 100 edits do not exceed."""
    return statistics.quantiles([each for watch in watches for each in watch.took], n=100)[98]


def make_spec(value: int) -> Object:
    """Four objects, each made from the previous one."""
    data = [{"v": f"v{value}"}, *({"v": f"${{r{n}.data.v}}"} for n in range(3))]
    return hostile_specs.spec_of({f"r{n}": hostile_specs.config(data=each) for n, each in enumerate(data)})


Attack: TypeAlias = Callable[[FakeWorld, random.Random], Awaitable[None]]
"""Continues until it is cancelled."""


def measure(seed: int, *, is_attacked: bool) -> Stopwatch:
    """Seconds from each edit of an ordinary Stack until it is Ready, with or without a hostile tenant."""
    return measure_beside(seed, attack if is_attacked else None)


def measure_beside(seed: int, attack: Attack | None) -> Stopwatch:
    """Seconds from each edit of an ordinary Stack until it is Ready, under any attack."""
    watch = Stopwatch()

    async def live(world: FakeWorld) -> None:
        world.concurrency = CONCURRENCY
        await world.start_controller()
        for each in world.controllers:
            each.wire.desk = Desk(places=PLACES, seconds=SERVICE)
        world.server.watchers.append(watch.on_change)
        attacking = asyncio.ensure_future(attack(world, random.Random(f"hostile {seed}"))) if attack else None
        await edit(world, random.Random(seed))
        if attacking is not None:
            attacking.cancel()
        async with asyncio.timeout(PATIENCE):
            while watch.begun:  # noqa: ASYNC110 -- in virtual time
                await asyncio.sleep(0.1)

    fake_world.run_shared(live)
    return watch


async def edit(world: FakeWorld, chance: random.Random) -> None:
    """Create the Stacks and edit them at random moments."""
    for number in range(STACKS + EDITS):
        await asyncio.sleep(chance.expovariate(1 / BETWEEN))
        name = f"shop-{number if number < STACKS else chance.randrange(STACKS)}"
        if number < STACKS:
            await world.user.create(stack_manifests.make_stack(make_spec(number), name=name))
        else:
            await world.user.replace_spec(stack_manifests.address_in("default", name), make_spec(number))


async def attack(world: FakeWorld, chance: random.Random) -> None:
    """One hostile act after the other, half of them Stacks."""
    hostile = Mallory(world.server)
    hostile.settle()
    while True:
        await asyncio.sleep(chance.expovariate(ACTS / BETWEEN))
        act = "write-stack" if chance.random() < 0.5 else chance.choice(sorted(hostile_tenant.ACTS))
        hostile.do(Deed(act=act, number=chance.randrange(100), other=chance.randrange(8)))
