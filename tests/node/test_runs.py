"""Jobs, CronJobs and partitions on a real node: what an update, a lifetime or a partition leaves as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from support.ecosystem import kinds
from support.node import node_cluster, pod_failures
from support.node.node_cluster import NodeUser

Object = dict[str, Any]
LIFETIME_SECONDS = 5


def write(user: NodeUser, name: str, manifest: Object) -> None:
    """Apply a Stack of that object and a ConfigMap that requires it."""
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": "${params.size}"}}
    resources = {"web": {"manifest": manifest}, "settings": {"manifest": settings, "dependsOn": ["web"]}}
    stack = kinds.make_stack(name, resources)
    stack["spec"]["template"]["parameters"] = {"size": {"type": "string", "default": "s"}}
    user.kubectl.apply([stack])


def resize(user: NodeUser, name: str) -> None:
    """Change only the ConfigMap, and wait until the update is complete."""
    user.kubectl.call("patch", "stack", name, "--type=merge", '--patch={"spec":{"parameters":{"size":"l"}}}')
    user.kubectl.wait(f"stack/{name}", "jsonpath={.status.phase}=UpdateComplete")


def find_pods(user: NodeUser, selector: str) -> list[Object]:
    """The Pods that a selector matches, by name."""
    return sorted(user.kubectl.get("pods", f"--selector={selector}"), key=lambda pod: str(pod["metadata"]["name"]))


def expire_a_finished_job(user: NodeUser, name: str) -> None:
    """The Job is deleted after its lifetime; neither time nor an update of the Stack runs it again."""
    container = pod_failures.make_container("--crash=1s", "--code=0")
    write(user, name, pod_failures.make_job(container, ttlSecondsAfterFinished=LIFETIME_SECONDS))
    user.kubectl.wait(f"stack/{name}", "condition=Ready")
    node_cluster.wait_until(f"{name}: its end", lambda: user.kubectl.get("job", f"{name}-web") == [])

    resize(user, name)

    assert user.kubectl.get("job", f"{name}-web") == []
    (finished,) = user.read_stack(name)["status"]["finished"]
    assert finished["resource"] == "web"
    created = f"--field-selector=reason=SuccessfulCreate,involvedObject.name={name}-web"
    assert len(user.kubectl.get("events", created)) == 1


def update_a_cron_job(user: NodeUser, name: str) -> None:
    """A running Job continues when its CronJob changes; the next one has the new template."""

    def run(job: str) -> Object:
        user.kubectl.call("create", "job", job, f"--from=cronjob/{name}-web")
        node_cluster.wait_until(
            f"{name}: {job}",
            lambda: [each["status"]["phase"] for each in find_pods(user, f"job-name={job}")] == ["Running"],
        )
        (pod,) = find_pods(user, f"job-name={job}")
        return pod

    write(user, name, pod_failures.make_cron_job(pod_failures.make_container()))
    user.kubectl.wait(f"stack/{name}", "condition=Ready")
    former = run("former")

    write(user, name, pod_failures.make_cron_job(pod_failures.make_container("--linger=1s")))
    user.kubectl.wait(f"stack/{name}", "jsonpath={.status.phase}=UpdateComplete")
    latter = run("latter")

    (pod,) = find_pods(user, "job-name=former")
    assert pod["metadata"]["uid"] == former["metadata"]["uid"]
    assert "deletionTimestamp" not in pod["metadata"]
    assert pod["status"]["containerStatuses"] == former["status"]["containerStatuses"]
    assert "args" not in pod["spec"]["containers"][0]
    assert latter["spec"]["containers"][0]["args"] == ["--linger=1s"]


def update_a_partition(user: NodeUser, name: str) -> None:
    """Only the Pods from the partition on are updated; without the partition, all are."""

    def read_arguments() -> list[list[str]]:
        return [pod["spec"]["containers"][0].get("args", []) for pod in find_pods(user, f"app={name}")]

    container = pod_failures.make_container("--linger=1s", **pod_failures.READY)
    write(user, name, pod_failures.make_partition(pod_failures.make_container(**pod_failures.READY)))
    user.kubectl.wait(f"stack/{name}", "condition=Ready")
    former = find_pods(user, f"app={name}")

    write(user, name, pod_failures.make_partition(container))
    user.kubectl.wait(f"stack/{name}", "jsonpath={.status.phase}=UpdateComplete")
    assert read_arguments() == [[], ["--linger=1s"]]
    assert find_pods(user, f"app={name}")[0]["metadata"]["uid"] == former[0]["metadata"]["uid"]

    write(user, name, pod_failures.make_partition(container, partition=0))
    user.kubectl.wait(f"stack/{name}", "jsonpath={.status.revision}=3")
    user.kubectl.wait(f"stack/{name}", "condition=Ready")
    assert read_arguments() == [["--linger=1s"]] * 2


COURSES: Mapping[str, Callable[[NodeUser, str], None]] = {
    "job": expire_a_finished_job,
    "cron-job": update_a_cron_job,
    "partition": update_a_partition,
}


@pytest.fixture(scope="module")
def outcomes(module_user: NodeUser, request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """The outcomes of all courses, played in parallel."""
    cases = node_cluster.find_selected(request, COURSES, "course")
    return node_cluster.play_together(cases, lambda name, course: course(module_user, name))


@pytest.mark.parametrize("course", COURSES)
def test_nothing_else_changes(outcomes: Mapping[str, Any], course: str) -> None:
    node_cluster.find_outcome(outcomes, course)
