"""A Stack with one object of each kind that Stacks may have by default, and Stacks that are rejected for each reason."""

from __future__ import annotations

from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]

POD: Object = {
    "metadata": {"labels": {"app": "kinds"}},
    "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]},
}
JOB: Object = {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}
SELECTED: Object = {"selector": {"matchLabels": {"app": "kinds"}}, "template": POD}
INNER: Object = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TARGET: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kinds"}
RULE: Object = {"host": "shop.example", "http": {"paths": [{"path": "/", "pathType": "Prefix"}]}}
RULE["http"]["paths"][0]["backend"] = {"service": {"name": "shop", "port": {"number": 80}}}

MANIFESTS: tuple[tuple[str, str, Object], ...] = (
    ("v1", "ConfigMap", {}),
    ("v1", "Endpoints", {}),
    ("v1", "LimitRange", {"spec": {"limits": []}}),
    ("v1", "PersistentVolumeClaim", {"spec": CLAIM}),
    # Omit the labels: the ReplicaSet would adopt a Pod that it selects, and delete it as a surplus.
    ("v1", "Pod", {"spec": POD["spec"]}),
    ("v1", "ReplicationController", {"spec": {"replicas": 0, "selector": {"app": "kinds"}, "template": POD}}),
    ("v1", "ResourceQuota", {"spec": {"hard": {"count/ingresses.networking.k8s.io": "10"}}}),
    ("v1", "Secret", {}),
    ("v1", "ServiceAccount", {}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80}]}}),
    ("apps/v1", "DaemonSet", {"spec": SELECTED}),
    ("apps/v1", "Deployment", {"spec": SELECTED}),
    ("apps/v1", "ReplicaSet", {"spec": {"replicas": 0, **SELECTED}}),
    ("apps/v1", "StatefulSet", {"spec": {"serviceName": "", **SELECTED}}),
    ("batch/v1", "CronJob", {"spec": {"schedule": "@yearly", "jobTemplate": {"spec": JOB}}}),
    ("batch/v1", "Job", {"spec": JOB}),
    ("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": {"maxReplicas": 2, "scaleTargetRef": TARGET}}),
    ("networking.k8s.io/v1", "Ingress", {"spec": {"rules": [RULE]}}),
    ("networking.k8s.io/v1", "NetworkPolicy", {"spec": {"podSelector": {"matchLabels": {"app": "none"}}}}),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"selector": {"matchLabels": {"app": "kinds"}}}}),
    ("hearth.dev/v1alpha1", "Stack", {"spec": {"template": {"resources": {"inner": INNER}}}}),
    ("hearth.dev/v1alpha1", "ResourceGroup", {"spec": {"replicas": 1, "template": INNER}}),
)


def make_stack(name: str, resources: Object, **spec: Any) -> Object:
    """A Stack of these resources."""
    version = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": {"name": name}}
    return {**version, "spec": {"template": {"resources": resources}, **spec}}


def make_of_every_kind() -> Object:
    """The Stack is ready as soon as all objects are applied, because some of their controllers are not simulated."""
    return make_stack(
        "kinds",
        {
            f"one{kind}": {
                "readyWhen": ["true"],
                "manifest": {"apiVersion": version, "kind": kind, **content},
            }
            for version, kind, content in MANIFESTS
        },
    )
