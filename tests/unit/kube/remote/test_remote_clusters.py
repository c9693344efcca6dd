"""Connections to other clusters: sharing, limits, and closing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from hearth.engine.work_queue import WorkQueue
from hearth.kube.remote import remote_clusters
from hearth.kube.remote.remote_clusters import KubeRemoteClusters
from hearth.model import errors, limits
from support.units.blueprints import HASHER


def write(token: str) -> str:
    """A kubeconfig of a server that nothing listens on."""
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "c", "user": {"token": token}}],
        }
    )


@pytest.fixture
async def clusters() -> AsyncIterator[KubeRemoteClusters]:
    """An empty set of clusters."""
    made = KubeRemoteClusters(WorkQueue(), signatures=HASHER, allows_loopback=True)
    yield made
    await made.close()


async def test_only_equal_credentials_share_a_cluster(clusters: KubeRemoteClusters) -> None:
    uses = (("u1", "a", write("x")), ("u2", "a", write("x")), ("u3", "a", write("y")), ("u4", "b", write("x")))
    one, same, other, foreign = (clusters.use(*each) for each in uses)

    assert one is same
    assert len({one.key, other.key, foreign.key}) == len(clusters.count_users()) == 3


async def test_a_cluster_that_does_not_answer_names_host_and_error(clusters: KubeRemoteClusters) -> None:
    remote = clusters.use("u1", "a", write("x"))
    await remote.wait_open(20.0)

    assert remote.is_open is False
    assert remote.trouble is not None
    assert remote.trouble[0] == "ClusterUnreachable"
    assert remote.trouble[1].startswith("cluster 127.0.0.1:1 cannot be reached: ")


async def test_the_last_stack_closes_it_after_a_while(
    clusters: KubeRemoteClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_clusters, "CLOSE_AFTER", 0.0)
    kept = clusters.use("u1", "a", write("x"))
    clusters.use("u2", "a", write("x"))
    clusters.leave("u1")
    assert clusters.use("u3", "a", write("x")) is kept
    clusters.leave("u2")
    clusters.leave("u3")
    assert clusters.use("u1", "a", write("x")) is kept
    clusters.leave("u1")
    await clusters.use("u4", "a", write("y")).wait_open(20.0)

    assert kept not in [remote for remote, _ in clusters.count_users()]


async def test_a_stack_that_moves_leaves_all_but_the_new_one(clusters: KubeRemoteClusters) -> None:
    before, after = clusters.use("u1", "a", write("x")), clusters.use("u1", "a", write("y"))
    clusters.leave("u1", besides=after.key)

    assert {remote.key: users for remote, users in clusters.count_users()} == {before.key: 0, after.key: 1}


async def test_a_namespace_uses_a_limited_number(clusters: KubeRemoteClusters) -> None:
    for number in range(limits.CLUSTERS_PER_NAMESPACE):
        clusters.use(f"u{number}", "a", write(f"t{number}"))
    with pytest.raises(errors.TooManyClusters, match="namespace a already use 20"):
        clusters.use("more", "a", write("more"))
    clusters.use("more", "a", write("t0"))
    clusters.use("other", "b", write("more"))
    clusters.leave("u1")
    clusters.use("again", "a", write("again"))

    users = Counter(users for _, users in clusters.count_users())
    assert users == {2: 1, 1: limits.CLUSTERS_PER_NAMESPACE, 0: 1}


async def test_all_namespaces_together_use_a_limited_number(
    clusters: KubeRemoteClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CLUSTERS", 2)
    for number in range(2):
        clusters.use(f"u{number}", f"n{number}", write(f"t{number}"))
    with pytest.raises(errors.TooManyClusters, match="2 other clusters, which is the limit"):
        clusters.use("more", "n3", write("more"))
    clusters.leave("u0")
    clusters.use("more", "n3", write("more"))

    assert len(clusters.count_users()) == 2


async def test_a_server_cannot_speak_of_stacks_that_do_not_use_it() -> None:
    queue = WorkQueue()
    clusters = KubeRemoteClusters(queue, signatures=HASHER, allows_loopback=True)
    remote = clusters.use("u1", "a", write("x"))
    listener = remote._listener
    for uid in ("u1", "of-another"):
        listener.on_child(uid, "web")

    assert queue.get()[:2] == ("u1", {"web"})  # type: ignore[index]  # there is one
    assert queue.get() is None
    assert queue.take_health_marks() == set()
    assert queue.take_broadcasts() == set()
    await clusters.close()
