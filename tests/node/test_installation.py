"""Hearth as users install it: its own image, two replicas, the webhook behind its Service."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from support.ecosystem import kinds
from support.node import node_cluster
from support.node.node_cluster import NodeCluster, NodeUser

pytestmark = pytest.mark.alone
Object = dict[str, Any]
CONFIG: Object = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": "s"}}}
NEXT: Object = {
    "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"of": "${config.metadata.name}"}},
}
STACKS = 40
"""Stacks that the leader works on when it dies."""
SPARE_BYTES = 8 << 20
"""Less than the leader uses, so that the kernel chooses the leader."""
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10s")
PODS = ("pods", "--selector=app.kubernetes.io/name=hearth")


def find_leader(node: NodeCluster) -> str:
    """The name of the leading Pod, or ""."""
    holders = [str(each["spec"].get("holderIdentity") or "") for each in node.kubectl.get("leases")]
    names = [
        each["metadata"]["name"] for each in node.kubectl.get(*PODS) if "deletionTimestamp" not in each["metadata"]
    ]
    return next((name for name in names for holder in holders if name in holder), "")


def converge(user: NodeUser, name: str) -> None:
    """Create a Stack, and wait until it is ready."""
    user.kubectl.apply([kinds.make_stack(name, {"config": CONFIG})])
    user.kubectl.wait(f"stack/{name}", "condition=Ready")


def test_both_replicas_serve_and_one_leads(node: NodeCluster, user: NodeUser) -> None:
    converge(user, "first")

    pods = node.kubectl.get(*PODS)
    assert [pod["status"]["containerStatuses"][0]["ready"] for pod in pods] == [True, True]
    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods] == [0, 0]
    assert find_leader(node) in [pod["metadata"]["name"] for pod in pods]


def test_the_webhook_denies_a_wrong_stack_through_its_service(user: NodeUser) -> None:
    wrong = kinds.make_stack(
        "wrong", {"config": {"manifest": CONFIG["manifest"] | {"data": {"size": "${params.none}"}}}}
    )
    answers: list[str] = []

    def is_denied() -> bool:
        user.kubectl.run("delete", "stack", "wrong", "--ignore-not-found")
        done = user.kubectl.run("create", "--filename=-", stdin=str(wrong).replace("'", '"'))
        answers.append(done.stderr)
        return done.returncode != 0

    # An API server notices the certificate some time after the operator has written it.
    node_cluster.wait_until("the denial", is_denied, lambda: str(answers[-1:]))
    assert 'admission webhook "stacks.hearth.dev" denied the request' in answers[-1]
    assert "none" in answers[-1]


@pytest.mark.parametrize("grace", [None, 0], ids=["in-order", "at-once"])
def test_the_other_replica_leads_when_the_pod_of_the_leader_is_deleted(
    node: NodeCluster, user: NodeUser, grace: int | None
) -> None:
    converge(user, "before")
    former = find_leader(node)
    options = [] if grace is None else [f"--grace-period={grace}", "--force"]

    node.kubectl.call("delete", "pod", former, "--wait=false", *options)
    node_cluster.wait_until("another leader", lambda: find_leader(node) not in ("", former))

    converge(user, "after")
    user.kubectl.call("delete", "configmap", "before-config")
    node_cluster.wait_until("the repair", lambda: user.kubectl.get("configmap", "before-config"))
    node.kubectl.call("rollout", "status", "deployment/hearth", "--timeout=180s")


def test_a_rolling_upgrade_disturbs_no_stack(node: NodeCluster, user: NodeUser) -> None:
    converge(user, "resting")
    before = user.kubectl.get("configmap", "resting-config")[0]["metadata"]["resourceVersion"]

    node.kubectl.call("rollout", "restart", "deployment/hearth")
    converge(user, "meanwhile")
    node.kubectl.call("rollout", "status", "deployment/hearth", "--timeout=180s")

    assert user.kubectl.get("configmap", "resting-config")[0]["metadata"]["resourceVersion"] == before


def test_a_drain_leaves_one_replica_at_work(node: NodeCluster, user: NodeUser) -> None:
    """The only node accepts no further Pod, so the disruption budget blocks the second eviction."""
    converge(user, "undrained")
    try:
        drained = node.kubectl.run("drain", "node0", f"--pod-{PODS[1].removeprefix('--')}", *DRAIN)
        assert drained.returncode != 0
        assert "disruption budget" in drained.stderr
        node_cluster.wait_until("a leader", lambda: find_leader(node) != "")
        converge(user, "drained")
    finally:
        node.kubectl.call("uncordon", "node0")
    node.kubectl.call("rollout", "status", "deployment/hearth", "--timeout=180s")


def test_a_frozen_leader_is_replaced_and_ends_when_it_thaws(node: NodeCluster, user: NodeUser) -> None:
    converge(user, "warm")
    former = find_leader(node)
    (pod,) = node.kubectl.get("pod", former)
    processes = node.find_processes(pod)
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        node_cluster.wait_until("another leader", lambda: find_leader(node) not in ("", former))
        converge(user, "frozen")
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)

    node_cluster.wait_until("its restart", lambda: read_restarts(node, former) > read_restarts_of(pod))
    node.kubectl.call("rollout", "status", "deployment/hearth", "--timeout=180s")
    converge(user, "thawed")


def kill(pod_processes: list[int]) -> None:
    """End the leader as a crash does."""
    for pid in pod_processes:
        os.kill(pid, signal.SIGKILL)


def exhaust_memory(pod_processes: list[int]) -> None:
    """Let the kernel end the leader, the largest process in a container that has no memory left."""
    cgroup = node_cluster.find_memory_cgroup(pod_processes[0])
    cgroup.set_limit(sum(map(node_cluster.read_memory, pod_processes)) + SPARE_BYTES)
    cgroup.run(sys.executable, "-c", f"held = [bytearray(1 << 20) for _ in range({2 * SPARE_BYTES >> 20})]")


@pytest.mark.parametrize(
    ("end", "reason"), [(kill, "Error"), (exhaust_memory, "OOMKilled")], ids=["SIGKILL", "out-of-memory"]
)
def test_no_work_is_lost_when_the_leader_is_killed(
    node: NodeCluster, user: NodeUser, end: Callable[[list[int]], None], reason: str
) -> None:
    converge(user, "before")
    former = find_leader(node)
    (pod,) = node.kubectl.get("pod", former)
    names = [f"work-{number}" for number in range(STACKS)]

    user.kubectl.apply([kinds.make_stack(name, {"config": CONFIG, "next": NEXT}) for name in names])
    end(node.find_processes(pod))
    user.kubectl.call("delete", "configmap", "before-config")

    user.kubectl.wait("stack", "condition=Ready", "--all")
    node_cluster.wait_until("the repair", lambda: user.kubectl.get("configmap", "before-config"))
    written = {each["metadata"]["name"] for each in user.kubectl.get("configmaps", "--selector=hearth.dev/stack-uid")}
    assert written == {"before-config", *(f"{name}-{each}" for name in names for each in ("config", "next"))}
    node_cluster.wait_until("its restart", lambda: read_restarts(node, former) > read_restarts_of(pod))
    (pod,) = node.kubectl.get("pod", former)
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == reason
    node.kubectl.call("rollout", "status", "deployment/hearth", "--timeout=180s")


def read_restarts(node: NodeCluster, name: str) -> int:
    """How often the container of the Pod was restarted."""
    return read_restarts_of(node.kubectl.get("pod", name)[0])


def read_restarts_of(pod: Object) -> int:
    """How often the container of that Pod had been restarted."""
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def test_logs_have_no_error(node: NodeCluster, user: NodeUser) -> None:
    """Checked after all earlier tests of this module."""
    converge(user, "last")

    log = node.kubectl.call("logs", "--selector=app.kubernetes.io/name=hearth", "--tail=-1", "--prefix=false")
    wrong = [line for line in log.splitlines() if '"level": "error"' in line or '"level": "critical"' in line]
    assert wrong == []
