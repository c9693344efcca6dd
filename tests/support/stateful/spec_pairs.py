"""Definitions that differ in small things: order, empty values, types, white space, and defaults of the API server.

All choices are valid, so each definition completes.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from hearth.model.child import Object

ABSENT: Final = object()
Fields: TypeAlias = Mapping[str, list[Any]]
"""The values of each field by its path."""
Choices: TypeAlias = dict[str, dict[str, int]]
"""By resource and field: the position of the value."""
GROUP: Final = "GROUP"
"""Stands for the API group of the custom kind."""
CUSTOM_KIND: Final = "Gadget"

MAIN: Final = {"name": "main", "image": "nginx"}
SIDE: Final = {"name": "side", "image": "busybox"}
EMPTY: Final[list[Any]] = [ABSENT, {}, None]
NONE: Final[list[Any]] = [ABSENT, [], None]
LABELS: Final = {"app": "web"}
PODS: Final[Object] = {"metadata": {"labels": LABELS}, "spec": {"containers": [MAIN]}}
WORKLOAD: Final[Object] = {"selector": {"matchLabels": LABELS}, "template": PODS}


def both(one: Any, other: Any) -> list[Any]:
    """The two orders of a list."""
    return [[one, other], [other, one]]


CONTAINERS: Final[list[dict[str, Any]]] = [
    {},
    {"imagePullPolicy": "Always"},
    {"ports": [{"containerPort": 80}]},
    {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
    *({"env": each} for each in both({"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"})),
    {"env": [{"name": "A", "value": " 1"}, {"name": "B", "value": "$(A)"}]},
    {"env": [{"name": "A", "value": ""}, {"name": "B"}]},
    {"env": []},
    {"env": None, "resources": {}, "securityContext": {}},
    {"resources": {"limits": {"cpu": 1}}},
    {"resources": {"limits": {"cpu": "1000m"}}},
    *({"command": each} for each in both("a", "b")),
    {"command": [], "args": ["a "]},
    {"livenessProbe": {"httpGet": {"port": 80}}},
    {"livenessProbe": {"httpGet": {"port": "web"}}},
    {"livenessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 10}},
    {"livenessProbe": {"tcpSocket": {"port": 80}}},
    *({"envFrom": each} for each in both({"configMapRef": {"name": "x"}}, {"configMapRef": {"name": "y"}})),
]
ITEMS: Final = both({"key": "a", "path": "a"}, {"key": "b", "path": "b"})
POD_FIELDS: Final[Fields] = {
    "spec.containers": [*([{**MAIN, **each}] for each in CONTAINERS), *both(MAIN, SIDE)],
    "spec.initContainers": [*NONE, *both({"name": "i", "image": "x"}, {"name": "j", "image": "y"})],
    "spec.volumes": [
        *NONE,
        [{"name": "v"}],
        [{"name": "v", "emptyDir": {}}],
        [{"name": "v", "emptyDir": None}],
        *([{"name": "v", "configMap": {"name": "x", "items": each}}] for each in ITEMS),
        [{"name": "v", "configMap": {"name": "x", "defaultMode": 420}}],
    ],
    "spec.securityContext": [*EMPTY, {"supplementalGroups": [1, 2]}, {"supplementalGroups": [2, 1]}],
    "spec.nodeSelector": [*EMPTY, {"a": ""}],
    "spec.tolerations": [*NONE, *both({"key": "a"}, {"key": "b"})],
    "spec.imagePullSecrets": [*NONE, *both({"name": "a"}, {"name": "b"}), [{}]],
    "spec.affinity": [*EMPTY, {"nodeAffinity": {}}],
    "spec.hostAliases": [*NONE, *([{"ip": "1.1.1.1", "hostnames": each}] for each in both("a", "b"))],
    "spec.terminationGracePeriodSeconds": [ABSENT, 30, None, 31],
    "spec.dnsPolicy": [ABSENT, "ClusterFirst", "Default"],
    "spec.serviceAccountName": [ABSENT, "", "a", None],
    "metadata.annotations": [*EMPTY, {"a": ""}, {"a": None}],
}
METADATA: Final[Fields] = {
    "metadata.annotations": [*EMPTY, {"x": ""}, {"x": "1"}, {"x": " 1"}],
    "metadata.labels": [ABSENT, {}, {"x": ""}, {"y": "1"}],
}


def with_pods(fields: Fields, prefix: str = "spec.template") -> Fields:
    return {**fields, **{f"{prefix}.{path}": values for path, values in POD_FIELDS.items()}}


def route(path: str) -> Object:
    return {
        "path": path,
        "pathType": "Prefix",
        "backend": {"service": {"name": "a", "port": {"number": 80}}},
    }


def host(name: str, *paths: str) -> Object:
    return {"host": name, "http": {"paths": [route(each) for each in paths]}}


JOB: Final[Object] = {"template": {"spec": {**PODS["spec"], "restartPolicy": "Never"}}}
BACKEND: Final = {"service": {"name": "a", "port": {"number": 80}}}
FREE_VALUES: Final[list[Any]] = [{}, [], None, 1, "1", 1.5, True, "true", "", " ", [None], [[], {}], [{}, []]]
RESOURCES: Final[dict[str, tuple[Object, Fields]]] = {
    "web": (
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": WORKLOAD},
        with_pods(
            {
                "spec.replicas": [ABSENT, 1, 0],
                "spec.strategy": [
                    *EMPTY,
                    {"type": "Recreate"},
                    {"rollingUpdate": {}},
                    {"rollingUpdate": {"maxSurge": 1}},
                    {"rollingUpdate": {"maxSurge": "25%"}},
                ],
                "spec.paused": [ABSENT, False, None],
                "spec.progressDeadlineSeconds": [ABSENT, 600, 601],
            }
        ),
    ),
    "database": (
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {**WORKLOAD, "serviceName": "x"}},
        with_pods(
            {
                "spec.updateStrategy": [*EMPTY, {"type": "OnDelete"}, {"rollingUpdate": {"partition": 0}}],
                "spec.ordinals": [*EMPTY, {"start": 0}],
                "spec.podManagementPolicy": [ABSENT, "OrderedReady"],
            }
        ),
    ),
    "cleaner": (
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "spec": {"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": JOB}},
        },
        with_pods(
            {
                "spec.schedule": ["* * * * *", " * * * * *", "*  * * * *"],
                "spec.successfulJobsHistoryLimit": [ABSENT, 3, None, 0],
                "spec.jobTemplate.metadata": [*EMPTY, {"labels": {}}, {"labels": {"a": "b"}}],
            },
            "spec.jobTemplate.spec.template",
        ),
    ),
    "address": (
        {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}},
        {
            "spec.ports": [
                [{"port": 80}],
                [{"port": 80, "protocol": "TCP"}],
                [{"port": 80, "targetPort": 80}],
                [{"port": 80, "targetPort": "80"}],
                *both({"name": "a", "port": 80}, {"name": "b", "port": 81}),
                *both({"name": "a", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}),
            ],
            "spec.type": [ABSENT, "ClusterIP", "NodePort"],
            "spec.selector": [*EMPTY, {"app": ""}, {"app": "a"}],
            "spec.externalIPs": [*NONE, *both("1.1.1.1", "2.2.2.2")],
            "spec.sessionAffinity": [ABSENT, "None", "ClientIP"],
        },
    ),
    "entry": (
        {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {"defaultBackend": BACKEND}},
        {
            "spec.rules": [
                *NONE,
                [{}],
                [host("a", "/", "/b")],
                [host("a", "/b", "/")],
                *both(host("a", "/"), host("b", "/")),
            ],
            "spec.tls": [*NONE, [{}], *([{"hosts": each, "secretName": "x"}] for each in both("a", "b"))],
            "spec.ingressClassName": [ABSENT, "a", None],
        },
    ),
    "settings": (
        {"apiVersion": "v1", "kind": "ConfigMap"},
        {
            "data": [
                *EMPTY,
                *(
                    {"a": text}
                    for text in ("", "1", "1\n", " 1", "true", "{}", "l1\nl2", "l1\r\nl2", "\u00e9", "e\u0301")
                ),
                {"a": "1", "b": "2"},
                {"b": "2", "a": "1"},
                {"a": None},
            ],
            "binaryData": [*EMPTY, {"x": "YQ=="}, {"x": ""}],
            "immutable": [ABSENT, False, None],
        },
    ),
    "access": (
        {"apiVersion": "v1", "kind": "Secret"},
        {
            "data": [*EMPTY, {"a": "YQ=="}, {"a": ""}, {"a": "YQ==\n"}, {"b": "YQ=="}],
            "stringData": [*EMPTY, {"a": "a"}, {"a": "a "}, {"c": "c"}],
        },
    ),
    "firewall": (
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"podSelector": {}}},
        {
            "spec.ingress": [
                *NONE,
                [{}],
                [{"from": []}],
                *([{"from": each}] for each in both({"podSelector": {}}, {"namespaceSelector": {}})),
                [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}],
                [{"ports": [{}]}],
                *([{"ports": each}] for each in both({"port": 80}, {"port": 81})),
                [{"ports": [{"port": "web", "protocol": "TCP"}]}],
            ],
            "spec.egress": [*NONE, [{}]],
            "spec.policyTypes": [*NONE, ["Ingress"], *both("Ingress", "Egress")],
            "spec.podSelector": [{}, {"matchLabels": {}}, {"matchLabels": {"a": "b"}}, {"matchExpressions": []}],
        },
    ),
    "role": (
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"},
        {
            "rules": [
                *NONE,
                *([{"apiGroups": [""], "resources": ["pods"], "verbs": each}] for each in both("get", "list")),
            ]
        },
    ),
    "gadget": (
        {"apiVersion": f"{GROUP}/v1", "kind": CUSTOM_KIND, "spec": {}},
        {
            "spec.free": [
                *EMPTY,
                *([], [{}], [1, 2], [2, 1], *both({"name": "a"}, {"name": "b"})),
                *({"a": value} for value in FREE_VALUES),
            ],
            "spec.port": [ABSENT, 1, "1"],
            "spec.nullable": [ABSENT, None, "x"],
            "spec.defaulted": [ABSENT, "d", "e", None],
            "spec.texts": [*NONE, *both("a", "b"), [""]],
            "spec.keyed": [*NONE, *both({"key": "a"}, {"key": "b"})],
            "spec.map": [*EMPTY, {"a": "1"}, {"a": ""}],
            "spec.nested": [*EMPTY, {"deep": {}}, {"deep": {"on": False}}],
        },
    ),
}
SCHEMA: Final[Object] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "free": {"x-kubernetes-preserve-unknown-fields": True, "nullable": True},
                "port": {"x-kubernetes-int-or-string": True},
                "nullable": {"type": "string", "nullable": True},
                "defaulted": {"type": "string", "default": "d"},
                "texts": {"type": "array", "items": {"type": "string"}},
                "keyed": {
                    "type": "array",
                    "items": {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["key"],
                },
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "nested": {
                    "type": "object",
                    "properties": {
                        "deep": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}}
                    },
                },
            },
        }
    },
}
"""The schema of the custom kind."""


def list_fields(resource: str) -> Fields:
    return {**METADATA, **RESOURCES[resource][1]}


def choose(resource: str, values: Mapping[str, Any]) -> dict[str, int]:
    """The positions of these values."""
    fields = list_fields(resource)
    return {path: fields[path].index(value) for path, value in values.items()}


def edit(chosen: Choices, chance: random.Random, *, share: float = 0.65) -> Choices:
    """Choose other values of one or two fields in a share of the resources."""
    edited = copy.deepcopy(chosen)
    for resource in RESOURCES:
        mine, fields = edited.setdefault(resource, {}), list_fields(resource)
        for _ in range(chance.choice((1, 1, 2)) if chance.random() < share else 0):
            path = chance.choice([*fields])
            mine[path] = chance.randrange(len(fields[path]))
    return edited


def make_spec(chosen: Choices, *, group: str) -> Object:
    """The spec of a Stack with these choices, whose objects count as ready at once."""
    resources = {
        name: {"manifest": make_manifest(name, chosen.get(name, {}), group=group), "readyWhen": ["true"]}
        for name in RESOURCES
    }
    return {"template": {"resources": resources}}


def make_manifest(resource: str, positions: Mapping[str, int], *, group: str) -> Object:
    manifest, fields = copy.deepcopy(RESOURCES[resource][0]), list_fields(resource)
    manifest["apiVersion"] = manifest["apiVersion"].replace(GROUP, group)
    for path, position in positions.items():
        *parents, last = path.split(".")
        place: Any = manifest
        for key in parents:
            place = place.setdefault(key, {})
        value = fields[path][position]
        if value is ABSENT:
            place.pop(last, None)
        else:
            place[last] = copy.deepcopy(value)
    return manifest
