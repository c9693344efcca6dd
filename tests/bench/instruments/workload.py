"""Stacks for benchmarks, and exactly their objects, for loops that write these without an operator.

Pure: the operator's own code evaluates and signs the objects, so that they are identical to the last label.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hearth.kube.client import api_requests
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.state import desired
from hearth.plan.state.desired import ChildOwner
from hearth.template.blueprint import Definition, Known, ResourceBlueprint, StackIdentity
from hearth.template.compiler import compiler

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
SERVICE_ACCOUNT = Kind(group="", version="v1", name="ServiceAccount", plural="serviceaccounts", namespaced=True)
ROLE = Kind(group="rbac.authorization.k8s.io", version="v1", name="Role", plural="roles", namespaced=True)
ROLE_BINDING = Kind(
    group="rbac.authorization.k8s.io", version="v1", name="RoleBinding", plural="rolebindings", namespaced=True
)
INSTANCE = Kind(group="bench.example", version="v1", name="Corner", plural="corners", namespaced=True)
"""The kind that a StackDefinition creates."""
HASHES = KeyedHasher(b"only as long as any other key")
NOTE = "example.com/value"
"""The annotation to change on kinds without a mutable field."""


class SomeKinds:
    """The kinds of these workloads, without schemas, which are only needed for mistakes."""

    generation = 0
    _known: ClassVar = {
        (kind.api_version, kind.name): kind for kind in (CONFIG_MAP, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)
    }

    def find(self, api_version: str, kind: str) -> Kind | None:
        """The kind, if it is one of them."""
        return self._known.get((api_version, kind))

    def all(self) -> Collection[Kind]:
        """Every one of them."""
        return self._known.values()

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        return None

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An object, ready to be sent."""

    path: str
    manifest: Object

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Stacks and their objects."""

    template: Object
    stacks: int

    def make_stacks(self, namespace: str) -> list[Object]:
        """The user's Stacks."""
        return [make_stack(f"stack-{number}", namespace, self.template) for number in range(self.stacks)]

    def make_children(self, namespace: str, *, value: str) -> list[Target]:
        """The final objects when the Stacks' parameter has that value."""
        return [
            target
            for number, stack in enumerate(self.make_stacks(namespace))
            for target in evaluate(with_value(stack, value), uid=str(uuid.UUID(int=number)))
        ]

    @property
    def objects(self) -> int:
        """How many children."""
        return self.stacks * len(self.template["resources"])

    @property
    def kinds(self) -> list[Kind]:
        named = {resource["manifest"]["kind"] for resource in self.template["resources"].values()}
        return [kind for kind in SomeKinds().all() if kind.name in named]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWorkload(Workload):
    """ResourceGroups and their objects. template: of one member."""

    size: int
    """Of each group."""

    def make_stacks(self, namespace: str) -> list[Object]:
        return [make_group(f"group-{number}", namespace, self.template, self.size) for number in range(self.stacks)]

    @property
    def objects(self) -> int:
        """How many children."""
        return self.stacks * self.size

    @property
    def kinds(self) -> list[Kind]:
        return [kind for kind in SomeKinds().all() if kind.name == self.template["manifest"]["kind"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceWorkload(Workload):
    """Instances of a StackDefinition with that template."""

    def make_stacks(self, namespace: str) -> list[Object]:
        return [
            {
                "apiVersion": INSTANCE.api_version,
                "kind": INSTANCE.name,
                "metadata": {"name": f"stack-{number}", "namespace": namespace},
                "spec": {"value": "one"},
            }
            for number in range(self.stacks)
        ]


def make_group(name: str, namespace: str, template: Object, size: int) -> Object:
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": names.GROUP_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": size, "parameters": {"value": "one"}, "template": template},
    }


def make_stack(name: str, namespace: str, template: Object) -> Object:
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "Stack",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parameters": {"value": "one"}, "template": template},
    }


def make_change(value: str) -> Object:
    """The merge patch that changes one field of each child of a Stack."""
    return {"spec": {"parameters": {"value": value}}}


def with_value(stack: Object, value: str) -> Object:
    """The Stack after that change."""
    return {**stack, "spec": {**stack["spec"], "parameters": {"value": value}}}


