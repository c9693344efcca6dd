"""Stacks divided among several operator processes on a real API server: exactly one process works on each Stack."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hearth.model import names
from hearth.model.well_known_kinds import CONTROLLER_REVISION, LEASE
from support.real import operator_fleet
from support.real.operator_fleet import Crew, Watcher
from support.real.operator_process import OperatorProcess
from support.real.real_user import RealUser
from support.stories.world import Address

STACKS = 24
SIZE = 4
"""Resources of each Stack."""


def make_stacks(user: RealUser, *, value: str = "value") -> list[dict[str, Any]]:
    return [
        operator_fleet.make_stack(user.namespace, size=SIZE, name=f"s{number}", value=value) for number in range(STACKS)
    ]


async def hire(workers: Crew, count: int) -> list[OperatorProcess]:
    """Start that many operators, each with its share."""
    return await asyncio.gather(
        *(workers.hire("--leader-election", f"--shards={count}", f"--shard={index}") for index in range(count))
    )


async def end(operators: list[OperatorProcess]) -> None:
    """End all operators gracefully."""
    for each in operators:
        operator_fleet.end_in_order(each)
    await asyncio.gather(*(each.process.wait() for each in operators if each.process is not None))


async def count(operators: list[OperatorProcess], *, verb: str) -> list[float]:
    """The number of requests of each operator."""
    return [await asyncio.to_thread(operator_fleet.count_requests, each, verb=verb) for each in operators]


def count_lease_requests(operator: OperatorProcess) -> float:
    """The number of requests of one operator about Leases: each attempt to become the leader sends at least one."""
    return operator_fleet.count_requests(operator, kind=LEASE.key)


async def count_own(operators: list[OperatorProcess]) -> list[float]:
    """The number of Stacks that each operator works on."""
    return [await asyncio.to_thread(each.read_metric, "hearth_stacks") for each in operators]


@pytest.mark.parametrize("shards", [*(pytest.param(few, marks=pytest.mark.soak) for few in (1, 2)), 4])
async def test_every_stack_is_worked_on_exactly_once(user: RealUser, workers: Crew, shards: int) -> None:
    watcher = Watcher(user)
    watching = asyncio.create_task(watcher.watch())
    operators = await hire(workers, shards)
    stacks = make_stacks(user)

    await asyncio.gather(*(user.create(stack) for stack in stacks))
    await operator_fleet.wait_complete(user, *stacks)
    applied, own = await count(operators, verb="apply"), await count_own(operators)
    created = [
        await asyncio.to_thread(operator_fleet.count_requests, each, verb="create", kind=CONTROLLER_REVISION.key)
        for each in operators
    ]
    cached = [
        await asyncio.to_thread(each.read_metric, "hearth_cached_objects", kind="ConfigMap") for each in operators
    ]
    watching.cancel()

    print(f"Stacks {own}, applies {applied}")
    assert sum(own) == STACKS
    assert all(own)
    assert applied == [SIZE * each for each in own]
    assert created == own
    assert cached == applied
    assert [len(uids) for uids in watcher.made.values()] == [1] * STACKS * SIZE


@pytest.mark.long
async def test_another_number_of_shards_writes_nothing_and_loses_nothing(user: RealUser, workers: Crew) -> None:
    stacks = make_stacks(user)
    one = await hire(workers, 1)
    await asyncio.gather(*(user.create(stack) for stack in stacks))
    await operator_fleet.wait_complete(user, *stacks)
    await end(one)

    two = await hire(workers, 2)
    await operator_fleet.wait_until(lambda: all(operator_fleet.is_leader(each) for each in two))
    await operator_fleet.wait_until(lambda: sum(each.read_metric("hearth_stacks") for each in two) == STACKS)
    four = await hire(workers, 4)
    asked = [await asyncio.to_thread(count_lease_requests, each) for each in four]
    await operator_fleet.wait_until(
        lambda: all(count_lease_requests(each) > before for each, before in zip(four, asked, strict=True))
    )
    assert not any([await asyncio.to_thread(operator_fleet.is_leader, each) for each in four])
    assert await count(two, verb="apply") == [0, 0]
    await end(two)
    took = await operator_fleet.wait_until(lambda: all(operator_fleet.is_leader(each) for each in four))
    await operator_fleet.wait_until(lambda: sum(each.read_metric("hearth_stacks") for each in four) == STACKS)

    changed = make_stacks(user, value="another")
    await asyncio.gather(*(user.replace_spec(Address.of(stack), stack["spec"]) for stack in changed))
    await operator_fleet.wait_complete(user, *changed)
    print(f"four work {took:.2f} s after the end of the two")
    assert await count(four, verb="apply") == [SIZE * own for own in await count_own(four)]


async def test_a_mark_is_observed_by_the_process_that_has_its_stack(user: RealUser, workers: Crew) -> None:
    await hire(workers, 4)
    stacks = make_stacks(user)[:8]
    await asyncio.gather(*(user.create(stack) for stack in stacks))
    await operator_fleet.wait_complete(user, *stacks)

    targets = [stack["metadata"]["name"] for stack in stacks]
    marks = [make_mark(user, f"m{name}", stackName=name, resource="c0") for name in [*targets, "nowhere"]]
    marks.append(make_mark(user, "by-object", target={"apiVersion": "v1", "kind": "ConfigMap", "name": "s0-c1"}))
    await asyncio.gather(*(user.create(mark) for mark in marks))
    async with asyncio.timeout(operator_fleet.PATIENCE):
        while {await find_reason(user, mark) for mark in marks} != {"Replaced", "StackNotFound"}:  # noqa: ASYNC110 -- other processes decide, there is no event
            await asyncio.sleep(0.1)

    assert await find_reason(user, marks[-2]) == "StackNotFound"


def make_mark(user: RealUser, name: str, **spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": "HealthMark"}
    return {**kind, "metadata": {"name": name, "namespace": user.namespace}, "spec": {"markUnhealthy": True, **spec}}


async def find_reason(user: RealUser, mark: dict[str, Any]) -> str:
    """The reason in the status of a mark."""
    conditions = ((await user.find(Address.of(mark)) or {}).get("status") or {}).get("conditions") or [{}]
    return str(conditions[0].get("reason"))
