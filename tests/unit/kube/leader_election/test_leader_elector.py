"""The leader election: one process works at a time, and its successor starts as soon as it is safe. In virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from hearth.kube.client.connection import Connection
from hearth.kube.leader_election import leases
from hearth.kube.leader_election.leader_elector import LeaderElectionConfig, LeaderElector, LeadershipLost, PodIdentity
from hearth.model.sharding import WHOLE, Share
from support.units.scripted_api import fake_lease_server
from support.units.scripted_api.fake_lease_server import LeaseConnection, LeaseServer
from support.virtual_time import in_virtual_time


class Candidate:
    """A process that competes for the lease."""

    def __init__(self, server: LeaseServer, name: str, *, pod: PodIdentity | None = None) -> None:
        self.connection = LeaseConnection(server)
        identity = name if pod is None else f"{pod.prefix}{name}"
        terms = LeaderElectionConfig(name="hearth", namespace="ops", identity=identity, pod=pod)
        self.election = LeaderElector(cast(Connection, self.connection), terms)
        self.won = asyncio.Event()
        self.won_at = self.lost_at = -1.0
        self.reason = ""
        self.task = asyncio.create_task(self._run())

    @property
    def works(self) -> bool:
        """Whether it believes that it holds the lease."""
        return self.won_at >= 0 and self.lost_at < 0

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        await self.election.acquire()
        self.won_at = loop.time()
        self.won.set()
        try:
            await self.election.renew_forever()
        except LeadershipLost as error:
            self.reason = str(error)
            self.lost_at = loop.time()

    async def kill(self) -> None:
        """End it without reporting it to any stream."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def end(self) -> None:
        """Stop it gracefully."""
        await self.kill()
        await self.election.release()


@contextlib.asynccontextmanager
async def two() -> AsyncIterator[tuple[LeaseServer, Candidate, Candidate]]:
    """A leader, and a standby."""
    server = LeaseServer()
    first = Candidate(server, "first")
    await first.won.wait()
    second = Candidate(server, "second")
    await asyncio.sleep(30)
    assert (first.works, second.works) == (True, False)
    yield server, first, second
    await first.kill()
    await second.kill()


@in_virtual_time
async def test_a_single_candidate_begins_at_once() -> None:
    server = LeaseServer()
    only = Candidate(server, "only")
    await asyncio.wait_for(only.won.wait(), 0.1)
    assert only.connection.asked == ["GET", "LIST", "POST", "LIST"]
    assert server.lease is not None
    assert server.lease["spec"]["leaseDurationSeconds"] == 15
    assert server.lease["spec"]["renewTime"].endswith("Z")
    await only.kill()


@pytest.mark.parametrize("is_denied", [False, True], ids=["by the candidate", "by another one"])
@in_virtual_time
async def test_the_namespace_is_made_where_it_is_missing(*, is_denied: bool) -> None:
    only = Candidate(LeaseServer(has_namespace=False, denies_namespace=is_denied), "only")
    await asyncio.wait_for(only.won.wait(), 0.1)
    await only.kill()


POD = PodIdentity(namespace="ops", name="hearth-1", uid="u1")


@pytest.mark.parametrize(
    ("pod", "waits"),
    [
        pytest.param(POD, False, id="the same Pod"),
        pytest.param(replace(POD, uid="u2"), True, id="a Pod of the same name"),
        pytest.param(replace(POD, name="hearth-2", uid="u2"), True, id="another Pod"),
        pytest.param(None, True, id="no Pod"),
    ],
)
@in_virtual_time
async def test_only_a_restarted_container_takes_the_lease_of_its_killed_predecessor_at_once(
    pod: PodIdentity | None, *, waits: bool
) -> None:
    server = LeaseServer()
    first = Candidate(server, "first", pod=POD)
    await first.won.wait()
    await first.kill()

    second = Candidate(server, "second", pod=pod)
    await asyncio.sleep(1)
    assert second.works is not waits
    await asyncio.wait_for(second.won.wait(), 20)
    await second.kill()


@pytest.mark.parametrize(
    ("pod", "owners"),
    [
        pytest.param(POD, [{"apiVersion": "v1", "kind": "Pod", "name": "hearth-1", "uid": "u1"}], id="its Pod"),
        # Otherwise, the garbage collector would look for the Pod in the namespace of the Lease, and delete the Lease.
        pytest.param(replace(POD, namespace="elsewhere"), None, id="a Pod of another namespace"),
        pytest.param(None, None, id="no Pod"),
    ],
)
@in_virtual_time
async def test_the_lease_belongs_to_the_pod_of_its_holder(pod: PodIdentity | None, owners: object) -> None:
    server = LeaseServer()
    before = Candidate(server, "before", pod=replace(POD, uid="u0"))
    await before.won.wait()
    await before.end()
    holder = Candidate(server, "holder", pod=pod)
    await holder.won.wait()

    assert server.lease is not None
    assert server.lease["metadata"].get("ownerReferences") == owners
    await holder.kill()


@in_virtual_time
async def test_the_holder_writes_every_two_seconds_and_the_other_nothing() -> None:
    async with two() as (_, first, second):
        before = len(first.connection.asked)
        await asyncio.sleep(60)
        assert set(first.connection.asked[before:]) == {"PATCH"}
        assert 29 <= len(first.connection.asked) - before <= 30
        assert second.connection.asked == ["GET", "WATCH"]


@in_virtual_time
async def test_after_a_kill_the_other_begins_when_the_lease_has_run_out() -> None:
    async with two() as (server, first, second):
        await first.kill()
        killed = asyncio.get_running_loop().time()
        await second.won.wait()
        assert 13 <= second.won_at - killed <= 15.1
        assert server.held == ["first", "second"]
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 1


