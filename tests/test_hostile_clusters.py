"""A hostile server of another cluster, or a hostile kubeconfig, costs the Stacks of the home cluster nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from hearth.model.child import Object
from support import soak
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stateful import adversary_costs, hostile_cluster, hostile_tenant, neighbors
from support.stateful.hostile_cluster import NAME, WAYS, HostileServer
from support.stories import stack_manifests, story
from support.stories.world import Address

STACKS = 4
"""Of the hostile tenant."""
SECONDS = 120.0
"""How long the server lies, and the kubeconfig changes."""
RECOVERY = 700.0
"""Seconds until a retry with the longest delay is due."""
WORSE = 1.5
RUNS = "HEARTH_SOAK_RUNS"
SPEC: Object = {
    "kubeConfig": {"secretRef": {"name": NAME}},
    "template": {
        "resources": {
            "a": {"config": {"value": "1"}},
            "b": {"probe": {"value": 1}},
            "c": {"probe": {"value": "${b.status.value}"}},
        },
        "outputs": {"value": {"value": "${b.status.value}"}},
    },
}


class Neighbor:
    """A tenant with a server and a kubeconfig of its own."""

    def __init__(self, world: FakeWorld, chance: random.Random, ways: Sequence[str]) -> None:
        self.world = world
        self.chance = chance
        self.server = HostileServer(chance, ways=tuple(ways))
        self.secrets = hostile_cluster.make_kubeconfigs(hostile_tenant.NAMESPACE)

    async def settle(self) -> None:
        """Bring the server, and Stacks that are on it. An operator that is there already meets them one by one."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": hostile_tenant.NAMESPACE}}
        self.world.server.create(namespace, manager=hostile_tenant.MANAGER)
        await self.world.add_cluster(NAME)
        secret = {"apiVersion": "v1", "kind": "Secret", "data": self.secrets[0]}
        metadata = {"name": NAME, "namespace": hostile_tenant.NAMESPACE}
        self.world.server.create({**secret, "metadata": metadata}, manager=hostile_tenant.MANAGER)
        found = [raw["metadata"]["uid"] for raw in self.world.server.list_all(fake_kinds.STACK.kind)]
        self.server.stolen = tuple(found) or self.server.stolen
        hostile_cluster.attach(self.world.others[NAME], self.server)
        self.world.others[NAME].server.create(namespace, manager=hostile_tenant.MANAGER)
        for number in range(STACKS):
            made = stack_manifests.make_stack(
                story.expand(SPEC), name=f"foul-{number}", namespace=hostile_tenant.NAMESPACE
            )
            await self.world.user.create(made)

    async def change_kubeconfig(self) -> None:
        """Write another kubeconfig, right or wrong, every few seconds; a server disconnects and reconnects in
        between.
        """
        address = Address(api_version="v1", kind="Secret", namespace=hostile_tenant.NAMESPACE, name=NAME)
        while True:
            await asyncio.sleep(self.chance.expovariate(1 / 3))
            await self.world.user.patch(address, {"data": None})
            await self.world.user.patch(address, {"data": self.chance.choice(self.secrets)})
            self.world.set_away(NAME, is_away=self.chance.random() < 0.2)

    async def become_honest(self) -> None:
        """Answer truly from now on, also to those who come with the right kubeconfig."""
        self.server.ways = ()
        self.world.set_away(NAME, is_away=False)
        address = Address(api_version="v1", kind="Secret", namespace=hostile_tenant.NAMESPACE, name=NAME)
        await self.world.user.patch(address, {"data": None})
        await self.world.user.patch(address, {"data": self.secrets[0]})

    def find_unfinished(self) -> list[str]:
        """Its Stacks that are not complete, with their reason."""
        found = [raw for raw in self.world.server.list_all(fake_kinds.STACK.kind) if hostile_tenant.is_hostile(raw)]
        phases = {raw["metadata"]["name"]: raw.get("status", {}).get("phase") for raw in found}
        ready = {raw["metadata"]["name"]: expectations.find_condition(raw, "Ready") for raw in found}
        return [f"{name}: {phase}: {ready[name]}" for name, phase in phases.items() if phase != "CreateComplete"]


@pytest.mark.parametrize("ways", [[each] for each in WAYS], ids="+".join)
@fake_world.in_world
async def test_what_a_lying_server_is_sent_is_bounded(world: FakeWorld, ways: list[str]) -> None:
    """Each object gets at most as many requests as one that another client undoes; the Stacks complete once the server
    stops lying.

    Events that it never sent are lost, so completion comes with the next list, here after a restart of the operator.
    """
    await world.start_controller()
    neighbor = Neighbor(world, random.Random(1), ways)
    await neighbor.settle()
    await asyncio.sleep(SECONDS)
    assert any(each.name.startswith("foul-") for each in world.traffic.requests if each.verb == "apply")
    excess = adversary_costs.find_excess(world.traffic.requests, SECONDS)
    await neighbor.become_honest()
    await world.kill_controller()
    await world.start_controller()
    await asyncio.sleep(RECOVERY)
    assert (excess, neighbor.find_unfinished()) == ({}, [])


def test_home_stacks_notice_nothing_of_hostile_clusters() -> None:
    compare([0])


@pytest.mark.soak
def test_home_stacks_notice_nothing_of_any_hostile_clusters() -> None:
    runs = soak.amount(40, full=40, variable=RUNS)
    soak.PROGRESS.start(2 * runs)
    compare(range(soak.seed(), soak.seed() + runs))


def compare(seeds: Sequence[int]) -> None:
    """Runs with and without the hostile neighbor, with the same edits at the same moments."""
    alone = [measure(seed, is_attacked=False) for seed in seeds]
    beside = [measure(seed, is_attacked=True) for seed in seeds]

    assert [len(watch.took) for watch in beside] == [neighbors.STACKS + neighbors.EDITS] * len(seeds)
    assert neighbors.find_slowest(beside) < WORSE * neighbors.find_slowest(alone)


def measure(seed: int, *, is_attacked: bool) -> neighbors.Stopwatch:
    """The durations of edits of home Stacks."""

    async def attack(world: FakeWorld, chance: random.Random) -> None:
        neighbor = Neighbor(world, chance, chance.sample(WAYS, k=chance.randint(1, len(WAYS))))
        await neighbor.settle()
        await neighbor.change_kubeconfig()

    return neighbors.measure_beside(seed, attack if is_attacked else None)
