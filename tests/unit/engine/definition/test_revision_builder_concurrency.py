"""Definitions are accepted some at a time and bit by bit, so that others have their turns meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

from hearth.engine import cooperative_work as turns_module
from hearth.engine.cooperative_work import CHUNKS_PER_YIELD
from hearth.engine.definition.revision_builder import MAX_CONCURRENT_BUILDS
from hearth.model import names
from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server.request_faults import Request
from support.server.request_queue import Desk
from support.stories.world import Address

SECONDS = 0.1
"""Of the server, for each of many requests at once."""


async def test_work_in_pieces_leaves_room_for_others() -> None:
    """Between two of their turns lies a handful of pieces; the result is the work's own."""
    turns: list[int] = []
    done = 0

    def work() -> Iterator[None]:
        nonlocal done
        for number in range(1, 10 * CHUNKS_PER_YIELD):
            done = number
            yield
        return "made"

    async def look() -> None:
        while not turns or turns[-1] < done:
            turns.append(done)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    assert await turns_module.finish(work()) == "made"
    await looking
    assert len(turns) >= 9
    assert max(later - sooner for sooner, later in itertools.pairwise(turns)) <= CHUNKS_PER_YIELD


def make_stack(name: str) -> Object:
    """A Stack of one ConfigMap."""
    template = {"resources": {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}}}
    kind = {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": "Stack"}
    return {**kind, "metadata": {"name": name, "namespace": "default"}, "spec": {"template": template}}


def test_where_many_stacks_are_made_at_once_others_need_not_wait_for_their_revisions() -> None:
    """No more than some are on their way at a time; a Stack that goes, and the statuses, do not wait behind them."""

    async def story(world: FakeWorld) -> None:
        heard: list[tuple[float, Request]] = []
        begun = asyncio.get_running_loop().time
        await world.start_controller()
        old = Address.of(await world.user.create(make_stack("old")))
        await asyncio.sleep(5)
        world.controllers[0].wire.desk = Desk(places=1000, seconds=SECONDS)
        world.traffic.listeners.append(lambda request: heard.append((begun(), request)))
        since = begun()
        for number in range(MAX_CONCURRENT_BUILDS + 4):
            await world.user.create(make_stack(f"new{number}"))
        await asyncio.sleep(SECONDS / 2)
        await world.user.delete(old)
        await asyncio.sleep(5)

        finalizers = [moment - since for moment, request in heard if request.verb == "finalizer"]
        assert (
            sum(moment < 1.5 * SECONDS for moment in finalizers) == MAX_CONCURRENT_BUILDS - 1
        )  # One is left to other namespaces.
        gone = next(moment - since for moment, request in heard if request.verb == "delete")
        assert gone < 2.5 * SECONDS
        assert await world.user.find(old) is None

    fake_world.run(story)
