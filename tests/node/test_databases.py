"""Databases under load: no acknowledged row is lost when their workload is replaced or rolled back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import node_images
import pytest

from support.ecosystem import kinds
from support.node import node_cluster
from support.node.node_cluster import NodeUser

Object = dict[str, Any]
LABELS = {"app": "${params.name}", "generation": "${params.generation}"}
POSTGRES_LOAD = """
n=0
insert() { while :; do n=$((n+1)); echo "insert into rows values ($n) returning n;"; sleep 0.1; echo $n >/tmp/n; done; }
export PGHOST="$1" PGCONNECT_TIMEOUT=2
until psql -c 'create table if not exists rows(n int primary key)' 2>/dev/null; do sleep 0.2; done
while :; do n=$(($(cat /tmp/n 2>/dev/null || echo 0)+1000)); insert | psql -qAt 2>/dev/null; sleep 0.2; done
"""
"""One connection inserts a row every tenth of a second and prints acknowledged rows; the next connection uses other
rows.
"""
REDIS_LOAD = """
n=0
write() { timeout 2 redis-cli -h "$1" sadd rows $n 2>/dev/null; }
while :; do
  n=$((n+1))
  if [ "$(write "$1")" = 1 ]; then echo $n; else n=$((n+1000)); sleep 0.2; fi
  sleep 0.1
done
"""
"""Each acknowledged row has a connection of its own; after a failure come rows with higher numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A server of one kind, and the commands for it."""

    image: str
    port: int
    folder: str
    """The folder of the data in the container."""
    ready: Sequence[str]
    """Command of the readiness probe."""
    load: str
    """A script that writes rows to the server `$1`, and prints those that the server acknowledges."""
    read: Sequence[str]
    """Command that prints all rows."""
    arguments: Sequence[str] = ()

    def make_workload(self) -> Object:
        """A Deployment of one server."""
        container = {
            "name": "database",
            "image": self.image,
            "args": [*self.arguments],
            "readinessProbe": {"exec": {"command": [*self.ready]}, "periodSeconds": 1},
            "volumeMounts": [{"name": "data", "mountPath": self.folder}],
        }
        spec = {
            # A smart shutdown of PostgreSQL waits for its clients, so the old server serves until the end of this time.
            "terminationGracePeriodSeconds": 6,
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "${data.metadata.name}"}}],
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS}, "spec": spec},
            },
        }


POSTGRES = Database(
    image=node_images.POSTGRES_SERVER,
    port=5432,
    folder="/var/lib/postgresql/data",
    ready=("pg_isready",),
    load=POSTGRES_LOAD,
    read=("psql", "-qAtc", "select n from rows"),
)
REDIS = Database(
    image=node_images.REDIS_SERVER,
    port=6379,
    folder="/data",
    arguments=("--dir", "/data", "--protected-mode", "no", "--appendonly", "yes", "--appendfsync", "always"),
    ready=("redis-cli", "-e", "ping"),
    load=REDIS_LOAD,
    read=("redis-cli", "smembers", "rows"),
)
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "spec": {"selector": {"app": "${params.name}"}},
}


def mark(user: NodeUser, name: str) -> None:
    """Mark the database unhealthy."""
    user.stack("mark", name, "database", "--reason=slow")


def reselect(user: NodeUser, name: str) -> None:
    """Change the selector."""
    user.kubectl.call(
        "patch", "stack", name, "--type=merge", '--patch={"spec":{"parameters":{"generation":"two"}}}'
    )  # fmt: skip


def roll_back(user: NodeUser, name: str) -> None:
    """Roll back to the former definition while the workload of the next one is being created."""
    reselect(user, name)
    user.kubectl.wait(f"stack/{name}", "jsonpath={.status.phase}=UpdateInProgress")
    user.stack("rollback", name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to replace the workload of a database."""

    database: Database
    change: Callable[[NodeUser, str], None]
    rules: Object = field(default_factory=dict)
    """Further fields of the resource."""


CASES: Mapping[str, Case] = {
    "postgres-mark": Case(database=POSTGRES, change=mark),
    "postgres-selector": Case(database=POSTGRES, change=reselect),
    "postgres-delete-first": Case(
        database=POSTGRES, change=reselect, rules={"updatePolicy": {"replace": "DeleteFirst"}}
    ),
    "postgres-rollback": Case(database=POSTGRES, change=roll_back),
    "redis-rollback": Case(database=REDIS, change=roll_back),
}


def make_stack(name: str, case: Case) -> Object:
    """A database with its claim, and a Service for clients."""
    service = {**SERVICE, "spec": {**SERVICE["spec"], "ports": [{"port": case.database.port}]}}
    resources = {
        "data": {"manifest": CLAIM, "readyWhen": ["true"]},
        "database": {"manifest": case.database.make_workload(), **case.rules},
        "service": {"manifest": service},
    }
    stack = kinds.make_stack(name, resources)
    parameter = {"type": "string", "default": "one"}
    stack["spec"]["template"]["parameters"] = {"generation": parameter, "name": {"type": "string", "default": name}}
    return stack


def make_client(name: str, server: str, database: Database) -> Object:
    """A Pod that writes."""
    container = {
        "name": "client",
        "image": database.image,
        "command": ["sh", "-c", database.load, "load", server],
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def play(user: NodeUser, name: str, case: Case) -> tuple[set[int], set[int]]:
    """Replace the database while a client writes; return the acknowledged and the stored rows."""
    client = f"{name}-client"
    user.kubectl.apply([make_stack(name, case), make_client(client, f"{name}-service", case.database)])

    def read_acknowledged() -> set[int]:
        return {int(line) for line in user.kubectl.run("logs", client).stdout.split() if line.isdigit()}

    def find_pods() -> set[str]:
        return {each["metadata"]["uid"] for each in user.kubectl.get("pods", f"--selector=app={name}")}

    describe = lambda: user.kubectl.run("get", "pods,stacks").stdout + user.explain(name)  # noqa: E731
    user.kubectl.wait(f"stack/{name}", "condition=Ready")
    node_cluster.wait_until(f"{name}: rows", lambda: len(read_acknowledged()) > 20, describe)
    former, acknowledged = find_pods(), read_acknowledged()
    case.change(user, name)
    node_cluster.wait_until(f"{name}: other Pods", lambda: find_pods() and not find_pods() & former, describe)
    # Rows with higher numbers: the client has noticed the end of the old server.
    node_cluster.wait_until(
        f"{name}: rows on the new server", lambda: max(read_acknowledged()) > max(acknowledged) + 900, describe
    )
    user.kubectl.wait(f"stack/{name}", "condition=Ready")
    acknowledged = read_acknowledged()
    pods = user.kubectl.get("pods", f"--selector=app={name}")
    newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))["metadata"]["name"]
    rows = user.kubectl.call("exec", newest, "--", *case.database.read)
    return acknowledged, {int(line) for line in re.findall(r"\d+", rows)}


@pytest.fixture(scope="module")
def outcomes(module_user: NodeUser, request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """The outcomes of all cases, played in parallel."""
    cases = node_cluster.find_selected(request, CASES, "case")
    return node_cluster.play_together(cases, lambda name, case: play(module_user, name, case))


@pytest.mark.parametrize("case", CASES)
def test_every_acknowledged_row_is_there(outcomes: Mapping[str, Any], case: str) -> None:
    acknowledged, there = node_cluster.find_outcome(outcomes, case)

    assert acknowledged - there == set()
    assert len(acknowledged) > 20
