"""Changes that wait for an approval, with real controllers, Pods and the webhook behind its Service."""

from __future__ import annotations

from typing import Any

import node_images

from support.ecosystem import kinds
from support.node import node_cluster
from support.node.node_cluster import NodeUser

Object = dict[str, Any]
LABELS = {"app": "server"}


def make_stack(replicas: int) -> Object:
    """A Stack with objects that the API server and its controllers complete while the change runs."""
    container = {"name": "main", "image": node_images.WORKLOAD, "command": ["sleep", "infinity"]}
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "serviceAccountName": "${account.metadata.name}",
    }
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    server = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
    resources = {
        "account": {"manifest": {"apiVersion": "v1", "kind": "ServiceAccount"}},
        "server": {"manifest": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": server}},
        "service": {
            "manifest": {"apiVersion": "v1", "kind": "Service", "spec": {"selector": LABELS, "ports": [{"port": 80}]}}
        },
    }
    return kinds.make_stack("shop", resources, approval={"required": "Always"})


def approve(user: NodeUser) -> None:
    """Approve the plan that waits."""
    said: list[str] = []

    def find_digest() -> str:
        pending = [each for each in user.kubectl.get("stackplans") if each.get("status", {}).get("phase") == "Pending"]
        return str(pending[0]["spec"]["digest"]) if pending else ""

    def is_approved() -> bool:
        done = user.run_stack("approve", "shop", find_digest()[:8])
        said.append(done.stderr)
        return done.returncode == 0

    node_cluster.wait_until("the plan", find_digest)
    # An API server notices the certificate some time after the operator has written it.
    node_cluster.wait_until("the approval", is_approved, lambda: str(said[-1:]))


def test_an_approval_of_each_change_is_enough(user: NodeUser) -> None:
    for replicas, stopped, done in ((1, "CreateStopped", "CreateComplete"), (2, "UpdateStopped", "UpdateComplete")):
        before = user.kubectl.get("pods")
        user.kubectl.apply([make_stack(replicas)])
        user.kubectl.wait("stack/shop", f"jsonpath={{.status.phase}}={stopped}")
        assert len(user.kubectl.get("pods")) == len(before)

        approve(user)
        user.kubectl.wait("stack/shop", f"jsonpath={{.status.phase}}={done}")
        assert [pod["status"]["phase"] for pod in user.kubectl.get("pods")] == ["Running"] * replicas

    assert [each["status"]["phase"] for each in user.kubectl.get("stackplans")] == ["Completed"] * 2
