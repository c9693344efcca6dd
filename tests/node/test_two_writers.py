"""Two Pods never write to one volume: for each reason to replace, the new Pod starts only after the old one has ended.

The container locks its volume and fails if another process holds the lock. It releases the lock some seconds after
SIGTERM.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import node_images
import pytest

from support.ecosystem import kinds
from support.node import node_cluster
from support.node.node_cluster import NodeUser

Object = dict[str, Any]
LINGER = "5s"
"""Time between SIGTERM and the end of a writer."""
GRACE_SECONDS = 12
TOOK, REFUSED, ENDING, LEFT = "took", "refused", "ending", "left"
"""Entries that a writer adds to its history."""


def make_claim() -> Object:
    """A claim that is bound when a Pod uses it."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"readyWhen": ["true"], "manifest": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}}


def make_pod(labels: Mapping[str, str], *, lock: str = "lock", linger: str = LINGER, **spec: Any) -> Object:
    """The template of a Pod that writes."""
    container = {
        "name": "writer",
        "image": node_images.WORKLOAD,
        "args": [f"--lock=/data/{lock}", f"--linger={linger}"],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "${data.metadata.name}"}}
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [container],
            "volumes": [volume],
            **spec,
        },
    }


def make_workload(kind: str, *, name: str = "", lock: str = "lock", linger: str = LINGER, **spec: Any) -> Object:
    """A workload of one Pod whose selector has a parameter."""
    labels = {"app": lock, "generation": "${params.generation}"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        **({"metadata": {"name": name}} if name else {}),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": make_pod(labels, lock=lock, linger=linger),
            **({"serviceName": "none"} if kind == "StatefulSet" else {}),
            **spec,
        },
    }


JOB: Object = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {"backoffLimit": 0, "template": make_pod({"generation": "${params.generation}"}, restartPolicy="Never")},
}
Step = Callable[[NodeUser, str], object]


def reselect(user: NodeUser, name: str) -> None:
    """Change the parameter."""
    patch = {"spec": {"parameters": {"generation": "two"}}}
    user.kubectl.call("patch", "stack", name, "--type=merge", f"--patch={json.dumps(patch)}")


def mark(user: NodeUser, name: str) -> None:
    """Mark the writer unhealthy."""
    user.stack("mark", name, "writer", "--reason=slow")


def roll_back(user: NodeUser, name: str) -> None:
    """Roll back to the former definition after the current one is complete."""
    user.kubectl.wait(f"stack/{name}", "condition=Ready")
    user.stack("rollback", name)


