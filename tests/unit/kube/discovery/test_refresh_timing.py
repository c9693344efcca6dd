"""Timing of discovery: kinds and schemas together, never with results from before a call, and repeatedly for late
schemas.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from hearth.kube.discovery.refresh_timing import LATE_KINDS, SCHEMA_DELAYS, KindRefresh, LateSchemas, SingleFlight
from hearth.model import errors
from support.virtual_time import in_virtual_time


class Runs:
    """Counts runs; each lasts as long as the test says."""

    def __init__(self, *, lasts: float = 0.0) -> None:
        self.begun: list[float] = []
        self.at_once = 0
        self.has_begun = asyncio.Event()
        self.lasts = lasts
        self.errors: list[Exception | None] = [None]

    async def run(self) -> None:
        self.at_once += 1
        assert self.at_once == 1
        loop = asyncio.get_running_loop()
        self.begun.append(loop.time())
        self.has_begun.set()
        done = loop.create_future()
        loop.call_later(self.lasts, done.set_result, None)
        try:
            await done
            error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
            if error is not None:
                raise error
        finally:
            self.at_once -= 1


@in_virtual_time
async def test_callers_at_the_same_time_share_one_run() -> None:
    runs = Runs()
    shared = SingleFlight(runs.run, interval=1.0)
    await asyncio.gather(*(shared() for _ in range(100)))
    assert runs.begun == [0.0]


@in_virtual_time
async def test_runs_keep_their_distance() -> None:
    """A call that comes too early waits instead of returning an old result."""
    runs = Runs()
    shared = SingleFlight(runs.run, interval=1.0)
    for _ in range(3):
        await shared()
    assert runs.begun == [0.0, 1.0, 2.0]


@in_virtual_time
async def test_who_comes_while_a_run_is_under_way_gets_the_next() -> None:
    runs = Runs(lasts=5.0)
    shared = SingleFlight(runs.run, interval=1.0)
    first = asyncio.create_task(shared())
    await runs.has_begun.wait()
    await shared()
    assert first.done()
    assert runs.begun == [0.0, 5.0]


@in_virtual_time
async def test_an_error_reaches_every_caller_and_not_the_next() -> None:
    runs = Runs()
    runs.errors = [OSError("down"), None]
    shared = SingleFlight(runs.run, interval=1.0)
    outcomes = await asyncio.gather(shared(), shared(), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["down", "down"]
    await shared()


@in_virtual_time
async def test_a_caller_that_gives_up_ends_the_run_of_no_other_caller() -> None:
    runs = Runs(lasts=1.0)
    shared = SingleFlight(runs.run, interval=1.0)
    first, second = asyncio.create_task(shared()), asyncio.create_task(shared())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert runs.begun == [0.0]


class Kinds:
    """Reads that take a second each, and when they began."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.is_away = False

    async def read(self) -> None:
        self.begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1.0)
        if self.is_away:
            raise errors.Unreachable("away")


@in_virtual_time
async def test_no_change_of_the_kinds_is_missed() -> None:
    kinds = Kinds()
    refresh = KindRefresh(kinds.read, where="test")
    refresh.on_change()
    await asyncio.sleep(0.5)
    refresh.on_change()
    refresh.on_change()
    await asyncio.sleep(10.0)
    assert len(kinds.begun) == 3
    kinds.is_away = True
    refresh.on_change()
    await asyncio.sleep(2.0)
    refresh.on_change()
    await asyncio.sleep(10.0)
    found = [each - kinds.begun[0] for each in kinds.begun]
    refresh.on_change()
    await refresh.close()
    assert found == pytest.approx([0.0, 1.0, 1.0 + 1.0 + LATE_KINDS, 10.5, 12.5, 13.5 + LATE_KINDS])


# Schemas are published after their kinds: they are searched for several times after each change.


ALL = list(itertools.accumulate(SCHEMA_DELAYS))


@dataclass
class Search:
    """Records when it is called, in seconds from the start."""

    times: list[float] = field(default_factory=list)
    on_call: Callable[[], None] = lambda: None

    async def __call__(self) -> None:
        self.times.append(round(asyncio.get_running_loop().time(), 3))
        self.on_call()


@in_virtual_time
async def test_a_change_is_followed_by_a_series_of_searches() -> None:
    search = Search()
    begin = asyncio.get_running_loop().time()
    LateSchemas(search).start()
    await asyncio.sleep(10 * sum(SCHEMA_DELAYS))
    assert [each - begin for each in search.times] == ALL


@in_virtual_time
async def test_another_change_starts_the_series_again() -> None:
    search = Search()
    late = LateSchemas(search)
    begin = asyncio.get_running_loop().time()
    late.start()
    await asyncio.sleep(SCHEMA_DELAYS[0] / 2)
    late.start()
    await asyncio.sleep(10 * sum(SCHEMA_DELAYS))
    assert [each - begin for each in search.times] == [SCHEMA_DELAYS[0] / 2 + each for each in ALL]


@in_virtual_time
async def test_a_search_that_finds_a_change_starts_the_series_again() -> None:
    search = Search()
    late = LateSchemas(search)
    begin = asyncio.get_running_loop().time()
    search.on_call = lambda: late.start() if len(search.times) == 2 else None
    late.start()
    await asyncio.sleep(10 * sum(SCHEMA_DELAYS))
    assert [each - begin for each in search.times] == [*ALL[:2], *(ALL[1] + each for each in ALL)]


@in_virtual_time
async def test_no_search_outlives_its_cluster() -> None:
    search = Search()
    late = LateSchemas(search)
    await late.close()
    late.start()
    await asyncio.sleep(SCHEMA_DELAYS[0] / 2)
    await late.close()
    await asyncio.sleep(10 * sum(SCHEMA_DELAYS))
    assert search.times == []
