"""Which objects the resources of one blueprint name, or may name once their expressions have values.

An object that a resource names is never deleted because another resource had it before. Must not know who asks, nor
what happens to an object that nothing names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import kinds, value_class
from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.plan.resource import replacement
from hearth.plan.resource.desired_objects import DesiredObjects
from hearth.template.blueprint import Blueprint, ResourceBlueprint, StackIdentity
from hearth.template.compiler import object_names
from hearth.template.compiler.manifest_template import ManifestTemplate


@value_class.dataclass(frozen=True, slots=True)
class Naming:
    """A resource that names an object."""

    resource: str
    is_certain: bool
    """False: its name is not known yet, and may turn out to be that of the object."""


@dataclass(slots=True)
class NamesOfKind:
    """What is known beforehand of the objects of one kind."""

    resources: dict[tuple[str, str | None], list[str]] = field(default_factory=dict)
    """By namespace and name, stated or generated, the resources of such an object."""
    computed: dict[str, str | None] = field(default_factory=dict)
    """The resources whose names follow from other objects, each with its namespace; None: that follows as well."""


class WantedObjects:
    """The objects that the resources of one blueprint name."""

    def __init__(self, blueprint: Blueprint, *, stack: StackIdentity, desired: DesiredObjects) -> None:
        """desired: the evaluated resources. A resource that is not among them was never planned."""
        self.generation = 0
        """Changes whenever an object may have become unnamed."""
        self._blueprint = blueprint
        self._stack = stack
        self._desired = desired
        self._claims = ObjectClaims()
        """The resource of each object that may be written."""
        self._open: dict[str, None] = {}
        """The resources whose manifests have no value now, since they wait or failed."""
        self._refused: dict[str, dict[str, None]] = {}
        """By resource those that name an object which it claimed first."""
        self._kinds: dict[tuple[str, str], NamesOfKind] | None = None
        """By group and kind; None before anyone asked."""

    def update_blueprint(self, blueprint: Blueprint, *, changed: Iterable[str]) -> None:
        """Continue with another blueprint. changed: the resources that it changed or removed."""
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
        """Return the resources that were refused an object of this one, which may name another one now."""
        return self._refused.pop(owner, ()) if self._refused else ()

    def release(self, name: str) -> None:
        """Forget what a resource names, because its manifest has another value now."""
        self._claims.release((name,))
        self.generation += 1

    def note_open(self, name: str) -> None:
        """Record that the manifest of a resource has no value now."""
        self._open[name] = None

    def find_owner(self, ref: ObjectRef) -> str:
        """Return the resource that names the object, as evaluated last; "" for none."""
        return self._claims.find(ref)

    def find_naming(self, child: Child) -> Naming | None:
        """Return a resource that names the object, or may; None if none does.

        A resource that is evaluated names none of its own earlier objects.
        """
        owner = self._claims.find(child.ref)
        if owner and (owner != child.resource or owner in self._open):
            return Naming(owner, is_certain=True)
        return None if self.is_settled else self._find_open(child)

    def find_foreign(self, child: Child) -> Naming | None:
        """Return a resource that names the object of another Stack, or may; None if none does."""
        owner = self._claims.find(child.ref)
        if owner:
            return Naming(owner, is_certain=True)
        return None if self.is_settled else self._find_open(child)

    @property
    def is_settled(self) -> bool:
        """Return whether the manifests of all resources have values."""
        return not self._open and self._desired.has_all(self._blueprint.resources)

    def _find_open(self, child: Child) -> Naming | None:
        """Return a resource without a manifest that names the object, or may."""
        known = self._find_kind((child.kind.group, child.kind.name))
        for name in known.resources.get((child.namespace, child.name), ()):
            if self.is_open(name):
                return Naming(name, is_certain=True)
        if child.kind.key in replacement.CREATE_FIRST_KINDS:
            # Another object is as good as this one, so the deletion need not wait for a name.
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
        # Only a template shows a part of what it evaluates to.
        is_partly_known = isinstance(resource.manifest, ManifestTemplate)
        metadata = object_names.find_metadata(resource) if is_partly_known else {}
        namespace = self._find_namespace(metadata)
        pinned = metadata.get("name")
        if namespace is None or (resource.is_name_pinned and not isinstance(pinned, str)):
            known.computed[resource.name] = namespace
            return
        kind = kinds.make_key(resource.api_version.rpartition("/")[0], resource.kind)
        # A kind of cluster scope has no namespace, which only the API server tells.
        for each in (namespace, ""):
            name = pinned or object_names.find_name(resource.name, self._stack, namespace=each, kind=kind)
            known.resources.setdefault((each, name), []).append(resource.name)

    def _find_namespace(self, metadata: Mapping[str, Any]) -> str | None:
        """Return the namespace of an object; None if it follows from another object."""
        if "namespace" not in metadata:
            return self._stack.namespace
        namespace = metadata["namespace"]
        return namespace if isinstance(namespace, str) else None


# Which resource of a Stack names each object, so that no two of them write the same one. A resource that changes
# costs the same however many others there are.


class ObjectClaims:
    """The objects that the resources of one Stack name."""

    def __init__(self) -> None:
        """Begin without any."""
        self._owners: dict[ObjectRef, str] = {}
        self._first: dict[str, ObjectRef] = {}
        """By resource the first object that it names; nearly all name only one."""
        self._others: dict[str, list[ObjectRef]] = {}
        """By resource all further objects: those of later incarnations."""

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
