"""Random fields are removed from manifests of many kinds, on a real API server: each is removed from the object or
reported.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from hearth.engine.writes import apply_preparation
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.plan.ownership import leaving_fields
from hearth.plan.ownership.apply_obstacles import FieldsPath
from hearth.plan.retry.api_errors import MaybeImmutable
from hearth.plan.state.steps import Apply
from support import soak

OURS = "hearth:test/shop"
OWN_LABELS = {names.LABEL_STACK_UID: "u", names.LABEL_RESOURCE: "a"}
"""Labels that make the operator cache an object."""
STATIC_PORTS = range(30001, 30081)
"""Node ports that the API server does not allocate while others are free."""
ROUNDS = 4
POD = {
    "serviceAccountName": "special",
    "priorityClassName": "system-node-critical",
    "terminationGracePeriodSeconds": 11,
    "dnsPolicy": "Default",
    "dnsConfig": {"searches": ["a.example.com"]},
    "nodeSelector": {"disk": "fast"},
    "hostAliases": [{"ip": "10.1.1.1", "hostnames": ["a"]}],
    "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "automountServiceAccountToken": False,
    "shareProcessNamespace": True,
    "initContainers": [{"name": "init", "image": "init:1", "restartPolicy": "Always"}],
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "imagePullPolicy": "Never",
            "command": ["a"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTPS"}, "periodSeconds": 7},
            "volumeMounts": [{"name": "cache", "mountPath": "/cache", "readOnly": True}],
            "securityContext": {"privileged": False, "readOnlyRootFilesystem": True},
        },
        {"name": "side", "image": "side:1"},
    ],
    "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}}],
}
LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": {**LABELS, "more": "x"}, "annotations": {"note": "x"}}, "spec": POD}
SELECTOR = {"matchLabels": LABELS}
MANIFESTS: tuple[tuple[str, str, Object], ...] = (
    ("v1", "ConfigMap", {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "YQ=="}}),
    ("v1", "Secret", {"type": "Opaque", "data": {"a": "YQ==", "b": "Yg=="}}),
    ("v1", "ServiceAccount", {"automountServiceAccountToken": False, "imagePullSecrets": [{"name": "a"}, {"name": "b"}]}),
    (
        "v1",
        "Service",
        {
            "spec": {
                "type": "LoadBalancer",
                "selector": {"a": "b"},
                "externalTrafficPolicy": "Local",
                "internalTrafficPolicy": "Local",
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 77}},
                "publishNotReadyAddresses": True,
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
                "ipFamilyPolicy": "PreferDualStack",
                "ports": [{"name": "a", "port": 80, "targetPort": 8080}, {"name": "b", "port": 81, "appProtocol": "http"}],
            }
        },
    ),
    (
        "apps/v1",
        "Deployment",
        {
            "spec": {
                "replicas": 0,
                "selector": SELECTOR,
                "template": TEMPLATE,
                "minReadySeconds": 3,
                "revisionHistoryLimit": 4,
                "progressDeadlineSeconds": 99,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            }
        },
    ),
    (
        "apps/v1",
        "DaemonSet",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "updateStrategy": {"type": "OnDelete"}, "minReadySeconds": 1}},
    ),
    (
        "apps/v1",
        "StatefulSet",
        {
            "spec": {
                "replicas": 0,
                "selector": SELECTOR,
                "template": TEMPLATE,
                "updateStrategy": {"type": "OnDelete"},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
            }
        },
    ),
    (
        "batch/v1",
        "CronJob",
        {
            "spec": {
                "schedule": "0 0 1 1 *",
                "suspend": True,
                "timeZone": "Etc/UTC",
                "concurrencyPolicy": "Forbid",
                "startingDeadlineSeconds": 9,
                "successfulJobsHistoryLimit": 1,
                "jobTemplate": {
                    "spec": {
                        "backoffLimit": 1,
                        "completions": 2,
                        "template": {"spec": {**POD, "restartPolicy": "Never", "initContainers": []}},
                    }
                },
            }
        },
    ),
    (
        "networking.k8s.io/v1",
        "Ingress",
        {
            "spec": {
                "ingressClassName": "a",
                "tls": [{"hosts": ["a"]}],
                "defaultBackend": {"service": {"name": "a", "port": {"number": 80}}},
                "rules": [{"host": "a.example.com"}],
            }
        },
    ),
    ("networking.k8s.io/v1", "NetworkPolicy", {"spec": {"podSelector": SELECTOR, "policyTypes": ["Egress"], "ingress": [{}]}}),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "selector": SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
                "minReplicas": 2,
                "maxReplicas": 4,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
            }
        },
    ),
    ("rbac.authorization.k8s.io/v1", "Role", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    ("v1", "ResourceQuota", {"spec": {"hard": {"pods": "9", "limits.cpu": "90"}, "scopes": ["NotTerminating"]}}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]}}),
)  # fmt: skip


@pytest.mark.parametrize(("version", "name", "content"), MANIFESTS, ids=[name for _, name, _ in MANIFESTS])
async def test_random_fields_leave(
    cluster: KubeWorkloadCluster, namespace: str, version: str, name: str, content: Object
) -> None:
    """Different fields in every run, unless `HEARTH_SOAK_SEED` is set."""
    chance = random.Random(f"{soak.seed()}/{name}")
    for number in range(ROUNDS):
        metadata = {
            "name": f"a-{number}",
            "namespace": namespace,
            "labels": {**OWN_LABELS, "a": "1", "b": "2"},
            "annotations": {"n": "1"},
        }
        manifest = {"apiVersion": version, "kind": name, "metadata": metadata, **copy.deepcopy(content)}
        await check_removal(cluster, manifest, chance)


async def check_removal(cluster: KubeWorkloadCluster, manifest: Object, chance: random.Random) -> None:
    """Remove a few fields; each is deleted, equal to a new object's, or reported. Reported fields must really
    remain.
    """
    kind = cluster.kinds.find(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    child = await cluster.apply(manifest, kind=kind, manager=OURS, force=True)
    changed = copy.deepcopy(manifest)
    for place, key in chance.sample(list(find_removable(changed)), chance.randint(1, 4)):
        remove(place, key)
    step = Apply(
        resource="a", kind=kind, ref=child.ref, manifest=changed, hash="h", uid=child.uid, owned_before=child.ownership
    )
    assert child.ownership is not None
    leaving = leaving_fields.find_leaving(changed, child.ownership)
    prepared = await remove_leaving_fields(step, cluster=cluster)
    if isinstance(prepared, MaybeImmutable):
        pytest.fail(f"reported {prepared.fields} of {manifest['kind']}, which can be removed")
    try:
        created = await cluster.create_dry_run(changed, kind=kind)
        await cluster.apply(prepared.sent_manifest, kind=kind, manager=OURS, force=True)
    except errors.ApiStatusError as error:
        # The field is required or immutable: nothing changed, and the Stack reports it.
        assert error.code in (400, 422, 500), error  # noqa: PT017 -- any other answer is a failure of the test itself
        return
    live = await cluster.get(child.ref, kind=kind)
    assert list(find_left(leaving, live, created)) == []


async def remove_leaving_fields(step: Apply, *, cluster: KubeWorkloadCluster) -> Apply | MaybeImmutable:
    """Try again, as the executor of steps does, while a controller writes the object's status between read and write."""
    while True:
        try:
            return await apply_preparation.remove_leaving_fields(step, cluster=cluster, manager=OURS)
        except errors.ApiStatusError as error:
            if not error.is_conflict:
                raise


