"""The operator killed (SIGKILL) at changes that it makes in another cluster: same end, and nothing made twice."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.real.other_cluster import Region, config
from support.server import fake_kinds

CHAIN = 8


def make_chain(value: str) -> Object:
    """ConfigMaps of which each requires the one before."""
    return {f"r{number}": config(value, needs=f"r{number - 1}" if number else "") for number in range(CHAIN)}


class Killer:
    """Sees every change there, and kills the operator at each one of so many; another one starts at once."""

    def __init__(self, region: Region, *, every: int, first: int) -> None:
        self._region = region
        self._every = every
        self._left = first
        self._rising: asyncio.Task[None] | None = None
        self.deaths = 0
        self.made: dict[str, set[str]] = defaultdict(set)
        """By name the UIDs."""

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
        """Until the last one has started."""
        if self._rising is not None:
            await self._rising


@pytest.mark.parametrize(
    ("every", "first"),
    [pytest.param(2 * CHAIN, 4, id="some"), *(pytest.param(3, n, marks=pytest.mark.soak) for n in (1, 2, 3))],
)
async def test_killed_at_changes_in_another_cluster(region: Region, every: int, first: int) -> None:
    """In a creation, an update and a deletion."""
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
