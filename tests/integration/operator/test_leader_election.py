"""Several operators at once on a real API server, as processes: one works at a time, and its successor continues."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

from hearth.kube.client import api_requests
from hearth.model.well_known_kinds import LEASE
from hearth.settings import LEASE_HELD_EXIT_CODE
from support.real import operator_fleet, operator_process
from support.real.operator_fleet import Crew, Watcher
from support.real.operator_process import OperatorProcess
from support.real.real_user import RealUser

ELECTED = ("--leader-election", "--max-concurrent-writes=1")
TAKEOVER = 15.0
"""Seconds until an expired lease is taken over."""
BUSY = 10.0
"""Extra seconds on a busy machine."""
SIZE = 150
"""Resources of the Stack whose operator is killed midway."""
HALF_WAY = 30
RENEWALS = 3
RETRY_PERIOD = 2.0
"""Seconds between two renewals."""
SHARP = 0.5
"""Maximum delay in seconds of an observed time."""


async def get_lease(user: RealUser) -> dict[str, Any]:
    path = api_requests.object_path(LEASE, user.namespace, f"hearth-{user.namespace}")
    spec: dict[str, Any] = (await user.connection.request("GET", path))["spec"]
    return spec


def count_renewals(leader: OperatorProcess) -> tuple[float, float]:
    """The requests that the leader has sent so far, and how many of them are about Leases."""
    samples, name = leader.read_metrics(), "hearth_api_requests_total"
    return operator_process.sum_metric(samples, name), operator_process.sum_metric(samples, name, kind=LEASE.key)


def sort(members: list[OperatorProcess]) -> tuple[OperatorProcess, OperatorProcess]:
    """The leader and the standby."""
    (leader,) = [each for each in members if operator_fleet.is_leader(each)]
    (other,) = [each for each in members if each is not leader]
    return leader, other


async def test_a_killed_leader_is_followed_by_the_other_which_continues(user: RealUser, workers: Crew) -> None:
    watcher = Watcher(user)
    watching = asyncio.create_task(watcher.watch())
    await asyncio.gather(workers.hire(*ELECTED), workers.hire(*ELECTED))
    leader, other = await asyncio.to_thread(sort, workers.members)
    stack = operator_fleet.make_stack(user.namespace, size=SIZE)

    await user.create(stack)
    await operator_fleet.wait_until(lambda: len(watcher.made) >= HALF_WAY)
    await leader.kill()
    made = len(watcher.made)
    assert made < SIZE
    took = await operator_fleet.wait_until(lambda: operator_fleet.count_requests(other, verb="apply") > 0)
    await operator_fleet.wait_complete(user, stack, seconds=operator_fleet.PATIENCE)
    applied = await asyncio.to_thread(operator_fleet.count_requests, other, verb="apply")
    watching.cancel()

    print(f"took over after {took:.2f} s, with {made} of {SIZE} made")
    assert took < TAKEOVER + BUSY
    assert {name: uids for name, uids in watcher.made.items() if len(uids) > 1} == {}
    assert len(watcher.made) == SIZE
    # One or two further requests may have been in flight.
    assert SIZE - made - 5 <= applied <= SIZE - made
    assert (await get_lease(user))["leaseTransitions"] == 1


async def test_a_leader_that_ends_in_order_gives_its_lease_back(user: RealUser, workers: Crew) -> None:
    await asyncio.gather(workers.hire(*ELECTED), workers.hire(*ELECTED))
    leader, other = await asyncio.to_thread(sort, workers.members)
    assert leader.process is not None

    operator_fleet.end_in_order(leader)
    took = await operator_fleet.wait_until(lambda: operator_fleet.is_leader(other))
    code = await leader.process.wait()

    print(f"took over {took:.2f} s after SIGTERM")
    assert code == 0
    assert took < BUSY / 2
    stack = operator_fleet.make_stack(user.namespace, size=1)
    await user.create(stack)
    await operator_fleet.wait_complete(user, stack, seconds=operator_fleet.PATIENCE)


async def test_a_standby_asks_for_nothing_but_the_lease(user: RealUser, workers: Crew) -> None:
    await asyncio.gather(workers.hire(*ELECTED), workers.hire(*ELECTED))
    leader, other = await asyncio.to_thread(sort, workers.members)

    asked = await asyncio.to_thread(operator_fleet.count_requests, other)
    before, renewed = await asyncio.to_thread(count_renewals, leader)
    took = await operator_fleet.wait_until(lambda: count_renewals(leader)[1] >= renewed + RENEWALS)
    after, renewals = await asyncio.to_thread(count_renewals, leader)

    assert after - before == renewals - renewed
    assert took > (RENEWALS - 1) * RETRY_PERIOD - SHARP
    assert await asyncio.to_thread(operator_fleet.count_requests, other) == asked
    print(f"memory: {leader.read_memory():.0f} MiB at work, {other.read_memory():.0f} MiB standing by")


async def test_a_leader_whose_lease_was_taken_ends(user: RealUser, workers: Crew) -> None:
    leader = await workers.hire(*ELECTED)
    assert leader.process is not None

    path = api_requests.object_path(LEASE, user.namespace, f"hearth-{user.namespace}")
    body = {"spec": {"holderIdentity": "another"}}
    await user.connection.request("PATCH", path, body=body, content_type=api_requests.MERGE_PATCH)
    async with asyncio.timeout(operator_fleet.PATIENCE):
        code = await leader.process.wait()

    assert code == 1
    log = leader.log_file.read_text() if leader.log_file is not None else ""
    assert "is now held by another" in log
    workers.members.clear()


async def test_a_process_without_election_does_not_work_beside_a_leader(user: RealUser, workers: Crew) -> None:
    await workers.hire(*ELECTED)
    other = await workers.hire()
    assert other.process is not None
    code = await other.process.wait()
    holder = (await get_lease(user))["holderIdentity"]
    log = other.log_file.read_text() if other.log_file is not None else ""

    assert code == LEASE_HELD_EXIT_CODE
    assert all(word in log for word in (holder, "--leader-election", "--ignore-leader"))
    assert (await workers.hire("--ignore-leader")).is_alive
    # The messages at its exit are expected.
    workers.members.remove(other)


async def test_a_process_without_election_waits_until_the_lease_of_a_dead_leader_expires(workers: Crew) -> None:
    leader = await workers.hire(*ELECTED)
    await leader.kill()
    begun = time.monotonic()
    other = await workers.hire()
    took = time.monotonic() - begun

    print(f"started after {took:.2f} s")
    assert other.is_alive
    assert TAKEOVER - 1 < took < TAKEOVER + BUSY


async def test_a_leader_that_was_held_up_ends_when_it_comes_back(user: RealUser, workers: Crew) -> None:
    await asyncio.gather(workers.hire(*ELECTED), workers.hire(*ELECTED))
    leader, other = await asyncio.to_thread(sort, workers.members)
    assert leader.process is not None

    leader.process.send_signal(signal.SIGSTOP)
    took = await operator_fleet.wait_until(lambda: operator_fleet.is_leader(other))
    leader.process.send_signal(signal.SIGCONT)
    back = time.monotonic()
    async with asyncio.timeout(BUSY):
        code = await leader.process.wait()

    print(f"took over after {took:.2f} s; the other ended {time.monotonic() - back:.2f} s after it came back")
    assert code == 1
    assert took < TAKEOVER + BUSY
    assert await asyncio.to_thread(operator_fleet.is_leader, other)
    # The messages at its exit are expected; only the other process must log no errors.
    workers.members.remove(leader)