def change_kind(user: NodeUser, name: str) -> None:
    """Change the Deployment to a StatefulSet."""
    user.kubectl.apply([make_stack(name, make_workload("StatefulSet"), {})])


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Ways to replace the workload `writer`, one after the other."""

    workload: Object
    steps: Sequence[Step] = (reselect,)
    rules: Object = field(default_factory=dict)
    """Further fields of the resource."""
    leaves: bool = True
    """Whether a writer ends before it is killed."""


DEPLOYMENT = make_workload("Deployment", strategy={"type": "Recreate"})
REPLACEMENTS = {
    "selector": Replacement(workload=DEPLOYMENT),
    "selector-of-rolling-update": Replacement(workload=make_workload("Deployment")),
    "delete-first": Replacement(workload=DEPLOYMENT, rules={"updatePolicy": {"replace": "DeleteFirst"}}),
    "mark": Replacement(workload=DEPLOYMENT, steps=(mark,)),
    "mark-of-stateful-set": Replacement(workload=make_workload("StatefulSet"), steps=(mark,)),
    "rollback": Replacement(workload=DEPLOYMENT, steps=(reselect, roll_back)),
    "name": Replacement(workload=make_workload("Deployment", name="named-${params.generation}")),
    "kind": Replacement(workload=make_workload("Deployment"), steps=(change_kind,)),
    "job": Replacement(workload=JOB),
    "killed": Replacement(
        workload=make_workload("Deployment", linger="1h", strategy={"type": "Recreate"}), leaves=False
    ),
}
FORCED = Replacement(workload=DEPLOYMENT, rules={"updatePolicy": {"replace": "CreateFirst"}})
"""The user requests this despite a warning."""


def make_stack(name: str, workload: Object, rules: Object) -> Object:
    """A claim and the workload that writes to it."""
    made = kinds.make_stack(name, {"data": make_claim(), "writer": {"manifest": workload, **rules}})
    made["spec"]["template"]["parameters"] = {"generation": {"type": "string", "default": "one"}}
    return made


def read_history(volume: Path) -> list[str]:
    """The actions of the writers on a volume in order: `took NAME`."""
    history = volume / "history"
    return history.read_text().splitlines() if history.exists() else []


def count(volume: Path, what: str) -> int:
    """How often a writer performed that action."""
    return sum(line.split()[0] == what for line in read_history(volume))


def start(user: NodeUser, name: str, stack: Object, *, writers: int = 1) -> Path:
    """Create the Stack; return the volume of its writers once they write."""
    user.kubectl.apply([stack])
    node_cluster.wait_until(
        f"{name}: the volume",
        lambda: any("volumeName" in each["spec"] for each in user.kubectl.get("pvc", f"{name}-data")),
        describe(user, name),
    )
    volume = user.find_volume(f"{name}-data")
    node_cluster.wait_until(f"{name}: a writer", lambda: count(volume, TOOK) == writers, describe(user, name))
    return volume


def describe(user: NodeUser, name: str) -> Callable[[], str]:
    """Output for debugging, as a user would look it up."""
    return lambda: user.kubectl.run("get", "pods,jobs,deployments,statefulsets,stacks").stdout + user.explain(name)


def play(user: NodeUser, name: str, replacement: Replacement) -> list[str]:
    """Replace the writer while it writes; return the history of its volume."""
    volume = start(user, name, make_stack(name, replacement.workload, replacement.rules))
    if replacement.workload["kind"] != "Job":
        user.kubectl.wait(f"stack/{name}", "condition=Ready")
    for number, step in enumerate(replacement.steps, start=2):
        step(user, name)

        def is_replaced(writers: int = number) -> bool:
            return count(volume, TOOK) == writers or count(volume, REFUSED) > 0

        node_cluster.wait_until(f"{name}: writer {number}", is_replaced, describe(user, name))
    return read_history(volume)


@pytest.fixture(scope="module")
def outcomes(module_user: NodeUser, request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """The histories of all replacements. They wait most of the time, so they are played in parallel."""
    cases = node_cluster.find_selected(request, REPLACEMENTS, "replacement")
    return node_cluster.play_together(cases, lambda name, case: play(module_user, name, case))


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_the_new_pod_starts_when_the_old_one_is_gone(outcomes: Mapping[str, Any], replacement: str) -> None:
    history = [line.split()[0] for line in node_cluster.find_outcome(outcomes, replacement)]

    case = REPLACEMENTS[replacement]
    entries = (TOOK, ENDING, LEFT) if case.leaves else (TOOK, ENDING)
    assert history == [*entries * len(case.steps), TOOK]


def test_a_user_who_asks_for_two_writers_gets_them_and_a_warning(user: NodeUser) -> None:
    history = play(user, "forced", FORCED)

    assert [line.split()[0] for line in history] == [TOOK, REFUSED]
    assert "CreateFirst" in str(user.read_stack("forced")["status"])


def test_a_dependency_ends_when_the_pods_of_its_dependents_are_gone(user: NodeUser) -> None:
    resources = {
        "data": make_claim(),
        "database": {"manifest": make_workload("Deployment", lock="database")},
        "api": {"manifest": make_workload("Deployment", lock="api"), "dependsOn": ["database"]},
    }
    stack = kinds.make_stack("ordered", resources)
    stack["spec"]["template"]["parameters"] = {"generation": {"type": "string", "default": "one"}}
    volume = start(user, "ordered", stack, writers=2)

    user.kubectl.call("delete", "stack", "ordered", "--timeout=120s")

    history = [" ".join(line.split("-")[:2]) for line in read_history(volume)]
    assert history[2:] == [
        f"{ENDING} ordered api",
        f"{LEFT} ordered api",
        f"{ENDING} ordered database",
        f"{LEFT} ordered database",
    ]
    assert user.kubectl.get("pods") == []
