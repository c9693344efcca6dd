"""Workloads in stories: the short form of a Deployment, and simulated controllers and kubelet on the fake cluster.

A Deployment has its desired number of Pods; a Job has one, which keeps running. A deleted Pod stops after its grace
period. On a real API server the real controllers act, with nodes that run nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.server import fake_kinds
from support.server.fake_server import FakeServer

CONTROLLER = "kube-controller-manager"
ENDS_AFTER = "test.hearth.dev/ends-after"
"""The annotation that defines how long a Pod takes to stop on the nodes of the real control plane."""
LONGEST_END = 5
"""Maximum seconds until a Pod stops, in worlds with real time."""
DELAY = 1.0
"""Seconds until the number of Pods matches."""


def manifest(name: str, said: Mapping[str, Any]) -> Object:
    """A Deployment as a template sets it.

    said: `replicas`, `image`; `uses`, a text that its pods get; `mounts`, the name of a claim; `grace`, the seconds
    that they take to end; `gen`, a label of its selector, which cannot change; `strategy`.
    """
    container = {
        "name": "main",
        "image": said.get("image", "example.com/app:1"),
        **({"env": [{"name": "USES", "value": said["uses"]}]} if "uses" in said else {}),
    }
    labels = {"app": name.lower(), **({"gen": said["gen"]} if "gen" in said else {})}
    pod: Object = {"containers": [container]}
    if "mounts" in said:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        pod["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": said["mounts"]}}]
    template: Object = {"metadata": {"labels": labels}, "spec": pod}
    if "grace" in said:
        pod["terminationGracePeriodSeconds"] = said["grace"]
        template["metadata"]["annotations"] = {ENDS_AFTER: f"{min(said['grace'], LONGEST_END)}s"}
    spec: Object = {"selector": {"matchLabels": labels}, "template": template}
    if "replicas" in said:
        spec["replicas"] = said["replicas"]
    if "strategy" in said:
        spec["strategy"] = {"type": said["strategy"]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}


def find_status(deployment: Object) -> Object:
    """The status of its controller once all Pods are as desired, as a merge patch."""
    count = deployment["spec"]["replicas"] or None
    said = {"reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability."}
    done = {"reason": "NewReplicaSetAvailable", "message": "ReplicaSet has successfully progressed."}
    return {
        "observedGeneration": deployment["metadata"]["generation"],
        **dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), count),
        "conditions": [
            {"type": "Available", "status": "True", **said},
            {"type": "Progressing", "status": "True", **done},
        ],
    }


class Controller:
    """Simulates the Deployments, Jobs and Pods that it receives."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count()

    def show(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Handle an added, changed or deleted object."""
        match kind.key:
            case "Deployment.apps" if after is not None:
                observed = (after.get("status") or {}).get("observedGeneration")
                if observed != after["metadata"]["generation"]:
                    self._start(DELAY, lambda: self._play(kind, after))
            case "Job.batch" if before is None and after is not None:
                self._start(DELAY, lambda: self._run(kind, after))
            case "Pod" if after is None and before is not None:
                self._on_end(before)
            case "Pod" if (
                after is not None and "nodeName" in after["spec"] and "deletionTimestamp" in after["metadata"]
            ):
                if before is not None and "deletionTimestamp" not in before["metadata"]:
                    seconds = after["metadata"]["deletionGracePeriodSeconds"]
                    self._start(seconds, lambda: self._server.end_pod(after))
            case _:
                pass

    def _start(self, seconds: float, play: Callable[[], None]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            play()

        task = asyncio.ensure_future(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _find(self, kind: Kind, raw: Object) -> Object | None:
        """The current state of that object, unless it is being deleted."""
        metadata = raw["metadata"]
        live = self._server.find(kind, metadata["namespace"], metadata["name"])
        is_same = live is not None and live["metadata"]["uid"] == metadata["uid"]
        return live if is_same and live is not None and "deletionTimestamp" not in live["metadata"] else None

    def _find_pods(self, owner: Object) -> list[Object]:
        uid = owner["metadata"]["uid"]
        return [pod for pod in self._server.list_all(POD) if any(each["uid"] == uid for each in owners_of(pod))]

    def _play(self, kind: Kind, shown: Object) -> None:
        """Let a Deployment take the next step of its strategy."""
        deployment = self._find(kind, shown)
        if deployment is None or self._server.kinds.find_served(kind) is None:
            return
        wanted, metadata = deployment["spec"]["replicas"], deployment["metadata"]
        pods = self._find_pods(deployment)
        ending = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
        former = [pod for pod in pods if pod not in ending and template_of(pod) != make_key(deployment)]
        current = [pod for pod in pods if pod not in ending and pod not in former]
        for pod in [*former, *current[wanted:]]:
            self._server.delete(POD, metadata["namespace"], pod["metadata"]["name"])
        is_recreated = (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
        if is_recreated and (former or any(template_of(pod) != make_key(deployment) for pod in ending)):
            # It continues after the last of these Pods.
            return
        for _ in range(len(current), wanted):
            self._create_pod(kind, deployment)
        ending = [pod for pod in self._find_pods(deployment) if "deletionTimestamp" in pod["metadata"]]
        status = {**find_status(deployment), "terminatingReplicas": len(ending) or None}
        self._server.patch_status(kind, metadata["namespace"], metadata["name"], status, manager=CONTROLLER)

    def _run(self, kind: Kind, shown: Object) -> None:
        """Let a Job have its Pod."""
        if (job := self._find(kind, shown)) is not None:
            self._create_pod(kind, job)

    def _create_pod(self, kind: Kind, owner: Object) -> None:
        metadata, template = owner["metadata"], owner["spec"]["template"]
        reference = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        stated = template.get("metadata") or {}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{metadata['name']}-{next(self._numbers):x}",
                "namespace": metadata["namespace"],
                "labels": stated.get("labels") or {},
                "annotations": {**(stated.get("annotations") or {}), TEMPLATE: make_key(owner)},
                "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {**template["spec"], "nodeName": "node-0"},
        }
        self._server.create(pod, manager=CONTROLLER)

    def _on_end(self, pod: Object) -> None:
        """Run the controller of a deleted Pod again."""
        for owner in owners_of(pod):
            kind = self._server.kinds.find(owner["apiVersion"], owner["kind"])
            if kind is not None and kind.key == "Deployment.apps":
                named = {"namespace": pod["metadata"]["namespace"], "name": owner["name"], "uid": owner["uid"]}
                self._start(DELAY, lambda kind=kind, named=named: self._play(kind, {"metadata": named}))  # type: ignore[misc]  # mypy does not see the defaults


TEMPLATE = "testing.hearth.dev/template"
"""The template that the Pod's controller used."""
POD = fake_kinds.POD.kind


def make_key(owner: Object) -> str:
    """The template of Pods as a text to compare."""
    return json.dumps(owner["spec"]["template"], sort_keys=True)


def template_of(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][TEMPLATE])


def owners_of(raw: Object) -> list[Object]:
    return list(raw["metadata"].get("ownerReferences") or ())
