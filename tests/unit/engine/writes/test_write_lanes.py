"""Writes of one cluster do not wait for those of another."""

from __future__ import annotations

import asyncio

from hearth.engine.writes.write_lanes import WriteLane, WriteLanes
from hearth.model import limits
from hearth.runtime import LoopClock


class Writes:
    """Writes of which those of the Stack `slow` hang."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.begun: list[tuple[str, str]] = []
        self.released = asyncio.Event()
        self.lanes = WriteLanes(
            concurrency=16,
            clock=LoopClock(),
            take_step=self._take,
            on_start=lambda _seconds: None,
            on_error=lambda _stack, _key: None,
        )
        self.lanes.start()

    async def _take(self, lane: WriteLane, stack_uid: str, key: str) -> None:
        assert lane in self.lanes.list_all()
        self.begun.append((stack_uid, key))
        if stack_uid == "slow":
            await self.released.wait()
        self.done.append((stack_uid, key))


async def settle() -> None:
    """Let all that can move move."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_cluster_that_hangs_delays_no_other() -> None:
    """Its own writes are limited."""
    writes = Writes()
    writes.lanes.enqueue("east", "slow", [f"r{number}" for number in range(100)], namespace="shop")
    await settle()
    assert 0 < len(writes.begun) <= limits.CLUSTER_WRITES
    for cluster, uid in (("", "home"), ("west", "far")):
        writes.lanes.enqueue(cluster, uid, ["a", "b"], namespace="shop")
    await settle()

    assert sorted(writes.done) == [("far", "a"), ("far", "b"), ("home", "a"), ("home", "b")]
    writes.released.set()
    await writes.lanes.stop()


async def test_a_lane_ends_after_its_cluster_was_unused_twice() -> None:
    """That of the home cluster stays."""
    writes = Writes()
    writes.lanes.enqueue("east", "far", ["a"], namespace="shop")
    writes.lanes.enqueue("north", "idle", [], namespace="shop")
    await settle()
    assert len(writes.lanes.list_all()) == 2
    for used, left in ((["", "east"], 2), ([""], 2), (["", "east"], 2), ([""], 2), ([""], 1), ([""], 1)):
        writes.lanes.retain(used)
        assert len(writes.lanes.list_all()) == left
    writes.lanes.enqueue("east", "far", ["b"], namespace="shop")
    await settle()

    assert writes.done == [("far", "a"), ("far", "b")]
    await writes.lanes.stop()
