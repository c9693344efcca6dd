"""Evaluates the desired objects of a blueprint, and indexes the objects that its resources name.

A manifest is evaluated again only when its inputs change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

from hearth.model import applied_manifest, kinds, limits, names, value_class
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.memory_shares import SMALL, describe_excess, memory_shares
from hearth.model.object_list import ObjectList
from hearth.plan.environment.inherited_rules import InheritedRules
from hearth.plan.ownership import applied_fields
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.resource import blocked_status, replacement
from hearth.plan.resource.blocked_status import NoRoom, Unevaluated
from hearth.plan.state import requirements, run_policy
from hearth.plan.state.desired import ChildOwner, DesiredObject, DesiredResource, hash_desired, make_desired
from hearth.plan.state.requirements import ExternalStatus, Required, Value
from hearth.plan.target import volume_restore
from hearth.template.blueprint import (
    Blueprint,
    DriftPolicy,
    EvaluationError,
    Known,
    ResourceBlueprint,
    StackIdentity,
    Values,
)
from hearth.template.cel import expressions
from hearth.template.compiler import object_names
from hearth.template.compiler.manifest_template import ManifestTemplate
from hearth.template.parser import object_metadata
from hearth.template.text import error_hints


class DesiredObjects:
    """The desired objects of one Stack."""

    def __init__(self, blueprint: Blueprint, *, stack: StackIdentity, hashes: HashFunction) -> None:
        self._blueprint = blueprint
        self._stack = stack
        self._hashes = hashes
        self._known: dict[str, DesiredResource] = {}
        self._size = 0
        """Size in bytes of the manifests that depend on other resources."""

    def update_blueprint(self, blueprint: Blueprint, changed: Collection[str]) -> None:
        """Continue with another blueprint. changed: the resources that it changes, adds or removes."""
        for name in changed:
            known = self._known.pop(name, None)
            if known is not None and not self._blueprint.resources[name].is_constant:
                self._set_size(self._size - len(known.packed))
        self._blueprint = blueprint

    def get(self, name: str) -> DesiredResource | None:
        """Return the desired resource as last evaluated, or None before the first evaluation."""
        return self._known.get(name)

    def has_all(self, names: Sized) -> bool:
        """Return whether at least this many resources have been evaluated."""
        return len(self._known) >= len(names)

    def find(self, name: str, child: Child | None = None) -> DesiredObject | None:
        """Return the desired object as last evaluated: for that child, otherwise for the first incarnation."""
        known = self._known.get(name)
        if known is None or child is None:
            return known.at(1) if known is not None else None
        return known.at(child.incarnation, child=child)

    def evaluate(
        self,
        resource: ResourceBlueprint,
        kind: Kind,
        *,
        required: Required,
        read: Collection[ExternalStatus] = (),
        values: Values,
        inherited: InheritedRules | None,
    ) -> DesiredResource | Unevaluated:
        """Return the desired resource, or why it has no manifest.

        read: the external objects; values: of `required` and `read`, by the names in expressions; inherited: the rules
        that a nested Stack gets.
        """
        signatures = [found.fingerprint for found in (*required.values(), *read)]
        inputs: object = (kind, inherited, *signatures) if signatures or inherited is not None else kind
        known = self._known.get(resource.name)
        if known is not None and (known.inputs is inputs or known.inputs == inputs):
            return known
        manifest = self._evaluate_manifest(resource, kind, values)
        if not isinstance(manifest, Known):
            return manifest
        desired = self._make(resource, kind, manifest.value, required=required, inputs=inputs, inherited=inherited)
        if not resource.is_constant and (excess := self._count(resource, known, desired)) is not None:
            return excess
        self._known[resource.name] = desired
        return desired

    def _evaluate_manifest(self, resource: ResourceBlueprint, kind: Kind, values: Values) -> Known | Unevaluated:
        """Evaluate the manifest, and run the checks that need its values."""
        outcome = resource.manifest.evaluate({name: enlarge(value) for name, value in values.items()})
        if not isinstance(outcome, Known):
            return outcome
        if resource.has_computed_metadata:
            mistake = blocked_status.find_mistake(resource, outcome.value)
            if mistake is not None:
                return mistake
        for key in applied_manifest.find_unencodable(outcome.value, group=kind.group, kind=kind.name):
            found = object_metadata.name_type(outcome.value["stringData"][key])
            path = f"{resource.path}.manifest.stringData{error_hints.write_key(key)}"
            return EvaluationError(path=path, message=f"must be text, found {found}; write string(…) in the expression")
        return blocked_status.find_repeated(resource, outcome.value) or outcome

    def _make(
        self,
        resource: ResourceBlueprint,
        kind: Kind,
        value: Object,
        *,
        required: Required,
        inputs: object,
        inherited: InheritedRules | None,
    ) -> DesiredResource:
        applied = applied_manifest.convert(value, group=kind.group, kind=kind.name)
        is_constant = applied is value and resource.restored is None
        if resource.restored is not None:
            applied = volume_restore.restore_content(applied, resource.restored)
        requires = tuple(f"{each}/{requirements.incarnation_of(found)}" for each, found in required.items())
        return make_desired(
            applied,
            kind=kind,
            hash_=hash_desired(applied, is_retained=resource.is_retained, hashes=self._hashes),
            owner=ChildOwner(stack=self._stack, resource=resource.name, requires=requires, hashes=self._hashes),
            packed=resource.constant if is_constant else None,
            inputs=inputs,
            is_retained=resource.is_retained,
            inherited=inherited,
            run=run_policy.find(resource, kind, value),
            applied_fields=applied_fields.make_applied_fields(
                applied,
                whole=resource.drift_policy is not DriftPolicy.REPAIR,
                ignored=resource.ignore_fields,
                replacing=tuple(each for each in resource.replace_on if each[-1] != names.ANNOTATION_RESTORED),
                owner=f"{self._stack.uid}/{resource.name}",
                hashes=self._hashes,
            ),
        )

    def _count(
        self, resource: ResourceBlueprint, known: DesiredResource | None, desired: DesiredResource
    ) -> NoRoom | EvaluationError | None:
        """Replace the size of the known manifest by the new one. Return an error if that exceeds a limit."""
        path, namespace = f"{resource.path}.manifest", self._stack.namespace
        change = len(desired.packed) - (len(known.packed) if known is not None else 0)
        if self._size + change > limits.WANTED_BYTES:
            message = (
                f"makes the objects of the Stack together larger than {limits.WANTED_BYTES} bytes; split the Stack"
            )
            return EvaluationError(path=path, message=message)
        if change > 0 and self._size + change > SMALL and change > memory_shares.find_room(namespace):
            return NoRoom(f"{path} has no room: {describe_excess(namespace)}; use smaller manifests, or fewer Stacks")
        self._set_size(self._size + change)
        return None

    def _set_size(self, size: int) -> None:
        self._size = size
        memory_shares.keep(self, self._stack.namespace, size)


def enlarge(value: Value) -> Value:
    """Return the fields of a child in the form that expressions use."""
    return value if value is None or isinstance(value, ObjectList) else expressions.enlarge(value)


# The objects that the resources of a blueprint name, or might name once their expressions have values. An object that a
# resource names is never deleted on behalf of a resource that had it earlier.


@value_class.dataclass(frozen=True, slots=True)
class Naming:
    """A resource that names an object."""

    resource: str
    is_certain: bool
    """False: the resource's name is not known yet, and may turn out to be the object's name."""


@dataclass(slots=True)
class NamesOfKind:
    """Facts about the objects of one kind that are known in advance."""

    resources: dict[tuple[str, str | None], list[str]] = field(default_factory=dict)
    """The resources by namespace and name of their objects, explicit or generated."""
    computed: dict[str, str | None] = field(default_factory=dict)
    """The resources whose names depend on other objects, each with its namespace, or None if that depends on them as
    well."""


class WantedObjects:
    """The objects that the resources of one blueprint name."""

    def __init__(self, blueprint: Blueprint, *, stack: StackIdentity, desired: DesiredObjects) -> None:
        """desired: the evaluated resources. A resource that is missing there was never planned."""
        self.generation = 0
        """Changes whenever a resource may have stopped naming an object."""
        self._blueprint = blueprint
        self._stack = stack
        self._desired = desired
        self._claims = ObjectClaims()
        """The resource of each object that may be written."""
        self._open: dict[str, None] = {}
        """The resources whose manifests have no value now, because they wait or failed."""
        self._refused: dict[str, dict[str, None]] = {}
        """By resource: the other resources that name an object which it claimed first."""
        self._kinds: dict[tuple[str, str], NamesOfKind] | None = None
        """By group and kind; None before the first query."""

    def update_blueprint(self, blueprint: Blueprint, *, changed: Iterable[str]) -> None:
        """Continue with another blueprint. changed: the resources that it changes, adds or removes."""
        for name in changed:
            self._open.pop(name, None)
            self._claims.release((name,))
            self._refused.pop(name, None)
        self._blueprint = blueprint
        self._kinds = None
        self.generation += 1

    def claim(self, ref: ObjectRef, name: str) -> str:
        """Return the resource that names the object: the first one that claimed it, otherwise `name` from now on."""
        if self._open and name in self._open:
            del self._open[name]
            self.generation += 1
        owner = self._claims.claim(ref, name)
        if owner != name:
            self._refused.setdefault(owner, {})[name] = None
        return owner

    def take_refused(self, owner: str) -> Iterable[str]:
        """Return the resources that were refused an object of this one, because they may get it now."""
        return self._refused.pop(owner, ()) if self._refused else ()

    def release(self, name: str) -> None:
        """Forget the objects that a resource names, because the value of its manifest changed."""
        self._claims.release((name,))
        self.generation += 1

    def note_open(self, name: str) -> None:
        """Record that the manifest of a resource has no value now."""
        self._open[name] = None

    def find_owner(self, ref: ObjectRef) -> str:
        """Return the resource that names the object, as evaluated last; "" for none."""
        return self._claims.find(ref)

    def find_naming(self, child: Child) -> Naming | None:
        """Return a resource that names the object, or might name it; None if none does.

        A resource with an evaluated manifest names none of its own earlier objects.
        """
        owner = self._claims.find(child.ref)
        if owner and (owner != child.resource or owner in self._open):
            return Naming(owner, is_certain=True)
        return None if self.is_settled else self._find_open(child)

    def find_foreign(self, child: Child) -> Naming | None:
        """Return a resource that names the object of another Stack, or might name it; None if none does."""
        owner = self._claims.find(child.ref)
        if owner:
            return Naming(owner, is_certain=True)
        return None if self.is_settled else self._find_open(child)

    def may_create(self, ref: ObjectRef) -> bool:
        """Return whether a resource names the object: in its evaluated manifest, or literally in the template."""
        known = self._find_kind((ref.group, ref.kind))
        return bool(self._claims.find(ref)) or (ref.namespace, ref.name) in known.resources

    def find_unnamed(self, ref: ObjectRef) -> list[str]:
        """Return the resources of this kind whose object has no known name yet, and might be this one."""
        computed = self._find_kind((ref.group, ref.kind)).computed
        return [name for name, place in computed.items() if place in (None, ref.namespace) and self.is_open(name)]

    @property
    def is_settled(self) -> bool:
        """Return whether the manifests of all resources have values."""
        return not self._open and self._desired.has_all(self._blueprint.resources)

    def _find_open(self, child: Child) -> Naming | None:
        """Return a resource without a manifest that names the object, or might name it."""
        known = self._find_kind((child.kind.group, child.kind.name))
        for name in known.resources.get((child.namespace, child.name), ()):
            if self.is_open(name):
                return Naming(name, is_certain=True)
        if child.kind.key in replacement.CREATE_FIRST_KINDS:
            # A new object can replace this one, so the deletion need not wait for the names.
            return None
        for name, namespace in known.computed.items():
            if namespace in (None, child.namespace) and self.is_open(name):
                return Naming(name, is_certain=False)
        return None

    def is_open(self, name: str) -> bool:
        """Return whether the manifest of a resource has no value now."""
        return name in self._open or self._desired.get(name) is None

    def _find_kind(self, key: tuple[str, str]) -> NamesOfKind:
        """Read the names of all resources of a kind, once."""
        if self._kinds is None:
            self._kinds = {}
        known = self._kinds.get(key)
        if known is None:
            known = self._kinds[key] = NamesOfKind()
            for resource in self._blueprint.resources.values():
                if (resource.api_version.rpartition("/")[0], resource.kind) == key:
                    self._read(resource, known)
        return known

    def _read(self, resource: ResourceBlueprint, known: NamesOfKind) -> None:
        # Before evaluation, only the template shows a part of the value.
        is_partly_known = isinstance(resource.manifest, ManifestTemplate)
        metadata = object_names.find_metadata(resource) if is_partly_known else {}
        namespace = self._find_namespace(metadata)
        pinned = metadata.get("name")
        if namespace is None or (resource.is_name_pinned and not isinstance(pinned, str)):
            known.computed[resource.name] = namespace
            return
        kind = kinds.make_key(resource.api_version.rpartition("/")[0], resource.kind)
        # Only the API server knows which kinds are cluster-scoped and have no namespace.
        for each in (namespace, ""):
            name = pinned or object_names.find_name(resource.name, self._stack, namespace=each, kind=kind)
            known.resources.setdefault((each, name), []).append(resource.name)

    def _find_namespace(self, metadata: Mapping[str, Any]) -> str | None:
        """Return the namespace of an object; None if it depends on another object."""
        if "namespace" not in metadata:
            return self._stack.namespace
        namespace = metadata["namespace"]
        return namespace if isinstance(namespace, str) else None


# The resource that names each object, so that no two resources write the same object. The cost of a change does not
# depend on the number of resources.


class ObjectClaims:
    """The objects that the resources of one Stack name."""

    def __init__(self) -> None:
        self._owners: dict[ObjectRef, str] = {}
        self._first: dict[str, ObjectRef] = {}
        """By resource: the first object that it names. Nearly all resources name only one."""
        self._others: dict[str, list[ObjectRef]] = {}
        """Objects of later incarnations, by resource."""

    def claim(self, ref: ObjectRef, name: str) -> str:
        """Return the resource that names the object: the first one that claimed it, otherwise `name` from now on."""
        count = len(self._owners)
        owner = self._owners.setdefault(ref, name)
        if len(self._owners) > count and self._first.setdefault(name, ref) is not ref:
            self._others.setdefault(name, []).append(ref)
        return owner

    def find(self, ref: ObjectRef) -> str:
        """Return the resource that names the object now; "" for none. A resource names the last one that it claimed."""
        owner = self._owners.get(ref, "")
        if owner and (others := self._others.get(owner)) and others[-1] != ref:
            return ""
        return owner

    def release(self, names: Iterable[str]) -> None:
        """Forget which objects these resources name, because they may name others now."""
        for name in names:
            first = self._first.pop(name, None)
            if first is not None:
                for ref in (first, *self._others.pop(name, ())):
                    del self._owners[ref]
