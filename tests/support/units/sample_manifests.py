"""One rich manifest for each of many kinds, covering all ways the API server merges fields. They run no containers."""

from __future__ import annotations

from collections.abc import Mapping

from hearth.model.child import Object
from hearth.model.kinds import Kind

RBAC = "rbac.authorization.k8s.io"
LABELS = {"app": "shape", "example.com/tier": "front"}
POD = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 5,
    "nodeSelector": {"example.com/never": "here"},
    "tolerations": [{"key": "example.com/a", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "conf", "optional": True}}],
    "containers": [
        {
            "name": "main",
            "image": "example.com/main:1",
            "command": ["/bin/main", "-v"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            ],
            "ports": [
                {"name": "http", "containerPort": 80},
                {"name": "quic", "containerPort": 80, "protocol": "UDP"},
            ],
            "resources": {"requests": {"cpu": "1000m", "memory": "64Mi"}},
            "volumeMounts": [{"name": "tmp", "mountPath": "/scratch"}, {"name": "conf", "mountPath": "/conf"}],
        },
        {"name": "side", "image": "example.com/side:1"},
    ],
}
STANDING_POD = {key: value for key, value in POD.items() if key != "restartPolicy"}
SMALL_POD = {"containers": [{"name": "main", "image": "example.com/main:1", "ports": [{"containerPort": 80}]}]}

CUSTOM_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "named": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}},
                },
                "members": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "rules": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "port"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "port": {"type": "integer", "default": 80},
                            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    },
                },
            },
        },
    },
}
CUSTOM = Kind(group="shapes.hearth.dev", version="v1", name="Shape", plural="shapes", namespaced=True)
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shapes.shapes.hearth.dev"},
    "spec": {
        "group": CUSTOM.group,
        "scope": "Namespaced",
        "names": {"kind": CUSTOM.name, "plural": CUSTOM.plural, "listKind": "ShapeList", "singular": "shape"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": CUSTOM_SCHEMA}}],
    },
}


def kind(group: str, version: str, name: str, *, namespaced: bool = True) -> Kind:
    """A built-in kind, whose plural follows the rule."""
    plural = name.lower() + ("es" if name.endswith("s") else "s")
    if name.endswith("y"):
        plural = name.lower()[:-1] + "ies"
    return Kind(group=group, version=version, name=name, plural=plural, namespaced=namespaced)


def shape(of: Kind, **body: object) -> tuple[Kind, Object]:
    """A row: the kind, and a manifest with every form of field."""
    metadata = {"name": "shape", "labels": LABELS, "annotations": {"example.com/note": "x"}}
    return of, {"apiVersion": of.api_version, "kind": of.name, "metadata": metadata, **body}


def template(pod: Mapping[str, object]) -> dict[str, object]:
    return {"metadata": {"labels": LABELS}, "spec": pod}


RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
SUBJECTS = [{"kind": "ServiceAccount", "name": "a", "namespace": "default"}]

SHAPES: tuple[tuple[Kind, Object], ...] = (
    shape(kind("", "v1", "ConfigMap"), data={"a": "1", "b.c": "2"}, binaryData={"x": "AAE="}),
    shape(kind("", "v1", "Secret"), type="Opaque", data={"password": "aHVudGVyMg=="}),
    shape(kind("", "v1", "ServiceAccount"), imagePullSecrets=[{"name": "pull"}], automountServiceAccountToken=False),
    shape(
        kind("", "v1", "Service"),
        spec={
            "selector": {"app": "shape"},
            "ports": [
                {"name": "http", "port": 80, "targetPort": "http"},
                {"name": "dns", "port": 80, "protocol": "UDP"},
            ],
            "sessionAffinity": "None",
        },
    ),
    shape(
        kind("apps", "v1", "Deployment"),
        spec={
            "paused": True,
            "replicas": 0,
            "minReadySeconds": 3,
            "selector": {"matchLabels": LABELS},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "50%"}},
            "template": template(STANDING_POD),
        },
    ),
    shape(
        kind("apps", "v1", "StatefulSet"),
        spec={
            "replicas": 0,
            "serviceName": "shape",
            "selector": {"matchLabels": LABELS},
            "template": template(SMALL_POD),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
        },
    ),
    shape(
        kind("batch", "v1", "Job"),
        spec={
            "suspend": True,
            "backoffLimit": 2,
            "parallelism": 1,
            "template": template({**SMALL_POD, "restartPolicy": "Never"}),
        },
    ),
    shape(
        kind("batch", "v1", "CronJob"),
        spec={
            "schedule": "0 0 1 1 *",
            "suspend": True,
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"backoffLimit": 1, "template": template(POD)}},
        },
    ),
    shape(kind(RBAC, "v1", "Role"), rules=RULES),
    shape(
        kind(RBAC, "v1", "RoleBinding"),
        roleRef={"apiGroup": RBAC, "kind": "Role", "name": "shape"},
        subjects=SUBJECTS,
    ),
    shape(kind(RBAC, "v1", "ClusterRole", namespaced=False), rules=RULES),
    shape(
        kind("networking.k8s.io", "v1", "Ingress"),
        spec={
            "ingressClassName": "none",
            "rules": [
                {
                    "host": "a.example.com",
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "shape", "port": {"number": 80}}},
                            }
                        ]
                    },
                }
            ],
            "tls": [{"hosts": ["a.example.com"], "secretName": "tls"}],
        },
    ),
    shape(
        kind("networking.k8s.io", "v1", "NetworkPolicy"),
        spec={
            "podSelector": {"matchLabels": {"app": "shape"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}],
        },
    ),
    shape(
        kind("autoscaling", "v2", "HorizontalPodAutoscaler"),
        spec={
            "minReplicas": 1,
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nothing"},
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    ),
    shape(
        kind("policy", "v1", "PodDisruptionBudget"),
        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "shape"}}},
    ),
    shape(
        CUSTOM,
        spec={
            "size": 3,
            "free": {"a": 1, "b": {"c": "x", "d": {"e": [1, {"f": 2}]}}, "only": {"one": "x"}},
            "named": {"x": {"a": "1"}, "y": {"a": "2"}},
            "members": ["one", "two"],
            "rules": [{"name": "r", "free": {"a": 1}}, {"name": "r", "port": 81, "free": {"a": 1, "b": 2}}],
        },
    ),
)


def scoped_name(manifest: Object, namespace: str) -> str:
    """A name that no other test takes, for an object of cluster scope."""
    return f"{manifest['metadata']['name']}-{namespace}"
