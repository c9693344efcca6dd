"""The effect of a hostile tenant on its neighbors, in virtual time."""

from __future__ import annotations

import statistics

import pytest

from support import soak
from support.stateful import neighbors
from support.stateful.neighbors import Stopwatch

WORSE = 1.5
SHARED = 2.5
"""For the objects themselves: anyone who shares a server with one other tenant has half of it, and half a turn of waiting."""
RUNS = "HEARTH_SOAK_RUNS"


def test_the_slowest_edits_beside_a_hostile_tenant_are_hardly_slower() -> None:
    compare([0])


@pytest.mark.soak
def test_the_slowest_edits_beside_hostile_tenants_are_hardly_slower() -> None:
    runs = soak.amount(50, full=50, variable=RUNS)
    soak.PROGRESS.start(2 * runs)
    compare(range(soak.seed(), soak.seed() + runs))


def compare(seeds: list[int] | range) -> None:
    """Runs with and without a hostile tenant, with the same edits at the same moments."""
    alone = [neighbors.measure(seed, is_attacked=False) for seed in seeds]
    beside = [neighbors.measure(seed, is_attacked=True) for seed in seeds]

    assert [len(watch.took) for watch in beside] == [neighbors.STACKS + neighbors.EDITS] * len(seeds)
    assert neighbors.find_slowest(beside) < WORSE * neighbors.find_slowest(alone)
    assert find_slowest_applied(beside) < SHARED * find_slowest_applied(alone)


def find_slowest_applied(watches: list[Stopwatch]) -> float:
    """The same until the last object has its desired state."""
    return statistics.quantiles([each for watch in watches for each in watch.applied], n=100)[98]
