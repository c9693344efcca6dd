"""A small set of kinds with schemas, covering every form of published schemas.

For the unit tests of templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model.kinds import Kind

PREFIX = "#/components/schemas/"


def reference(name: str) -> dict[str, Any]:
    """A reference as in built-in schemas: within an `allOf`, next to a default."""
    return {"allOf": [{"$ref": PREFIX + name}], "default": {}}


def known(**properties: Any) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {"type": "object", "properties": properties}


STRING = {"type": "string"}
INTEGER = {"type": "integer", "format": "int32"}
BOOLEAN = {"type": "boolean"}
STRINGS = {"type": "object", "additionalProperties": STRING}
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


def root(**properties: Any) -> dict[str, Any]:
    """A whole object as the server publishes it."""
    return known(apiVersion=STRING, kind=STRING, metadata=reference(META), **properties)


def array(items: Any) -> dict[str, Any]:
    """A list of these."""
    return {"type": "array", "items": items}


DEFINITIONS: Mapping[str, Mapping[str, Any]] = {
    META: known(
        name=STRING,
        namespace=STRING,
        generateName=STRING,
        uid=STRING,
        creationTimestamp=STRING,
        labels=STRINGS,
        annotations=STRINGS,
        ownerReferences=array(known(name=STRING, uid=STRING)),
    ),
    QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    INT_OR_STRING: {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "apps.Deployment": root(spec=reference("apps.DeploymentSpec"), status=reference("apps.DeploymentStatus")),
    "apps.DeploymentSpec": known(
        replicas=INTEGER,
        paused=BOOLEAN,
        selector=known(matchLabels=STRINGS),
        strategy=known(maxSurge={"$ref": PREFIX + INT_OR_STRING}),
        template=known(metadata=reference(META), spec=reference("core.PodSpec")),
    ),
    "apps.DeploymentStatus": known(
        readyReplicas=INTEGER,
        phase=STRING,
        conditions=array(reference("apps.DeploymentCondition")),
    ),
    "apps.DeploymentCondition": known(type=STRING, status=STRING, reason=STRING),
    "core.PodSpec": known(
        containers=array(reference("core.Container")),
        nodeSelector=STRINGS,
    ),
    "core.Container": known(
        name=STRING,
        image=STRING,
        args=array(STRING),
        env=array(known(name=STRING, value=STRING)),
        ports=array(known(containerPort=INTEGER)),
        resources=known(limits={"type": "object", "additionalProperties": {"$ref": PREFIX + QUANTITY}}),
    ),
    "core.ConfigMap": root(data=STRINGS, immutable=BOOLEAN),
    "core.Service": root(
        spec=known(
            clusterIP=STRING,
            ports=array(known(port=INTEGER, targetPort={"$ref": PREFIX + INT_OR_STRING})),
            selector=STRINGS,
        ),
        status=known(loadBalancer=known(ingress=array(known(ip=STRING, hostname=STRING)))),
    ),
    "core.Namespace": root(spec=known(finalizers=array(STRING)), status=known(phase=STRING)),
    "example.Widget": {
        "type": "object",
        "properties": {
            "spec": known(
                size={"x-kubernetes-int-or-string": True},
                ratio={"type": "number"},
                free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                maybe={"type": "integer", "nullable": True},
                matrix=array(array(INTEGER)),
                parts={"type": "object", "additionalProperties": known(size=INTEGER)},
                tree={"$ref": PREFIX + "example.Tree"},
                **{"with-dash": STRING, "foo_bar": STRINGS, "fooBar": STRINGS},
            ),
            "status": known(host=STRING, ready=BOOLEAN),
        },
    },
    "example.Tree": known(name=STRING, children=array({"$ref": PREFIX + "example.Tree"})),
    "hearth.Stack": root(
        spec=known(template={"type": "object", "x-kubernetes-preserve-unknown-fields": True}, paused=BOOLEAN),
        status=known(phase=STRING, outputs={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    ),
}

SERVED = {
    ("apps", "v1", "Deployment"): "apps.Deployment",
    ("", "v1", "ConfigMap"): "core.ConfigMap",
    ("", "v1", "Service"): "core.Service",
    ("", "v1", "Namespace"): "core.Namespace",
    ("example.com", "v1", "Widget"): "example.Widget",
    ("hearth.dev", "v1alpha1", "Stack"): "hearth.Stack",
}
CLUSTER_WIDE = frozenset({"Namespace"})


class TypedKinds:
    """The port `Kinds` over the schemas of this module."""

    def __init__(self, *, has_schemas: bool = True) -> None:
        self.generation = 1
        self.has_schemas = has_schemas

    def find(self, api_version: str, kind: str) -> Kind | None:
        """The kind, or None if it is not served."""
        group, _, version = api_version.rpartition("/")
        if (group, version, kind) not in SERVED:
            return None
        namespaced = kind not in CLUSTER_WIDE
        return Kind(group=group, version=version, name=kind, plural=f"{kind.lower()}s", namespaced=namespaced)

    def all(self) -> tuple[Kind, ...]:
        """Every kind that is served."""
        pairs = [(f"{group}/{version}".lstrip("/"), kind) for group, version, kind in SERVED]
        return tuple(found for pair in pairs if (found := self.find(*pair)) is not None)

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        return DEFINITIONS[SERVED[kind.group, kind.version, kind.name]] if self.has_schemas else None

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """The target of a reference."""
        return DEFINITIONS.get(reference.removeprefix(PREFIX))
