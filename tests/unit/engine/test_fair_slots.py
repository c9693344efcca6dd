"""Places in which namespaces take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from hearth.engine import cooperative_work
from hearth.engine.definition.revision_builder import FairSlots


class Users:
    """Coroutines that each have a place until a test says so."""

    def __init__(self, places: int) -> None:
        self.slots = FairSlots(places)
        self.inside: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    def enter(self, namespace: str, name: str) -> asyncio.Task[None]:
        """Start one."""

        async def use() -> None:
            async with self.slots.take(namespace):
                self.inside.append(name)
                await self.ends.setdefault(name, asyncio.Event()).wait()

        return asyncio.create_task(use())


async def turn() -> None:
    """Let all that can continue do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_namespace_leaves_a_place_and_others_come_first() -> None:
    """Definitions of one tenant that take long delay no other's."""
    users = Users(4)
    tasks = [users.enter("a", f"a{number}") for number in range(10)]
    await turn()
    assert users.inside == ["a0", "a1", "a2"]
    assert users.slots.locked()
    tasks.append(users.enter("b", "b0"))
    tasks.append(users.enter("c", "c0"))
    await turn()
    assert users.inside[3:] == ["b0"]
    users.ends["a0"].set()
    await turn()
    assert users.inside[4:] == ["c0"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not users.slots.locked()


async def test_who_is_canceled_leaves_no_place_taken() -> None:
    """While it waits, in the moment in which it gets a place, and while it has one."""
    users = Users(1)
    first, second, third = (users.enter("a", name) for name in "xyz")
    await turn()
    users.ends["x"].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second.cancel()
    await turn()
    assert users.inside[-1] == "z"
    third.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    fourth = users.enter("b", "w")
    await turn()
    assert users.inside[-1] == "w"
    fourth.cancel()


async def test_long_work_of_one_namespace_takes_one_turn_among_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions that take seconds to compile, in as many Stacks as a tenant likes."""
    monkeypatch.setattr(cooperative_work, "CHUNKS_PER_YIELD", 1)
    turns, done = FairSlots(1), list[str]()

    def work(name: str) -> Generator[None, None, None]:
        for _ in range(5):
            done.append(name)
            yield

    async def share(namespace: str) -> None:
        await cooperative_work.finish(work(namespace), take_turn=lambda: turns.take(namespace))

    await asyncio.gather(*(share("many") for _ in range(10)), share("other"))
    last = max(at for at, name in enumerate(done) if name == "other")
    assert done.count("other") == 5
    assert last <= 25  # Ten first chunks wait already; then every second one is the other's.
