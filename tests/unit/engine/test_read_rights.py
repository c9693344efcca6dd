"""Read permissions of accounts: requested once, shared, refreshed when RBAC changes, and forgotten with the last Stack."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hearth.engine import read_rights
from hearth.engine.read_rights import ReadRights
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model import retry_delays
from hearth.model.errors import Unreachable
from hearth.model.kinds import Kind
from hearth.model.tenancy import Boundary
from hearth.plan.state.read_access import Access
from support import virtual_time
from support.units import blueprints

ACCOUNT = Boundary(namespace="default", is_confined=False, account="deployer")
CHILD = blueprints.make_child(
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "labels": {}, "annotations": {}},
    },
    uid="1",
)


@dataclass
class Cluster:
    """Sends scripted responses, and counts requests."""

    granted: set[str] = field(default_factory=lambda: {""})
    """The names that may be read, "" for all."""
    is_away: bool = False
    broken: set[str] = field(default_factory=set)
    """The names with unanswered reviews."""
    asked: list[str] = field(default_factory=list)
    watched: list[Any] = field(default_factory=list)

    async def may(self, verb: str, boundary: Boundary, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """As the port says."""
        self.asked.append(name)
        await asyncio.sleep(0.01)
        if self.is_away or name in self.broken:
            raise Unreachable("away")
        return name in self.granted

    def watch_trigger(self, cause: Any) -> None:
        """As the port says."""
        self.watched.append(cause)


class Clock:
    """The clock of the event loop."""

    def now(self) -> float:
        """As the port says."""
        return asyncio.get_running_loop().time()

    monotonic = now

    def call_later(self, delay: float, action: Any) -> Any:
        """As the port says."""
        return asyncio.get_running_loop().call_later(delay, action).cancel


def make(cluster: Cluster) -> tuple[ReadRights, WorkQueue]:
    """The answers of one operator, and its queue."""
    queue = WorkQueue(now=lambda: 0.0)
    return ReadRights(cluster, queue=queue, clock=Clock(), namespace=""), queue  # type: ignore[arg-type]  # required kinds


def drain(queue: WorkQueue) -> dict[str, set[Any]]:
    """The keys that were enqueued since the last call."""
    found = {}
    while taken := queue.get():
        found[taken[0]] = taken[1]
    return found


@virtual_time.in_virtual_time
async def test_one_question_answers_for_all_stacks_of_an_account() -> None:
    cluster = Cluster()
    rights, queue = make(cluster)
    assert [rights.of(uid).find(CHILD, ACCOUNT) for uid in ("s1", "s2")] == [Access.UNKNOWN] * 2
    assert rights.is_asking("s1")
    await asyncio.sleep(0.1)

    assert drain(queue) == {"s1": {DirtyScope.ALL_RESOURCES}, "s2": {DirtyScope.ALL_RESOURCES}}
    assert [rights.of(uid).find(CHILD, ACCOUNT) for uid in ("s1", "s2", "s3")] == [Access.GRANTED] * 3
    assert cluster.asked == [""]
    assert cluster.watched == [rights.trigger]
    assert rights.watched == {rights.trigger}
    assert not rights.is_asking("s1")
    await rights.stop()


@virtual_time.in_virtual_time
async def test_a_name_is_asked_about_where_not_all_are_granted() -> None:
    cluster = Cluster(granted=set())
    rights, queue = make(cluster)
    rights.of("s1").find(CHILD, ACCOUNT)
    await asyncio.sleep(0.1)
    rights.of("s1").find(CHILD, ACCOUNT)
    await asyncio.sleep(0.1)
    assert rights.of("s1").find(CHILD, ACCOUNT) is Access.DENIED
    assert cluster.asked == ["", "a"]

    drain(queue)
    cluster.granted = {"a"}
    rights.on_change()
    await asyncio.sleep(0.1)
    assert drain(queue) == {"s1": {DirtyScope.ALL_RESOURCES}}
    assert rights.of("s1").find(CHILD, ACCOUNT) is Access.GRANTED
    await rights.stop()


@virtual_time.in_virtual_time
async def test_an_authorizer_that_learns_later_is_asked_once_more() -> None:
    cluster = Cluster()
    rights, _ = make(cluster)
    rights.of("s1").find(CHILD, ACCOUNT)
    await asyncio.sleep(0.1)
    rights.on_change()
    await asyncio.sleep(0.5)
    cluster.granted = set()
    assert rights.of("s1").find(CHILD, ACCOUNT) is Access.GRANTED
    await asyncio.sleep(read_rights.SETTLED_AFTER)
    assert rights.of("s1").find(CHILD, ACCOUNT) is Access.UNKNOWN
    await asyncio.sleep(0.1)
    assert rights.of("s1").find(CHILD, ACCOUNT) is Access.DENIED
    await rights.stop()


@virtual_time.in_virtual_time
async def test_a_question_without_an_answer_is_asked_again() -> None:
    cluster = Cluster(is_away=True)
    rights, queue = make(cluster)
    rights.of("s1").find(CHILD, ACCOUNT)
    await asyncio.sleep(0.1)
    assert rights.of("s1").find(CHILD, ACCOUNT) is Access.UNKNOWN
    cluster.is_away = False
    await asyncio.sleep(retry_delays.READ_RIGHTS.first)
    assert drain(queue) == {"s1": {DirtyScope.ALL_RESOURCES}}
    assert rights.of("s1").find(CHILD, ACCOUNT) is Access.GRANTED
    await rights.stop()


@virtual_time.in_virtual_time
async def test_answers_go_with_the_last_stack_that_needs_them() -> None:
    cluster = Cluster()
    rights, _ = make(cluster)
    for uid in ("s1", "s2"):
        rights.of(uid).find(CHILD, ACCOUNT)
    await asyncio.sleep(0.1)
    rights.forget("s1")
    assert rights.watched
    rights.forget("s2")
    assert rights.watched == set()
    assert rights.of("s3").find(CHILD, ACCOUNT) is Access.UNKNOWN
    await rights.stop()


def ask(rights: ReadRights, *names: str) -> None:
    """Ask about several objects by name."""
    for name in names:
        rights.find_answer("s1", ACCOUNT, kind=CHILD.kind, namespace="default", name=name)


@virtual_time.in_virtual_time
async def test_a_question_that_always_fails_holds_up_no_other() -> None:
    cluster = Cluster(broken={"w", "x", "y", "z"})
    rights, _ = make(cluster)
    ask(rights, "w", "x", "y", "z", "a")
    await asyncio.sleep(retry_delays.READ_RIGHTS.first + 0.1)
    assert rights.find_answer("s1", ACCOUNT, kind=CHILD.kind, namespace="default", name="a") is False
    cluster.granted = {"a"}
    rights.on_change()
    await asyncio.sleep(2 * retry_delays.READ_RIGHTS.first)
    assert rights.find_answer("s1", ACCOUNT, kind=CHILD.kind, namespace="default", name="a") is True
    await rights.stop()


@virtual_time.in_virtual_time
async def test_changes_of_rbac_without_end_leave_pauses() -> None:
    cluster = Cluster()
    rights, _ = make(cluster)
    ask(rights, *(f"n{number}" for number in range(100)))
    await asyncio.sleep(1)
    cluster.asked.clear()
    for _ in range(600):
        rights.on_change()
        await asyncio.sleep(0.1)
    # 25 rounds of 10 ms take 0.25 s. With the pause, one such series fits into 2.75 s.
    assert 18 * 100 <= len(cluster.asked) <= 26 * 100
    cluster.granted = {"n7"}
    await asyncio.sleep(10)
    assert rights.find_answer("s1", ACCOUNT, kind=CHILD.kind, namespace="default", name="n7") is True
    await rights.stop()
