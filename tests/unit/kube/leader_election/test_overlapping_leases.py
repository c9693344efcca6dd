"""While the number of shards changes, no one begins on Stacks that are still worked on. In virtual time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from hearth.kube.client.connection import Connection
from hearth.kube.leader_election import leases
from hearth.kube.leader_election.leader_elector import LeaderElectionConfig, LeaderElector
from hearth.model.sharding import WHOLE, Share
from support import virtual_time
from support.units.scripted_api import fake_lease_server
from support.units.scripted_api.fake_lease_server import LeaseConnection, LeaseServer

HALF = Share(index=0, count=2)


def rival(share: Share | None, *, holder: str = "old", version: str = "7") -> dict[str, Any]:
    """The Lease of a process of another division."""
    labels = leases.make_labels("hearth", share) if share is not None else {}
    metadata = {"name": f"hearth-{share}", "labels": labels, "resourceVersion": version}
    return {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}}


def stand(server: LeaseServer, name: str = "new", *, share: Share = HALF) -> tuple[LeaseConnection, LeaderElector]:
    connection = LeaseConnection(server)
    terms = LeaderElectionConfig(name="hearth-0-of-2", namespace="ops", identity=name, share=share)
    return connection, LeaderElector(cast(Connection, connection), terms)


async def measure(election: LeaderElector) -> float:
    """Seconds until it won."""
    begun = asyncio.get_running_loop().time()
    await election.acquire()
    return asyncio.get_running_loop().time() - begun


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(rival(Share(index=2, count=4)), id="has other Stacks"),
        pytest.param(rival(Share(index=1, count=2)), id="of the same division"),
        pytest.param(rival(WHOLE, holder=""), id="without a holder"),
        pytest.param(rival(None), id="does not say what it is about"),
    ],
)
def test_who_has_nothing_in_common_is_no_rival(other: dict[str, Any]) -> None:
    """The lease is won at once."""

    async def story() -> None:
        _, election = stand(LeaseServer(overlapping=[other]))
        assert await measure(election) < 0.1

    virtual_time.run(story)


@pytest.mark.parametrize("share", [WHOLE, Share(index=1, count=4)], ids=str)
def test_who_works_on_the_same_stacks_is_waited_for(share: Share) -> None:
    """Until it ends; meanwhile the lease has no owner."""

    async def story() -> None:
        server = LeaseServer(overlapping=[rival(share)])
        _, election = stand(server)
        winning = asyncio.create_task(measure(election))
        for number in range(30):
            await asyncio.sleep(2)
            server.overlapping = [rival(share, version=str(8 + number))]
        assert not winning.done()
        assert server.lease is None
        assert election.error == ""
        server.overlapping = [rival(share, holder="")]
        assert 60 < await winning < 64

    virtual_time.run(story)


def test_a_rival_that_died_is_waited_for_as_long_as_its_lease_says() -> None:
    """Counted from the last renewal that was seen."""

    async def story() -> None:
        _, election = stand(LeaseServer(overlapping=[rival(WHOLE)]))
        assert 14 < await measure(election) < 18.5

    virtual_time.run(story)


def test_a_rival_that_came_at_the_same_moment_is_noticed() -> None:
    """Both step back, and one is quicker the next time."""

    async def story() -> None:
        server = LeaseServer()
        connection, election = stand(server)
        winning = asyncio.create_task(measure(election))
        await asyncio.sleep(2.5 * fake_lease_server.LATENCY)
        assert connection.asked[-1] == "POST"
        server.overlapping = [rival(WHOLE)]
        await asyncio.sleep(1)
        assert not winning.done()
        assert server.held == ["new", ""]
        server.overlapping = []
        assert await winning < 5

    virtual_time.run(story)


@pytest.mark.parametrize("text", ["2-of-2", "0-of-999", "a-of-b", "", "1-of-1"])
def test_a_share_that_cannot_be_is_ignored(text: str) -> None:
    """Regardless of the writer."""
    assert leases.find_share({"metadata": {"labels": {leases.LABEL_SHARD: text}}}) is None


def test_a_share_is_read_as_it_is_written() -> None:
    """By the label of its Lease."""
    for share in (WHOLE, Share(index=3, count=17)):
        assert leases.find_share({"metadata": {"labels": leases.make_labels("hearth", share)}}) == share