def find_left(leaving: tuple[FieldsPath, ...], live: Object, created: Object) -> Iterator[str]:
    """Fields that were removed from the manifest but remain, with a value that a new object does not have."""
    for path in leaving:
        value = leaving_fields.read(live, path)
        if value is not leaving_fields.MISSING and value != leaving_fields.read(created, path):
            yield f"{leaving_fields.describe_path(path)}: {value}"


def find_removable(manifest: Object) -> Iterator[tuple[Any, Any]]:
    """All removable keys and items of a manifest, with their parents."""
    metadata = manifest["metadata"]
    yield from ((metadata["labels"], key) for key in metadata["labels"] if key not in OWN_LABELS)
    yield from ((metadata["annotations"], key) for key in metadata["annotations"])
    parts = [value for key, value in manifest.items() if key != "metadata" and isinstance(value, dict | list)]
    while parts:
        part = parts.pop()
        for key in list(part if isinstance(part, dict) else range(len(part))):
            yield part, key
            if isinstance(part[key], dict | list):
                parts.append(part[key])


def remove(place: Any, key: Any) -> None:
    """Remove a key or item, if it is still there."""
    if isinstance(place, dict):
        place.pop(key, None)
    elif key < len(place):
        del place[key]


async def test_a_service_of_another_type(cluster: KubeWorkloadCluster, namespace: str) -> None:
    kind = cluster.kinds.find("v1", "Service")
    assert kind is not None
    chance = random.Random()
    for spec in ({"type": "LoadBalancer"}, {"type": "NodePort"}, {}):
        first, second = chance.sample(STATIC_PORTS, 2)
        balanced = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": first}
        metadata = {"name": "a", "namespace": namespace, "labels": OWN_LABELS}
        manifest = {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
        old = {**manifest, "spec": {**balanced, "ports": [{"port": 80, "nodePort": second}]}}
        changed = {**manifest, "spec": {**spec, "ports": [{"port": 80}]}}
        child = await cluster.apply(old, kind=kind, manager=OURS, force=True)
        step = Apply(
            resource="a",
            kind=kind,
            ref=child.ref,
            manifest=changed,
            hash="h",
            uid=child.uid,
            owned_before=child.ownership,
        )
        prepared = await remove_leaving_fields(step, cluster=cluster)
        assert isinstance(prepared, Apply)
        assert prepared.manifest == changed
        written = await cluster.apply(changed, kind=kind, manager=OURS, force=True)
        assert await cluster.delete(written)
