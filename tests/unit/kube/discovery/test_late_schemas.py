"""Schemas are published after their kinds: they are searched for several times after each change."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from hearth.kube.discovery.refresh_timing import SCHEMA_DELAYS, LateSchemas
from support import virtual_time

ALL = list(itertools.accumulate(SCHEMA_DELAYS))


@dataclass
class Search:
    """Notes when it is called, in seconds from the beginning."""

    times: list[float] = field(default_factory=list)
    on_call: Callable[[], None] = lambda: None

    async def __call__(self) -> None:
        """Search."""
        self.times.append(round(asyncio.get_running_loop().time(), 3))
        self.on_call()


def test_a_change_is_followed_by_a_series_of_searches() -> None:
    """Which ends."""

    async def run() -> None:
        search = Search()
        begin = asyncio.get_running_loop().time()
        LateSchemas(search).start()
        await asyncio.sleep(10 * sum(SCHEMA_DELAYS))
        assert [each - begin for each in search.times] == ALL

    virtual_time.run(run)


def test_another_change_starts_the_series_again() -> None:
    """Two of them together are one."""

    async def run() -> None:
        search = Search()
        late = LateSchemas(search)
        begin = asyncio.get_running_loop().time()
        late.start()
        await asyncio.sleep(SCHEMA_DELAYS[0] / 2)
        late.start()
        await asyncio.sleep(10 * sum(SCHEMA_DELAYS))
        assert [each - begin for each in search.times] == [SCHEMA_DELAYS[0] / 2 + each for each in ALL]

    virtual_time.run(run)


def test_a_search_that_finds_a_change_starts_the_series_again() -> None:
    """It ends by itself, since what it found is not yet processed."""

    async def run() -> None:
        search = Search()
        late = LateSchemas(search)
        begin = asyncio.get_running_loop().time()
        search.on_call = lambda: late.start() if len(search.times) == 2 else None
        late.start()
        await asyncio.sleep(10 * sum(SCHEMA_DELAYS))
        assert [each - begin for each in search.times] == [*ALL[:2], *(ALL[1] + each for each in ALL)]

    virtual_time.run(run)


def test_no_search_outlives_its_cluster() -> None:
    """Closing stops the series; without one it does nothing."""

    async def run() -> None:
        search = Search()
        late = LateSchemas(search)
        await late.close()
        late.start()
        await asyncio.sleep(SCHEMA_DELAYS[0] / 2)
        await late.close()
        await asyncio.sleep(10 * sum(SCHEMA_DELAYS))
        assert search.times == []

    virtual_time.run(run)
