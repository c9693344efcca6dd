"""Whether a process without an election finds one that works on the same Stacks. In virtual time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from hearth.kube.client.api_client import ApiClient
from hearth.kube.client.connection import Connection
from hearth.kube.leader_election import overlapping_leases
from hearth.kube.leader_election.active_leader import ActiveLeader, Scope
from hearth.model.sharding import WHOLE, Share
from support import virtual_time
from support.units.scripted_api.fake_lease_server import LeaseConnection, LeaseServer

HALF = Share(index=0, count=2)


def make_lease(
    share: Share = WHOLE, *, namespace: str = "", holder: str = "pod-1", labels: dict[str, str] | None = None
) -> dict[str, Any]:
    """The Lease of another process."""
    found = overlapping_leases.make_labels("hearth", share, namespace=namespace) if labels is None else labels
    metadata = {"name": "hearth", "labels": found, "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}}


async def renew(lease: dict[str, Any]) -> None:
    """What its holder does."""
    while True:
        await asyncio.sleep(2.0)
        lease["metadata"]["resourceVersion"] = str(int(lease["metadata"]["resourceVersion"]) + 1)


def look(
    lease: dict[str, Any], scope: Scope, *, is_alive: bool, connection: LeaseConnection | None = None
) -> tuple[str, float]:
    """What is found, and after how many seconds."""

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
    """As soon as it renews its lease."""
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
    """The work begins at once."""
    found, seconds = look(lease, scope, is_alive=True)
    assert (found, seconds < 0.1) == ("", True)


def test_the_lease_of_a_dead_holder_is_waited_for() -> None:
    """Until it has run out."""
    found, seconds = look(make_lease(), Scope(), is_alive=False)
    assert found == ""
    assert 14 < seconds < 18


def test_an_operator_that_may_not_read_leases_works() -> None:
    """As on a laptop with few rights."""
    way = LeaseConnection(LeaseServer(overlapping=[make_lease()]), is_refused=True)
    assert look(make_lease(), Scope(), is_alive=True, connection=way)[0] == ""
