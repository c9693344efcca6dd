"""The memory of reads in progress: nothing of it is lost, however a page ends."""

from __future__ import annotations

import asyncio

import pytest

from hearth.cli.stack_access import read_budgets
from hearth.cli.stack_access.read_budgets import ListTooLarge, MemoryInUse, ReadMemory, ReadMeter
from hearth.model.well_known_kinds import SECRET


def spend() -> None:
    meter = read_budgets.CURRENT.get()
    assert meter is not None
    meter.spend(SECRET, 1_023)


async def test_a_list_that_outlives_its_page_takes_no_memory() -> None:
    memory = ReadMemory(most=10_000)
    is_ended = asyncio.Event()

    async def read_late() -> None:
        await is_ended.wait()
        spend()

    with read_budgets.metering(ReadMeter(memory, most=10_000)):
        late = asyncio.create_task(read_late())
        spend()
    is_ended.set()

    with pytest.raises(MemoryInUse):
        await late
    assert memory.used == 0


async def test_a_refused_list_takes_no_memory() -> None:
    everybody = ReadMemory(most=1_500)
    users = [ReadMemory(most=10_000, whole_memory=everybody) for _ in range(2)]

    with read_budgets.metering(ReadMeter(users[0], most=10_000)):
        spend()
        with pytest.raises(MemoryInUse), read_budgets.metering(ReadMeter(users[1], most=10_000)):
            spend()
    with pytest.raises(ListTooLarge), read_budgets.metering(ReadMeter(users[0], most=100)):
        spend()

    assert [each.used for each in (everybody, *users)] == [0, 0, 0]
