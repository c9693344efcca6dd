"""A process without an election detects another one that works on the same Stacks. In virtual time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from hearth.kube.client.api_requests import ApiClient
from hearth.kube.client.connection import Connection
from hearth.kube.leader_election import leases
from hearth.kube.leader_election.active_leader import LOOK_INTERVAL, VALID_LOOKS, ActiveLeader, Presence, Scope
from hearth.model.sharding import WHOLE, Share
from support import virtual_time
from support.units.scripted_api.fake_lease_server import LeaseConnection, LeaseServer
from support.virtual_time import in_virtual_time

HALF = Share(index=0, count=2)


def make_lease(
    share: Share = WHOLE, *, namespace: str = "", holder: str = "pod-1", labels: dict[str, str] | None = None
) -> dict[str, Any]:
    """The Lease of another process."""
    found = leases.make_labels("hearth", share, namespace=namespace) if labels is None else labels
    metadata = {"name": "hearth", "labels": found, "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}}


async def renew(lease: dict[str, Any]) -> None:
    """Renew the lease as its holder."""
    while True:
        await asyncio.sleep(2.0)
        lease["metadata"]["resourceVersion"] = str(int(lease["metadata"]["resourceVersion"]) + 1)


def look(
    lease: dict[str, Any], scope: Scope, *, is_alive: bool, connection: LeaseConnection | None = None
) -> tuple[str, float]:
    """The detected leader, and the seconds until its detection."""

    async def story() -> tuple[str, float]:
        renewing = asyncio.ensure_future(renew(lease)) if is_alive else None
        begun = asyncio.get_running_loop().time()
        way = connection or LeaseConnection(LeaseServer(overlapping=[lease]))
        found = await ActiveLeader(ApiClient(cast(Connection, way), None), "ops", scope).find()
        if renewing is not None:
            renewing.cancel()
        return found, asyncio.get_running_loop().time() - begun

    return virtual_time.run(story)


OVERLAPPING = [
    pytest.param(make_lease(), Scope(), id="all and all"),
    pytest.param(make_lease(HALF), Scope(), id="a shard"),
    pytest.param(make_lease(), Scope(share=Share(index=3, count=4)), id="all, to a shard"),
    pytest.param(make_lease(HALF), Scope(share=Share(index=1, count=4)), id="shards of another count"),
    pytest.param(make_lease(namespace="a"), Scope(), id="one namespace"),
    pytest.param(make_lease(), Scope(namespace="a"), id="all, to one namespace"),
    pytest.param(make_lease(namespace="a"), Scope(namespace="a"), id="the same namespace"),
    pytest.param(make_lease(labels={}), Scope(), id="a Lease that does not say what it is about"),
]


@pytest.mark.parametrize(("lease", "scope"), OVERLAPPING)
def test_an_active_holder_of_the_same_stacks_is_found(lease: dict[str, Any], scope: Scope) -> None:
    found, seconds = look(lease, scope, is_alive=True)
    assert found == "lease/hearth in namespace ops is held by pod-1"
    assert seconds < 4


@pytest.mark.parametrize(
    ("lease", "scope"),
    [
        pytest.param(make_lease(HALF), Scope(share=Share(index=1, count=2)), id="another shard"),
        pytest.param(make_lease(namespace="a"), Scope(namespace="b"), id="another namespace"),
        pytest.param(make_lease(holder=""), Scope(), id="a lease that was released"),
    ],
)
def test_a_leader_of_other_stacks_is_not_waited_for(lease: dict[str, Any], scope: Scope) -> None:
    found, seconds = look(lease, scope, is_alive=True)
    assert (found, seconds < 0.1) == ("", True)


def test_the_lease_of_a_dead_holder_is_waited_for() -> None:
    found, seconds = look(make_lease(), Scope(), is_alive=False)
    assert found == ""
    assert 14 < seconds < 18


def test_an_operator_that_may_not_read_leases_works() -> None:
    way = LeaseConnection(LeaseServer(overlapping=[make_lease()]), is_refused=True)
    assert look(make_lease(), Scope(), is_alive=True, connection=way)[0] == ""


def make_presence(server: LeaseServer, identity: str, *, connection: LeaseConnection | None = None) -> Presence:
    """A process without an election."""
    way = connection or LeaseConnection(server)
    return Presence(ApiClient(cast(Connection, way), None), "ops", "hearth-alone", identity, Scope())


@in_virtual_time
async def test_of_two_processes_without_an_election_the_later_one_ends() -> None:
    server = LeaseServer()
    first = asyncio.ensure_future(make_presence(server, "first").hold())
    await asyncio.sleep(7.0)
    begun = asyncio.get_running_loop().time()
    assert await make_presence(server, "second").hold() == "lease/hearth-alone in namespace ops is held by first"
    assert asyncio.get_running_loop().time() - begun < 2 * LOOK_INTERVAL
    assert not first.done()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert server.held == ["first", ""]


@in_virtual_time
async def test_after_a_crash_the_next_process_takes_the_lease_over() -> None:
    server = LeaseServer()
    crashed = make_presence(server, "crashed")
    working = asyncio.ensure_future(crashed.hold())
    await asyncio.sleep(12.0)
    # Like a killed process, which releases nothing.
    crashed.identity = "not the one that is released"
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    following = asyncio.ensure_future(make_presence(server, "next").hold())
    await asyncio.sleep(LOOK_INTERVAL * (VALID_LOOKS + 2))
    assert (server.held, following.done()) == (["crashed", "next"], False)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


@in_virtual_time
async def test_of_two_at_the_same_moment_one_stays() -> None:
    server = LeaseServer()
    both = [asyncio.ensure_future(make_presence(server, name).hold()) for name in ("one", "two")]
    await asyncio.sleep(5 * LOOK_INTERVAL)
    done = sorted(each.done() for each in both)
    for each in both:
        each.cancel()
    await asyncio.gather(*both, return_exceptions=True)
    assert done == [False, True]


@in_virtual_time
async def test_a_process_that_may_not_use_leases_works_alone() -> None:
    refused = LeaseConnection(LeaseServer(), is_refused=True)
    assert await make_presence(refused.server, "one", connection=refused).hold() == ""
    assert len(refused.asked) == 1
    away = LeaseConnection(LeaseServer(), is_cut=True)
    working = asyncio.ensure_future(make_presence(away.server, "one", connection=away).hold())
    await asyncio.sleep(60.0)
    away.is_cut = False
    await asyncio.sleep(4 * LOOK_INTERVAL)
    assert (away.server.held, working.done()) == (["one"], False)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
