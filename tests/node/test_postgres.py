"""PostgreSQL under load: no acknowledged row is lost when its workload is replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import node_images
import pytest

from support.ecosystem import kinds
from support.node import node_cluster
from support.node.node_cluster import NodeCluster, NodeUser

Object = dict[str, Any]
LABELS = {"app": "${params.name}", "generation": "${params.generation}"}
MOUNT = {"name": "data", "mountPath": "/var/lib/postgresql/data"}
DATABASE: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {
                # A smart shutdown waits for its clients, so the old server serves until the end of this time.
                "terminationGracePeriodSeconds": 6,
                "containers": [
                    {
                        "name": "postgres",
                        "image": node_images.DATABASE,
                        "readinessProbe": {"exec": {"command": ["pg_isready"]}, "periodSeconds": 1},
                        "volumeMounts": [MOUNT],
                    }
                ],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "${data.metadata.name}"}}],
            },
        },
    },
}
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "spec": {"selector": {"app": "${params.name}"}, "ports": [{"port": 5432}]},
}
LOAD = """
n=0
insert() { while :; do n=$((n+1)); echo "insert into rows values ($n) returning n;"; sleep 0.1; echo $n >/tmp/n; done; }
export PGHOST="$1" PGCONNECT_TIMEOUT=2
until psql -c 'create table if not exists rows(n int primary key)' 2>/dev/null; do sleep 0.2; done
while :; do n=$(($(cat /tmp/n 2>/dev/null || echo 0)+1000)); insert | psql -qAt 2>/dev/null; sleep 0.2; done
"""
"""One connection inserts a row every tenth of a second and prints acknowledged rows; the next connection uses other
rows.
"""


def mark(user: NodeUser, name: str) -> None:
    """Mark the database unhealthy."""
    user.stack("mark", name, "database", "--reason=slow")


def reselect(user: NodeUser, name: str) -> None:
    """Change the selector."""
    user.kubectl.call(
        "patch", "stack", name, "--type=merge", '--patch={"spec":{"parameters":{"generation":"two"}}}'
    )  # fmt: skip


Case = tuple[Object, Callable[[NodeUser, str], None]]
CASES: Mapping[str, Case] = {
    "mark": ({}, mark),
    "selector": ({}, reselect),
    "delete-first": ({"updatePolicy": {"replace": "DeleteFirst"}}, reselect),
}


def make_stack(name: str, rules: Object) -> Object:
    """A database with its claim, and a Service for clients."""
    resources = {
        "data": {"manifest": CLAIM, "readyWhen": ["true"]},
        "database": {"manifest": DATABASE, **rules},
        "service": {"manifest": SERVICE},
    }
    stack = kinds.make_stack(name, resources)
    parameter = {"type": "string", "default": "one"}
    stack["spec"]["template"]["parameters"] = {"generation": parameter, "name": {"type": "string", "default": name}}
    return stack


def make_client(name: str, server: str) -> Object:
    """A Pod that writes."""
    container = {
        "name": "client",
        "image": node_images.DATABASE,
        "command": ["sh", "-c", LOAD, "load", server],
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def play(user: NodeUser, name: str, case: Case) -> tuple[set[int], set[int]]:
    """Replace the database while a client writes; return the acknowledged and the stored rows."""
    rules, change = case
    client = f"{name}-client"
    user.kubectl.apply([make_stack(name, rules), make_client(client, f"{name}-service")])

    def read_acknowledged() -> set[int]:
        return {int(line) for line in user.kubectl.run("logs", client).stdout.split() if line.isdigit()}

    def find_pods() -> set[str]:
        return {each["metadata"]["uid"] for each in user.kubectl.get("pods", f"--selector=app={name}")}

    describe = lambda: user.kubectl.run("get", "pods,stacks").stdout + user.stack("why", name)  # noqa: E731
    user.kubectl.wait(f"stack/{name}", "condition=Ready")
    node_cluster.wait_until(f"{name}: rows", lambda: len(read_acknowledged()) > 20, describe)
    former, acknowledged = find_pods(), read_acknowledged()
    change(user, name)
    node_cluster.wait_until(f"{name}: other Pods", lambda: find_pods() and not find_pods() & former, describe)
    # These rows are from the next connection, so the client has noticed the end of the old server.
    node_cluster.wait_until(
        f"{name}: rows on the new server", lambda: max(read_acknowledged()) > max(acknowledged) + 900, describe
    )
    user.kubectl.wait(f"stack/{name}", "condition=Ready")
    acknowledged = read_acknowledged()
    pods = user.kubectl.get("pods", f"--selector=app={name}")
    newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))["metadata"]["name"]
    rows = user.kubectl.call("exec", newest, "--", "psql", "-qAtc", "select n from rows")
    return acknowledged, {int(line) for line in re.findall(r"\d+", rows)}


@pytest.fixture(scope="module")
def outcomes(node: NodeCluster, installed: float, request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """The outcomes of all cases, played in parallel."""
    user = node.make_user()
    cases = node_cluster.find_selected(request, CASES, "case")
    return node_cluster.play_together(cases, lambda name, case: play(user, name, case))


@pytest.mark.parametrize("case", CASES)
def test_every_acknowledged_row_is_there(outcomes: Mapping[str, Any], case: str) -> None:
    acknowledged, there = node_cluster.find_outcome(outcomes, case)

    assert acknowledged - there == set()
    assert len(acknowledged) > 20
