"""The kinds that the fake API server serves: a few built-in ones, and all that a CustomResourceDefinition adds.

Contains schemas and immutable fields; stored objects are in `fake_server`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import orjson

from hearth.engine.cluster_objects import StackObject
from hearth.model import names
from hearth.model.api import crd
from hearth.model.kinds import Kind
from hearth.template.text import quantity
from support.server import api_errors
from support.server.field_sets import Shape

Completion: TypeAlias = Callable[[Mapping[str, Any] | None, dict[str, Any]], dict[str, Any]]
"""Turns the old object (None for a new one) and a writer's object into the stored object."""
Guard: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], list[api_errors.Cause]]
"""Returns the errors of a change from the old object to the new one."""

META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
OBJECT_META: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        **{key: {"type": "string"} for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")},
        "generation": {"type": "integer", "format": "int64"},
        "labels": STRINGS,
        "annotations": STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
    },
}


def keep(old: Mapping[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Copy nothing from the old object."""
    return new


def accept(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[api_errors.Cause]:
    """Accept any change."""
    return []


POLICIES = "admissionregistration.k8s.io"
ADDRESS = "10.0.0.1"
"""Default address of new Services."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedKind:
    """One kind, and how the server treats its objects."""

    kind: Kind
    shape: Shape
    schema: Mapping[str, Any] | None = None
    """The schema of the whole object in the CRD."""
    guard: Guard = accept
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of new objects, for example a status."""
    fills: Mapping[str, Any] = field(default_factory=dict)
    """Defaults for the spec."""
    complete: Completion = keep
    """Fields copied from the old object or derived from other fields."""
    has_rules: bool = False
    """Whether the schema has CEL rules."""
    is_tracked: bool = True
    """Whether field ownership is tracked. It is off for Hearth's own kinds, which get nearly all writes, because no
    test reads it."""


@dataclass(slots=True)
class KindTable:
    """The kinds currently served; the port `Kinds`."""

    generation: int = 1
    _served: dict[tuple[str, str], ServedKind] = field(default_factory=dict)

    def find(self, api_version: str, kind: str) -> Kind | None:
        """The kind, or None if it is not served."""
        group, _, version = api_version.rpartition("/")
        served = self._served.get((group, kind))
        return served.kind if served and served.kind.version == version else None

    def all(self) -> tuple[Kind, ...]:
        """Every kind that is served."""
        return tuple(served.kind for served in self._served.values())

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """The published schema: with `metadata` and the common fields of all objects."""
        served = self._served.get((kind.group, kind.name))
        return None if served is None or served.schema is None else publish(orjson.dumps(served.schema))

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """The target of a `$ref` in a published schema."""
        return OBJECT_META if reference == META else None

    def find_served(self, kind: Kind) -> ServedKind | None:
        """The kind with its rules, or None if it is not served in that version."""
        served = self._served.get((kind.group, kind.name))
        return served if served and served.kind.version == kind.version else None

    def __iter__(self) -> Iterator[ServedKind]:
        return iter(self._served.values())

    def serve(self, served: ServedKind) -> None:
        self._served[(served.kind.group, served.kind.name)] = served
        self.generation += 1

    def withdraw(self, group: str, kind: str) -> None:
        """Stop serving a kind."""
        if self._served.pop((group, kind), None):
            self.generation += 1


@functools.lru_cache(maxsize=64)
def publish(stated: bytes) -> Mapping[str, Any]:
    """A schema with the common fields of all objects; cached for all worlds, so that expressions are compiled against
    it only once.
    """
    schema = orjson.loads(stated)
    every = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": META}}
    return {**schema, "properties": {**schema.get("properties", {}), **every}}


def immutable_when_said(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[api_errors.Cause]:
    """The rule of ConfigMap and Secret: `immutable: true` locks the data and itself."""
    if not old.get("immutable"):
        return []
    message = "field is immutable when `immutable` is set"
    changed = [key for key in ("immutable", "data", "binaryData") if old.get(key) != new.get(key)]
    return [api_errors.cause(key, f"Forbidden: {message}", reason="FieldValueForbidden") for key in changed]


SET_CHANGES = frozenset(
    {
        *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"),
        "persistentVolumeClaimRetentionPolicy",
    }
)
"""Fields that can be changed in the spec of a StatefulSet."""


def immutable_field(*path: str) -> Guard:
    """A guard of one field that never changes."""

    def guard(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[api_errors.Cause]:
        before, after = dig(old, path), dig(new, path)
        if before is None or before == after:
            return []
        return [api_errors.cause(".".join(path), f"Invalid value: {after!r}: field is immutable")]

    return guard


def guard_claim(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[api_errors.Cause]:
    """The rules of PersistentVolumeClaim: its class and content never change, and it never gets smaller.

    A claim of the class `fixed` does not get larger either.
    """
    guards = (immutable_field("spec", "storageClassName"), immutable_field("spec", "dataSource"))
    path = ("spec", "resources", "requests", "storage")
    before, after = (str(dig(each, path) or "0") for each in (old, new))
    change = quantity.compare(after, before)
    wrong = [cause for guard in guards for cause in guard(old, new)]
    if change < 0:
        wrong.append(api_errors.cause(".".join(path), "Forbidden: field can not be less than previous value"))
    if change > 0 and dig(new, ("spec", "storageClassName")) == "fixed":
        wrong.append(
            api_errors.cause("spec", "Forbidden: the storage class that provisions the pvc must support resize")
        )
    return wrong


def guard_set(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[api_errors.Cause]:
    """The rule of StatefulSet: most of its spec never changes."""
    before, after = (
        {key: value for key, value in each["spec"].items() if key not in SET_CHANGES} for each in (old, new)
    )
    message = "Forbidden: updates to statefulset spec for fields other than 'replicas', 'template' … are forbidden"
    return [] if before == after else [api_errors.cause("spec", message, reason="FieldValueForbidden")]


def guard_service(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[api_errors.Cause]:
    """The rules of Service: the address never changes, and each port has a unique name."""
    found = [port.get("name") for port in dig(new, ("spec", "ports")) or ()]
    doubled = [
        api_errors.cause(f"spec.ports[{at}].name", f"Duplicate value: {name!r}", reason="FieldValueDuplicate")
        for at, name in enumerate(found)
        if name in found[:at]
    ]
    return [*immutable_field("spec", "clusterIP")(old, new), *doubled]


def keep_address(old: Mapping[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """A Service without an address keeps its old one; a new Service gets one."""
    spec = new.get("spec") or {}
    return {**new, "spec": {"clusterIP": dig(old, ("spec", "clusterIP")) or ADDRESS, **spec}}


def double_account(*path: str) -> Completion:
    """Pods have the name of their account twice; the deprecated field fills the other. `path` leads to the pod."""

    def complete(_old: Mapping[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
        pod = dig(new, path) or {}
        account = pod.get("serviceAccountName") or pod.get("serviceAccount")
        if not account:
            return new
        completed: dict[str, Any] = {**pod, "serviceAccount": account, "serviceAccountName": account}
        for depth in range(len(path) - 1, -1, -1):
            completed = {**dig(new, path[:depth]), path[depth]: completed}
        return completed

    return complete


def dig(value: Any, path: tuple[str, ...]) -> Any:
    """The value at `path`, or None."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def guard_deployment(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[api_errors.Cause]:
    """The rules of Deployment: the selector never changes, and only a rolling update has numbers."""
    found = immutable_field("spec", "selector")(old, new)
    if dig(new, ("spec", "strategy", "type")) == "Recreate" and dig(new, ("spec", "strategy", "rollingUpdate")):
        message = "Forbidden: may not be specified when strategy `type` is 'Recreate'"
        found.append(api_errors.cause("spec.strategy.rollingUpdate", message, reason="FieldValueForbidden"))
    return found


def complete_deployment(old: Mapping[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """A Deployment has the account under both names, and a strategy with its numbers."""
    made = double_account("spec", "template", "spec")(old, new)
    strategy = {
        "type": "RollingUpdate",
        **{key: value for key, value in (dig(made, ("spec", "strategy")) or {}).items() if value is not None},
    }
    if strategy["type"] == "RollingUpdate":
        numbers = {"maxSurge": "25%", "maxUnavailable": "25%"}
        strategy["rollingUpdate"] = {**numbers, **(strategy.get("rollingUpdate") or {})}
    return {**made, "spec": {**made["spec"], "strategy": strategy}}


def built_in(group: str, name: str, plural: str, guard: Guard = accept, **options: Any) -> ServedKind:
    """A built-in kind in version v1; options: `namespaced`, `fills`, `complete`, `has_status`, `free`."""
    kind = Kind(group=group, version="v1", name=name, plural=plural, namespaced=options.pop("namespaced", True))
    stored = {key: options.pop(key) for key in ("fills", "complete") if key in options}
    return ServedKind(kind=kind, shape=Shape(kind=name, **options), guard=guard, **stored)


@functools.cache
def make_crds() -> tuple[dict[str, Any], ...]:
    """All kinds of Hearth, created once, because their schemas take longer than many tests."""
    return crd.make_crds()


def hearth_kind(name: str, plural: str, **options: Any) -> ServedKind:
    """One of our own kinds, whose specs are free-form; options: of the served kind, and `free`."""
    kind = Kind(
        group=names.GROUP, version=names.VERSION, name=name, plural=plural, namespaced=options.pop("namespaced", True)
    )
    shape = Shape(kind=name, is_custom=True, free=options.pop("free", (("spec",), ("status", "outputs"))))
    definition = next(each for each in make_crds() if each["spec"]["names"]["kind"] == name)
    status = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].get("status", {})
    defaults = {"status": status["default"]} if "default" in status else {}
    return ServedKind(kind=kind, shape=shape, defaults=defaults, **{"is_tracked": False, **options})


STACK = hearth_kind("Stack", "stacks")
RESOURCE_GROUP = hearth_kind(
    "ResourceGroup",
    "resourcegroups",
    is_tracked=True,
    fills={"replicas": 1},
    free=(("spec", "template"), ("spec", "parameters"), ("spec", "environment")),
)
STACK_KINDS: Mapping[str, Kind] = {served.kind.name: served.kind for served in (STACK, RESOURCE_GROUP)}
"""The kinds whose objects own children, by name."""
HEALTH_MARK = hearth_kind("HealthMark", "healthmarks")
STACK_SNAPSHOT = hearth_kind("StackSnapshot", "stacksnapshots")
STACK_PLAN = hearth_kind("StackPlan", "stackplans")
STACK_DEFINITION = hearth_kind("StackDefinition", "stackdefinitions", namespaced=False)
STACK_TEMPLATE = hearth_kind("StackTemplate", "stacktemplates", namespaced=False)
CONFIG_MAP = built_in("", "ConfigMap", "configmaps", immutable_when_said, has_status=False)
SECRET = built_in("", "Secret", "secrets", immutable_when_said, has_status=False)
SOURCES: Mapping[str, Kind] = {served.kind.name: served.kind for served in (CONFIG_MAP, SECRET, STACK_TEMPLATE)}
"""The kinds that definitions are read from, by name."""
NAMESPACE = built_in("", "Namespace", "namespaces", namespaced=False)
CONTROLLER_REVISION = replace(
    built_in("apps", "ControllerRevision", "controllerrevisions", has_status=False, free=(("data",),)),
    is_tracked=False,
)
CUSTOM_RESOURCE_DEFINITION = built_in(
    "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
RESOURCE_QUOTA = built_in("", "ResourceQuota", "resourcequotas")
ROLE_BINDING = built_in("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", has_status=False)
POD = built_in("", "Pod", "pods")
JOB = built_in("batch", "Job", "jobs", immutable_field("spec", "template"))
DEPLOYMENT = built_in(
    *("apps", "Deployment", "deployments", guard_deployment),
    fills={"replicas": 1},
    complete=complete_deployment,
)
BUILT_IN = (
    *(
        STACK,
        RESOURCE_GROUP,
        HEALTH_MARK,
        STACK_SNAPSHOT,
        STACK_PLAN,
        STACK_TEMPLATE,
        STACK_DEFINITION,
        CONFIG_MAP,
        SECRET,
        NAMESPACE,
    ),
    *(CONTROLLER_REVISION, CUSTOM_RESOURCE_DEFINITION),
    built_in("", "Service", "services", guard_service, complete=keep_address),
    built_in("", "ServiceAccount", "serviceaccounts", has_status=False),
    POD,
    built_in("", "PersistentVolumeClaim", "persistentvolumeclaims", guard_claim),
    built_in("", "PersistentVolume", "persistentvolumes", namespaced=False),
    built_in("storage.k8s.io", "StorageClass", "storageclasses", namespaced=False, has_status=False),
    built_in("apps", "StatefulSet", "statefulsets", guard_set, fills={"replicas": 1}),
    RESOURCE_QUOTA,
    DEPLOYMENT,
    built_in("", "PodTemplate", "podtemplates", has_status=False, complete=double_account("template", "spec")),
    built_in("batch", "CronJob", "cronjobs", fills={"suspend": False}),
    JOB,
    built_in("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", namespaced=False, has_status=False),
    built_in(POLICIES, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False, has_status=False),
    built_in(
        POLICIES,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        namespaced=False,
        has_status=False,
    ),
    ROLE_BINDING,
)


DEFINED_GROUP = "platform.example"
"""The API group of the kinds that StackDefinitions create in tests."""


def owns_children(kind: Kind) -> bool:
    """Whether the engine treats objects of a kind as Stacks."""
    return kind in STACK_KINDS.values() or kind.group == DEFINED_GROUP


def find_owner_kind(stack: StackObject) -> Kind:
    """The kind of a Stack, or of an instance of a StackDefinition."""
    if stack.kind in STACK_KINDS:
        return STACK_KINDS[stack.kind]
    group, _, version = stack.api_version.partition("/")
    return Kind(
        group=group, version=version, name=stack.kind_name, plural=f"{stack.kind_name.lower()}s", namespaced=True
    )


def custom_kind(definition: Mapping[str, Any]) -> ServedKind:
    """The kind that a CustomResourceDefinition adds, with the rules `self == oldSelf` of its fields."""
    spec = definition["spec"]
    version = next(each for each in spec["versions"] if each["storage"])
    kind = Kind(
        group=spec["group"],
        version=version["name"],
        name=spec["names"]["kind"],
        plural=spec["names"]["plural"],
        namespaced=spec["scope"] == "Namespaced",
    )
    schema = version["schema"]["openAPIV3Schema"]
    locked = tuple(find_locked(schema, ()))

    def guard(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[api_errors.Cause]:
        return [cause for path, message in locked for cause in judge_locked(old, new, path, message)]

    has_status = "status" in version.get("subresources", {})
    status = schema.get("properties", {}).get("status", {})
    return ServedKind(
        kind=kind,
        shape=Shape(kind=kind.name, is_custom=True, has_status=has_status),
        schema=schema,
        guard=guard,
        defaults={"status": status["default"]} if has_status and "default" in status else {},
        has_rules=bool(locked),
    )


def find_locked(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The fields of a schema that must not change, with the message of their rule."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["rule"] == "self == oldSelf":
            yield path, rule["message"]
    for name, inner in schema.get("properties", {}).items():
        yield from find_locked(inner, (*path, name))


def judge_locked(
    old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[str, ...], message: str
) -> list[api_errors.Cause]:
    """A transition rule applies only if both an old and a new value exist."""
    before, after = dig(old, path), dig(new, path)
    if before is None or after is None or before == after:
        return []
    return [api_errors.cause(".".join(path), f"Invalid value: {after!r}: {message}")]