def make_small_template(value: str = "${params.value}") -> Object:
    """Four objects, like those of a small application; the last one names two others.

    value: of the field of each that changes.
    """
    note = {NOTE: value}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [value], "verbs": ["get"]}
    subject = {"kind": "ServiceAccount", "name": "${account.metadata.name}", "namespace": "${stack.namespace}"}
    role = {"apiGroup": ROLE.group, "kind": "Role", "name": "${role.metadata.name}"}
    manifests = {
        "settings": make_manifest(CONFIG_MAP, data={"value": value, "greeting": "hello", "colour": "blue"}),
        "account": make_manifest(SERVICE_ACCOUNT, metadata={"annotations": note}),
        "role": make_manifest(ROLE, rules=[rule]),
        "binding": make_manifest(ROLE_BINDING, metadata={"annotations": note}, roleRef=role, subjects=[subject]),
    }
    return make_template(manifests)


def make_flat_template(count: int) -> Object:
    """Independent ConfigMaps."""
    data = {"value": "${params.value}", "greeting": "hello", "colour": "blue"}
    return make_template({f"settings{number}": make_manifest(CONFIG_MAP, data=data) for number in range(count)})


def make_member_template() -> Object:
    """The same ConfigMap as the template of a group's members."""
    data = {"value": "${params.value}", "greeting": "hello", "colour": "blue"}
    return {"manifest": make_manifest(CONFIG_MAP, data=data)}


def make_collection_template() -> Object:
    """The same ConfigMap for each element of the parameter `members`: maps with `name` and `value`."""
    item = {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}
    data = {"value": "${item.value}", "greeting": "hello", "colour": "blue"}
    settings = {"forEach": "params.members", "key": "item.name", "manifest": make_manifest(CONFIG_MAP, data=data)}
    return {"parameters": {"members": {"type": "array", "items": item}}, "resources": {"settings": settings}}


def make_chain_template(count: int) -> Object:
    """A chain of ConfigMaps: each names the previous one."""
    return make_layered_template(count, width=1)


def make_layered_template(layers: int, *, width: int) -> Object:
    """Layers of ConfigMaps: each names one in the previous layer."""
    manifests = {}
    for layer in range(layers):
        for place in range(width):
            data = {"value": "${params.value}"}
            if layer:
                data["before"] = f"${{layer{layer - 1}x{place}.metadata.name}}"
            manifests[f"layer{layer}x{place}"] = make_manifest(CONFIG_MAP, data=data)
    return make_template(manifests)


def make_manifest(kind: Kind, **fields: Any) -> Object:
    """An object of that kind."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **fields}


def make_template(manifests: Mapping[str, Object]) -> Object:
    """A template with one parameter, `value`."""
    return {
        "parameters": {"value": {"type": "string"}},
        "resources": {name: {"manifest": manifest} for name, manifest in manifests.items()},
    }


def evaluate(stack: Object, *, uid: str) -> list[Target]:
    """Return the children of a Stack with that UID, exactly as the operator would write them."""
    metadata, spec = stack["metadata"], stack["spec"]
    identity = StackIdentity(name=metadata["name"], namespace=metadata["namespace"], uid=uid)
    definition = Definition(template=spec["template"], parameters=spec["parameters"])
    blueprint = compiler.compile_template(definition, stack=identity, kinds=SomeKinds())
    written: dict[str, Object] = {}
    targets = []
    for resource in blueprint.resources.values():
        target = write_out(resource, identity, written)
        written[resource.name] = target.manifest
        targets.append(target)
    return targets


def write_out(resource: ResourceBlueprint, stack: StackIdentity, written: Mapping[str, Object]) -> Target:
    """Return one child, evaluated with the earlier ones."""
    kind = SomeKinds().find(resource.api_version, resource.kind)
    outcome = resource.manifest.evaluate(written)
    assert kind is not None
    assert isinstance(outcome, Known), outcome
    requires = tuple(f"{name}/1" for name in resource.requires)
    whose = ChildOwner(stack=stack, resource=resource.name, requires=requires, hashes=HASHES)
    child = desired.make_desired(outcome.value, kind=kind, hash_=HASHES.hash(outcome.value), owner=whose).at(1)
    return Target(path=api_requests.object_path(kind, child.ref.namespace, child.ref.name), manifest=child.manifest)
