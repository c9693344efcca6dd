"""Workloads in stories: the short form of a Deployment, and the controller that plays Deployments on the fake cluster.

On a real API server their own controller does, with nodes on which nothing runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.server.fake_server import FakeServer

CONTROLLER = "kube-controller-manager"
DELAY = 1.0
"""Seconds until as many pods are there, or gone, as are wanted."""


def manifest(name: str, said: Mapping[str, Any]) -> Object:
    """A Deployment as a template states it. said: `replicas`, `image`, and `uses`, a text that its pods get."""
    container = {
        "name": "main",
        "image": said.get("image", "example.com/app:1"),
        **({"env": [{"name": "USES", "value": said["uses"]}]} if "uses" in said else {}),
    }
    labels = {"app": name.lower()}
    spec: Object = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    if "replicas" in said:
        spec["replicas"] = said["replicas"]
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}


def find_status(deployment: Object) -> Object:
    """What its controller says once all its pods are as they are wanted; as a merge patch."""
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
    """Plays the Deployments that it is shown."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()

    def show(self, kind: Kind, deployment: Object) -> None:
        """A Deployment came or changed."""
        observed = (deployment.get("status") or {}).get("observedGeneration")
        if observed != deployment["metadata"]["generation"]:
            task = asyncio.ensure_future(self._play(kind, deployment))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _play(self, kind: Kind, deployment: Object) -> None:
        await asyncio.sleep(DELAY)
        metadata = deployment["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        try:
            live = self._server.get(kind, namespace, name)
        except errors.ApiStatusError:
            return
        if (live["metadata"]["uid"], live["metadata"]["generation"]) == (metadata["uid"], metadata["generation"]):
            self._server.patch_status(kind, namespace, name, find_status(live), manager=CONTROLLER)
