"""The leader election and the work in parallel: their signals, and failures of each part. In real time."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from hearth import leadership, supervision
from hearth.kube.auth.credentials import Credentials, NoCredentials
from hearth.kube.leader_election.leader_elector import LeaderElectionConfig, LeadershipLost, PodIdentity
from hearth.leadership import AlwaysLeader, LeaseLeadership
from hearth.serve.metrics import Metrics
from hearth.settings import Settings
from support.units import waiting

TERMS = LeaderElectionConfig(name="hearth", namespace="ops", identity="me")
GRACE = 0.05


class Source:
    """Credentials for a server that does not exist, or no credentials."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.is_broken = is_broken

    def load(self) -> Credentials:
        if self.is_broken:
            raise NoCredentials("the kubeconfig is gone")
        return Credentials(server="http://127.0.0.1:9")


async def test_an_operator_that_ignores_leaders_works_at_once() -> None:
    leader = leadership.make_leadership(Settings(ignore_leader=True), Source(is_broken=True), Metrics(), grace=GRACE)
    leader.start()

    assert isinstance(leader, AlwaysLeader)
    assert leader.acquired.is_set()
    assert not leader.lost.is_set()
    assert list(leader.find_not_ready()) == []
    await leader.stop()


async def test_an_operator_that_finds_no_leader_works() -> None:
    found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    leader = AlwaysLeader(lambda: asyncio.wait_for(found, 10))
    leader.start()
    assert list(leader.find_not_ready()) == ["checks whether another operator leads the same Stacks"]
    found.set_result("")
    await asyncio.wait_for(leader.acquired.wait(), 10)
    assert (leader.lost.is_set(), list(leader.find_not_ready())) == (False, [])
    await leader.stop()


async def test_an_operator_that_finds_a_leader_does_not_work_and_says_how_to_go_on() -> None:
    async def find() -> str:
        return "lease/hearth in namespace ops is held by pod-1"

    leader = AlwaysLeader(find)
    leader.start()
    await asyncio.wait_for(leader.lost.wait(), 10)
    reason = str(leader.explain_loss())
    assert not leader.acquired.is_set()
    assert all(word in reason for word in ("lease/hearth", "pod-1", "--leader-election", "--ignore-leader"))
    await leader.stop()


async def test_a_candidate_that_reaches_no_caller_says_so_and_ends_when_asked() -> None:
    leader = leadership.make_leadership(Settings(leader_election=True), Source(), Metrics(), grace=GRACE)
    leader.start()
    await waiting.wait_until(lambda: any("cannot read lease/hearth" in each for each in leader.find_not_ready()))
    assert not leader.acquired.is_set()
    await leader.stop()

    assert not leader.lost.is_set()
    assert "election" not in {each.name for each in threading.enumerate()}


async def test_a_failure_that_no_code_looks_at_in_the_election_is_reported() -> None:
    leader = LeaseLeadership(Source(), TERMS, Metrics(), grace=GRACE)
    leader.start()
    await waiting.wait_until(lambda: leader._inner is not None)
    assert leader._inner is not None
    assert leader._inner[0].get_exception_handler() is supervision.handle_loop_error
    await leader.stop()


async def test_work_that_hangs_is_ended_by_force_once_the_lease_is_lost() -> None:
    forced = threading.Event()
    codes: list[int] = []

    def end_by_force(code: int) -> None:
        codes.append(code)
        forced.set()

    leader = LeaseLeadership(Source(is_broken=True), TERMS, Metrics(), grace=GRACE, end_by_force=end_by_force)
    leader.start()
    await asyncio.wait_for(leader.lost.wait(), 10)
    # The work should end here, but it does not.
    assert await asyncio.to_thread(forced.wait, 10)

    assert codes == [1]
    assert "the kubeconfig is gone" in str(leader.explain_loss())


async def test_a_leader_whose_loop_hangs_renews_no_more_and_ends_by_force() -> None:
    terms = LeaderElectionConfig(name="hearth", namespace="ops", identity="me", duration=0.3)
    forced = threading.Event()
    leader = LeaseLeadership(Source(), terms, Metrics(), grace=GRACE, end_by_force=lambda _code: forced.set())
    leader.start()
    await asyncio.sleep(0.6)
    leader._check_engine()  # The engine is alive: its heartbeats renewed the time stamp.

    def renew() -> None:
        time.sleep(0.4)
        with pytest.raises(LeadershipLost, match="its event loop hangs") as caught:
            leader._check_engine()
        leader._lose(str(caught.value))

    hanging = threading.Thread(target=renew)
    hanging.start()
    hanging.join()
    assert forced.wait(10)
    await asyncio.wait_for(leader.lost.wait(), 10)
    assert "its event loop hangs" in str(leader.explain_loss())
    await leader.stop()


def test_no_two_processes_stand_under_one_name() -> None:
    first, second = (leadership.make_election_config(Settings(leader_election=True)) for _ in range(2))

    assert first.identity != second.identity
    assert (first.duration, first.deadline, first.retry) == (15, 10, 2)


def test_the_manifests_state_the_pod_of_a_process() -> None:
    environ = {"HEARTH_POD_NAMESPACE": "ops", "HEARTH_POD_NAME": "hearth-1", "HEARTH_POD_UID": "u1"}
    found = leadership.make_election_config(Settings(leader_election=True), environ)

    assert found.pod == PodIdentity(namespace="ops", name="hearth-1", uid="u1")
    assert found.identity.startswith("hearth-1_u1_")
    assert leadership.make_election_config(Settings(leader_election=True), {"HEARTH_POD_NAME": "x"}).pod is None


async def test_an_operator_ends_when_another_one_is_seen_at_work() -> None:
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def find() -> str:
        return ""

    leader = AlwaysLeader(find, find_other=lambda: asyncio.wait_for(seen, 10))
    leader.start()
    await asyncio.wait_for(leader.acquired.wait(), 10)
    assert not leader.lost.is_set()
    seen.set_result("lease/hearth-alone in namespace ops is held by laptop_1")
    await asyncio.wait_for(leader.lost.wait(), 10)
    assert "laptop_1" in str(leader.explain_loss())
    await leader.stop()
