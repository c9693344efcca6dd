"""Manifests with members: groups, and Stacks within a Stack, here or in another cluster.

Each passes one text down and one value up.
"""

from __future__ import annotations

from hearth.model import names
from hearth.model.child import Object
from support.stories import probe_controller

API_VERSION = f"{names.GROUP}/{names.VERSION}"
CLUSTER = "east"
"""The other cluster, and the Secret with its kubeconfig."""


def make_group(value: str, *, size: int, batch: int) -> Object:
    """A group of probes. batch: how many change at once; 0: all."""
    spec: Object = {
        "replicas": size,
        "parameters": {"v": value},
        "template": {"manifest": probe_controller.manifest({"value": "${params.v}", "other": "${key}"})},
    }
    if batch:
        spec["rollingUpdate"] = {"maxBatchSize": batch}
    return {"apiVersion": API_VERSION, "kind": names.GROUP_KIND, "spec": spec}


def make_stack(value: str, *, ready_after: int) -> Object:
    """A Stack of a probe and a ConfigMap made from it."""
    inner = probe_controller.manifest({"value": "${params.v}", "readyAfter": ready_after})
    outer = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "${inner.status.value}"}}
    template = {
        "parameters": {"v": {"type": "string"}},
        "resources": {"inner": {"manifest": inner}, "outer": {"manifest": outer}},
        "outputs": {"v": {"value": "${outer.data.v}"}},
    }
    spec = {"parameters": {"v": value}, "template": template}
    return {"apiVersion": API_VERSION, "kind": names.STACK, "spec": spec}
