"""Checks the assumptions of all other tests about the control plane: it is Kubernetes, and its pods behave as labeled."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import binaries
import kubernetes.client
import kubernetes.watch
import places
import pytest

PATIENCE_SECONDS = 60
"""Ten times the longest time seen on a busy machine."""


def pod(**labels_and_annotations: dict[str, str]) -> dict[str, Any]:
    container = {"name": "main", "image": "example.org/none"}
    return {"metadata": {"generateName": "pod-", **labels_and_annotations}, "spec": {"containers": [container]}}


def wait_pod(api_client: Any, namespace: str, name: str, *, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first status of the Pod where `until` is true."""
    core: Any = kubernetes.client.CoreV1Api(api_client)
    watch = kubernetes.watch.Watch()
    selector = {"field_selector": f"metadata.name={name}", "timeout_seconds": PATIENCE_SECONDS}
    for event in watch.stream(core.list_namespaced_pod, namespace, **selector):
        status: dict[str, Any] = event["raw_object"].get("status", {})
        if until(status):
            watch.stop()
            return status
    pytest.fail(f"pod/{name} did not get there within {PATIENCE_SECONDS} s")


def condition(status: dict[str, Any], kind: str) -> str | None:
    return next((entry["status"] for entry in status.get("conditions", []) if entry["type"] == kind), None)


def create(api_client: Any, namespace: str, manifest: dict[str, Any]) -> str:
    core: Any = kubernetes.client.CoreV1Api(api_client)
    name: str = core.create_namespaced_pod(namespace, manifest).metadata.name
    return name


def test_the_server_is_the_version_that_is_pinned(api_client: Any) -> None:
    version: Any = kubernetes.client.VersionApi(api_client)
    assert version.get_code().git_version == binaries.pinned_kubernetes()


def test_an_ordinary_pod_becomes_ready(api_client: Any, namespace: str) -> None:
    name = create(api_client, namespace, pod())
    status = wait_pod(api_client, namespace, name, until=lambda status: condition(status, "Ready") == "True")
    assert status["phase"] == "Running"
    assert status["podIP"]


def test_the_pod_of_a_job_completes(api_client: Any, namespace: str) -> None:
    batch: Any = kubernetes.client.BatchV1Api(api_client)
    template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
    batch.create_namespaced_job(namespace, {"metadata": {"name": "once"}, "spec": {"template": template}})
    watch = kubernetes.watch.Watch()
    for event in watch.stream(batch.list_namespaced_job, namespace, timeout_seconds=PATIENCE_SECONDS):
        if event["raw_object"]["status"].get("succeeded") == 1:
            return
    pytest.fail(f"job/once did not complete within {PATIENCE_SECONDS} s")


def test_a_pod_labelled_crash_waits_in_crash_loop(api_client: Any, namespace: str) -> None:
    name = create(api_client, namespace, pod(labels={"test.hearth.dev/pod": "crash"}))
    status = wait_pod(api_client, namespace, name, until=lambda status: status.get("phase") == "Running")
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert condition(status, "Ready") == "False"


def test_a_pod_labelled_never_ready_runs_and_is_not_ready(api_client: Any, namespace: str) -> None:
    name = create(api_client, namespace, pod(labels={"test.hearth.dev/pod": "never-ready"}))
    status = wait_pod(api_client, namespace, name, until=lambda status: status.get("phase") == "Running")
    assert condition(status, "Ready") == "False"


def test_a_pod_labelled_slow_ready_takes_the_time_that_it_names(api_client: Any, namespace: str) -> None:
    metadata = {"labels": {"test.hearth.dev/pod": "slow-ready"}, "annotations": {"test.hearth.dev/ready-after": "3s"}}
    core: Any = kubernetes.client.CoreV1Api(api_client)
    name = create(api_client, namespace, pod(**metadata))
    wait_pod(api_client, namespace, name, until=lambda status: condition(status, "Ready") == "True")
    read = core.read_namespaced_pod(name, namespace)
    became = next(entry.last_transition_time for entry in read.status.conditions if entry.type == "Ready")
    # Both times are truncated to whole seconds.
    assert (became - read.metadata.creation_timestamp).total_seconds() >= 2


def test_a_deleted_pod_goes(api_client: Any, namespace: str) -> None:
    core: Any = kubernetes.client.CoreV1Api(api_client)
    name = create(api_client, namespace, pod())
    wait_pod(api_client, namespace, name, until=lambda status: condition(status, "Ready") == "True")
    before = core.list_namespaced_pod(namespace).metadata.resource_version
    core.delete_namespaced_pod(name, namespace)
    watch = kubernetes.watch.Watch()
    since = {"resource_version": before, "timeout_seconds": PATIENCE_SECONDS}
    for event in watch.stream(core.list_namespaced_pod, namespace, **since):
        if event["type"] == "DELETED":
            return
    pytest.fail(f"pod/{name} did not go within {PATIENCE_SECONDS} s")


def test_everything_listens_on_the_loopback_interface_only(kubeconfig: Path) -> None:
    program = places.HERE / "controlplane.py"
    shown = subprocess.run(
        [sys.executable, program, "kubectl", "config", "view", "--output=json", f"--kubeconfig={kubeconfig}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout)["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")
