"""The loop that everything is measured by."""

from __future__ import annotations

import asyncio
import itertools

import aiohttp
import pytest

from bench.cases import ceiling
from bench.instruments import bare_api, workload
from bench.instruments.bare_api import Disturbed


async def test_no_more_are_in_flight_than_asked_for() -> None:
    """Each item is done once."""
    running, most, done = 0, 0, []

    async def do(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done.append(item)

    await bare_api.for_each(range(10), do, in_flight=3)
    assert sorted(done) == list(range(10))
    assert most == 3


async def test_a_pace_counts_every_object() -> None:
    """All targets are written, each once, and half a second of CPU is a tenth for each of five."""
    targets = workload.Workload(template=workload.make_flat_template(5), stacks=1).make_children("here", value="one")
    written = []

    async def write(target: workload.Target) -> None:
        written.append(target.path)

    pace = await ceiling.find_pace(targets, write, itertools.count(10.0, 0.5).__next__, in_flight=4)
    assert pace.rate > 0
    assert pace.cpu_ms == 100
    assert sorted(written) == sorted(target.path for target in targets)


def test_reasons_are_found_however_deep() -> None:
    """Groups of groups are how tasks fail together."""
    error = ExceptionGroup("", [Disturbed("one"), ExceptionGroup("", [TimeoutError(), aiohttp.ClientError("gone")])])

    assert bare_api.find_reasons(error) == ["one", "TimeoutError", "gone"]


def test_our_own_mistakes_are_not_reported_as_disturbances() -> None:
    """They need their traceback."""
    with pytest.raises(KeyError):
        bare_api.find_reasons(ExceptionGroup("", [Disturbed("one"), KeyError("ours")]))