@in_virtual_time
async def test_a_lease_that_is_given_back_is_taken_at_once() -> None:
    async with two() as (server, first, second):
        await first.end()
        given_back = asyncio.get_running_loop().time()
        await second.won.wait()
        assert second.won_at - given_back < 0.1
        assert server.held == ["first", "", "second"]


@in_virtual_time
async def test_a_deleted_lease_stays_with_the_quicker_one() -> None:
    async with two() as (server, first, second):
        server.delete()
        await second.won.wait()
        await first.task
        assert first.lost_at - second.won_at < 2.1
        assert first.reason == "lease/hearth is now held by second"


@in_virtual_time
async def test_a_holder_that_is_cut_off_stops_before_the_other_begins() -> None:
    async with two() as (_, first, second):
        first.connection.is_cut = True
        cut = asyncio.get_running_loop().time()
        await first.task
        assert 8 <= first.lost_at - cut <= 10
        assert not second.works
        await second.won.wait()
        assert second.won_at - first.lost_at > 4
        assert first.reason.startswith("lease/hearth could not be renewed for 10 s: ")


@in_virtual_time
async def test_a_short_fault_costs_no_holder_the_lease() -> None:
    async with two() as (server, first, _):
        first.connection.is_refused = True
        await asyncio.sleep(6)
        first.connection.is_refused = False
        await asyncio.sleep(20)
        first.connection.loses_answers = 2
        await asyncio.sleep(60)
        assert first.works
        assert server.held == ["first"]


@in_virtual_time
async def test_a_lease_that_was_touched_stays_with_its_holder() -> None:
    async with two() as (server, first, _):
        assert server.lease is not None
        server.write(server.lease["spec"])
        await asyncio.sleep(20)
        assert first.works
        assert server.held == ["first"]


@in_virtual_time
async def test_who_stands_by_without_hearing_anything_takes_nothing() -> None:
    async with two() as (server, first, second):
        server.watchers.clear()
        await asyncio.sleep(60)
        assert first.works
        assert not second.works
        assert server.held == ["first"]


@in_virtual_time
async def test_hearing_of_an_old_renewal_again_is_no_sign_of_life() -> None:
    async with two() as (server, first, second):
        await first.kill()
        killed = asyncio.get_running_loop().time()
        for _ in range(4):
            await asyncio.sleep(5)
            server.show()
        assert second.works
        assert second.won_at - killed <= 15.1


@in_virtual_time
async def test_of_many_one_wins() -> None:
    server = LeaseServer()
    candidates = [Candidate(server, f"c{number}") for number in range(5)]
    for count in range(5):
        await asyncio.sleep(1)
        (holder,) = [each for each in candidates if each.works]
        assert len(server.held) == 2 * count + 1
        await holder.end()
        candidates.remove(holder)


@in_virtual_time
async def test_a_candidate_that_may_not_look_says_so_and_keeps_trying() -> None:
    only = Candidate(LeaseServer(), "only")
    only.connection.is_refused = True
    await asyncio.sleep(60)
    assert only.election.error == "cannot read lease/hearth in namespace ops: leases is forbidden"
    only.connection.is_refused = False
    await asyncio.wait_for(only.won.wait(), 3)
    assert only.election.error == ""
    await only.kill()


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": ""}], ids=["empty", "no holder"])
@in_virtual_time
async def test_a_lease_that_names_no_holder_is_free(spec: dict[str, str]) -> None:
    server = LeaseServer()
    server.write(spec)
    only = Candidate(server, "only")
    await asyncio.wait_for(only.won.wait(), 0.1)
    await only.kill()


@in_virtual_time
async def test_a_lease_that_was_taken_without_an_answer_is_known_as_its_own() -> None:
    server = LeaseServer()
    server.write({})
    only = Candidate(server, "only")
    only.connection.loses_answers = 1
    await asyncio.wait_for(only.won.wait(), 3)
    assert server.held == ["", "only"]
    await only.kill()


# While the number of shards changes, no process starts on Stacks that another one still works on.


HALF = Share(index=0, count=2)


def rival(share: Share | None, *, holder: str = "old", version: str = "7") -> dict[str, Any]:
    """The Lease of a process with another number of shards."""
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
@in_virtual_time
async def test_who_has_nothing_in_common_is_no_rival(other: dict[str, Any]) -> None:
    _, election = stand(LeaseServer(overlapping=[other]))
    assert await measure(election) < 0.1


@pytest.mark.parametrize("share", [WHOLE, Share(index=1, count=4)], ids=str)
@in_virtual_time
async def test_who_works_on_the_same_stacks_is_waited_for(share: Share) -> None:
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


@in_virtual_time
async def test_a_rival_that_died_is_waited_for_as_long_as_its_lease_says() -> None:
    _, election = stand(LeaseServer(overlapping=[rival(WHOLE)]))
    assert 14 < await measure(election) < 18.5


@in_virtual_time
async def test_a_rival_that_came_at_the_same_moment_is_noticed() -> None:
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


@pytest.mark.parametrize("text", ["2-of-2", "0-of-999", "a-of-b", "", "1-of-1"])
def test_a_share_that_cannot_be_is_ignored(text: str) -> None:
    assert leases.find_share({"metadata": {"labels": {leases.LABEL_SHARD: text}}}) is None


def test_a_share_is_read_as_it_is_written() -> None:
    for share in (WHOLE, Share(index=3, count=17)):
        assert leases.find_share({"metadata": {"labels": leases.make_labels("hearth", share)}}) == share
