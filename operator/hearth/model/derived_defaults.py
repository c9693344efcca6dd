"""Sets defaults that the API server derives from other fields at creation and does not update when those fields change.

An apply with these defaults has the same result as a new object. For example, a NetworkPolicy enforces the first egress
rule that is added to it, and an image whose tag becomes `latest` is pulled. Fields of the manifest take precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hearth.model import kinds
from hearth.model.child import Object

POD_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("Deployment.apps", "DaemonSet.apps", "StatefulSet.apps", "ReplicaSet.apps", "ReplicationController"),
        ("spec", "template", "spec"),
    ),
    "CronJob.batch": ("spec", "jobTemplate", "spec", "template", "spec"),
    "PodTemplate": ("template", "spec"),
}
"""The path of the Pod spec by `Kind.group`, for kinds whose Pods can change."""
CONTAINERS: Final = ("containers", "initContainers")
LATEST: Final = "latest"
NETWORK_POLICY: Final = "NetworkPolicy.networking.k8s.io"


def add_defaults(manifest: Object) -> Object:
    """Return the manifest with these defaults; the same object without defaults."""
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    key = kinds.make_key(group, str(manifest.get("kind", "")))
    path = ("spec",) if key == NETWORK_POLICY else POD_SPECS.get(key)
    if path is None:
        return manifest
    changed: Object = _replace(manifest, path, _add_policy_types if key == NETWORK_POLICY else _add_pull_policies)
    return changed


def _replace(value: Any, path: tuple[str, ...], change: Callable[[Object], Object]) -> Any:
    """Return a copy of the map with the changed map at `path`; the same map if `path` is missing or nothing changes."""
    if not isinstance(value, dict):
        return value
    if not path:
        return change(value)
    inner = value.get(path[0])
    changed = _replace(inner, path[1:], change)
    return value if changed is inner else {**value, path[0]: changed}


def _add_policy_types(spec: Object) -> Object:
    if spec.get("policyTypes"):
        return spec
    return {**spec, "policyTypes": ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]}


def _add_pull_policies(spec: Object) -> Object:
    changed = dict(spec)
    for part in CONTAINERS:
        containers = spec.get(part)
        if isinstance(containers, list) and any(map(is_always_pulled, containers)):
            changed[part] = [
                {**each, "imagePullPolicy": "Always"} if is_always_pulled(each) else each for each in containers
            ]
    return changed if changed != spec else spec


def is_always_pulled(container: Any) -> bool:
    """Return whether the API server derives `imagePullPolicy: Always` for a container that sets none."""
    if not isinstance(container, dict) or container.get("imagePullPolicy"):
        return False
    image = container.get("image")
    if not isinstance(image, str) or not image:
        return False
    name, _, digest = image.rpartition("/")[2].partition("@")
    tag = name.partition(":")[2]
    return tag == LATEST or not (tag or digest)
