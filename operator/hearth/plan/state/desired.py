"""Builds the desired object of a resource from its evaluated manifest: adds name, labels, annotations and hash."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from hearth.model import names, packing, sharding, signatures, value_class
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.environment.inherited_rules import InheritedRules
from hearth.plan.ownership.applied_fields import AppliedFields
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.state.run_policy import RunPolicy
from hearth.plan.target import volume_restore
from hearth.template.blueprint import StackIdentity


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ChildOwner:
    """Owner of a child, as recorded in the child's labels and annotations."""

    stack: StackIdentity
    resource: str
    requires: tuple[str, ...]
    """`name/incarnation` of each resource that the manifest was evaluated against."""
    hashes: HashFunction = field(repr=False, compare=False)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DesiredObject:
    """Desired object of one resource, as one of its incarnations."""

    resource: DesiredResource = field(repr=False)
    ref: ObjectRef
    incarnation: int
    is_adopted: bool = False
    """Whether the object is adopted, which its annotation records."""
    data_source: Mapping[str, Any] | None = None
    """The `spec.dataSource` of the existing claim, if the manifest has none: it cannot be removed."""

    @property
    def manifest(self) -> Object:
        """Build the complete manifest at every call. It is needed only when something changes."""
        return build_manifest(self)

    @property
    def kind(self) -> Kind:
        """Return the kind of the child."""
        return self.resource.kind

    @property
    def hash(self) -> str:
        """Return the hash of the definition."""
        return self.resource.hash

    @property
    def applied_fields(self) -> AppliedFields | None:
        """Return the fields that other field managers may take, or None."""
        return self.resource.applied_fields

    @property
    def inherited_rules(self) -> InheritedRules | None:
        """Return the part of the manifest that comes from the parent's environment, or None."""
        return self.resource.inherited_rules

    @property
    def record(self) -> str:
        """Return the record of applied fields that the object stores, or "" for none."""
        return self.applied_fields.record if self.applied_fields is not None else ""


@dataclass(slots=True, kw_only=True)
class DesiredResource:
    """Evaluated definition, independent of the incarnation. Created by `make_desired` and immutable afterwards."""

    kind: Kind
    packed: bytes = field(repr=False)
    """JSON of a list whose only entry is the user's manifest, without metadata of the operator."""
    name: str | None
    """The explicit name, if any."""
    namespace: str
    """The namespace of the child, or "" for cluster scope."""
    hash: str
    """Hash of the manifest without the operator's labels and generated name: a change to only those causes no write."""
    owner: ChildOwner
    applied_fields: AppliedFields | None = None
    """The fields of the manifest that other field managers may take, or None."""
    is_retained: bool = False
    """Whether the object records that it outlives the target."""
    inherited_rules: InheritedRules | None = None
    """The rules that the object inherits from the parent's environment, or None."""
    run: RunPolicy | None = None
    """How to treat an object that runs to completion, or None if it keeps running."""
    inputs: object = None
    """The inputs of the evaluation. While they are unchanged, this object stays valid."""
    _incarnation: int = 0
    """The incarnation of `_ref`."""
    _ref: ObjectRef | None = field(default=None, repr=False)
    """The last requested reference, which is usually also the next one."""

    @property
    def manifest(self) -> Object:
        """Return the user's manifest, decoded at every call."""
        found: list[Object] = orjson.loads(self.packed)
        return found[0]

    def hash_of_stack(self, uid: str) -> str:
        """Return the hash that this definition has in a Stack with that UID."""
        return hash_desired(self.manifest, is_retained=self.is_retained, hashes=self.owner.hashes.of_stack(uid))

    @property
    def is_name_pinned(self) -> bool:
        """Return whether every incarnation has the same name."""
        return bool(self.name)

    def at(self, incarnation: int, *, child: Child | None = None, name: str = "") -> DesiredObject:
        """Return the desired object of that incarnation. child: the existing object; name: the name of an earlier
        object.
        """
        present = child.name if child is not None else name
        ref = next((ref for ref in self.refs_at(incarnation) if ref.name == present), None) if present else None
        ref = ref or self.ref_at(incarnation)
        if child is not None and child.incarnation == incarnation and self.has_former_name(child):
            ref = child.ref
        if child is None:
            return DesiredObject(resource=self, ref=ref, incarnation=incarnation)
        source = volume_restore.find_data_source(child)
        return DesiredObject(
            resource=self, ref=ref, incarnation=incarnation, is_adopted=child.is_adopted, data_source=source
        )

    def has_former_name(self, child: Child) -> bool:
        """Return whether the object's name has the suffix of another UID of the Stack, from before the Stack was
        restored.
        """
        if self.name is not None or child.incarnation <= 1 or not child.is_identified:
            return False
        if (
            child.resource != self.owner.resource
            or child.namespace != self.namespace
            or child.kind.key != self.kind.key
        ):
            return False
        ref, stem = self.ref_at(child.incarnation), -names.DIGEST_LENGTH
        return child.name != ref.name and child.name[:stem] == ref.name[:stem]

    def ref_at(self, incarnation: int) -> ObjectRef:
        """Return the reference of that incarnation."""
        if self._ref is None or self._incarnation != incarnation:
            kind, name = self.kind, make_name(self, incarnation=incarnation)
            self._ref = ObjectRef(group=kind.group, kind=kind.name, namespace=self.namespace, name=name)
            self._incarnation = incarnation
        return self._ref

    def refs_at(self, incarnation: int) -> tuple[ObjectRef, ...]:
        """Return the references under which the object of that incarnation may exist, the current one first.

        Earlier versions did not shorten names to the length that the kind allows. An object with a longer name keeps
        it.
        """
        ref = self.ref_at(incarnation)
        if self.name is not None or self.kind.key not in names.NAME_LENGTHS:
            return (ref,)
        earlier = make_name(self, incarnation=incarnation, length=names.NAME_LENGTH)
        return (ref,) if earlier == ref.name else (ref, dataclasses.replace(ref, name=earlier))


def make_desired(  # noqa: PLR0913 -- each is a separate part of the object
    manifest: Object,
    *,
    kind: Kind,
    hash_: str,
    owner: ChildOwner,
    packed: bytes | None = None,
    applied_fields: AppliedFields | None = None,
    is_retained: bool = False,
    inherited: InheritedRules | None = None,
    run: RunPolicy | None = None,
    inputs: object = None,
) -> DesiredResource:
    """Create the desired resource from an evaluated manifest.

    packed: `DesiredResource.packed`, if the caller stores it anyway.
    """
    metadata = manifest.get("metadata") or {}
    return DesiredResource(
        kind=kind,
        packed=packing.pack([manifest]) if packed is None else packed,
        name=metadata.get("name"),
        namespace=metadata.get("namespace", owner.stack.namespace) if kind.namespaced else "",
        # The object has an equal text, so that both share one copy.
        hash=sys.intern(hash_),
        owner=owner,
        applied_fields=applied_fields,
        is_retained=is_retained,
        inherited_rules=inherited,
        run=run,
        inputs=inputs,
    )


def hash_desired(manifest: Object, *, is_retained: bool, hashes: HashFunction) -> str:
    """Hash all parts of a resource's definition that are visible in its child.

    A deletion policy other than the default is part of the hash, so a change to only the policy causes one write.
    """
    return hashes.hash([manifest, names.RETAIN]) if is_retained else hashes.hash(manifest)


def build_manifest(desired: DesiredObject) -> Object:
    """Build the object to apply."""
    wanted, ref = desired.resource, desired.ref
    manifest = wanted.manifest
    metadata = manifest["metadata"] = manifest.get("metadata") or {}
    if wanted.kind.namespaced:
        metadata["namespace"] = ref.namespace
    metadata["name"] = ref.name
    add_tracking_metadata(metadata, wanted, ref=ref, incarnation=desired.incarnation)
    if desired.data_source is not None:
        manifest = volume_restore.keep_data_source(manifest, desired.data_source)
    if wanted.inherited_rules is not None:
        manifest = wanted.inherited_rules.merge_into(manifest)
    return with_adopted(manifest) if desired.is_adopted else manifest


def make_name(desired: DesiredResource, *, incarnation: int, length: int | None = None) -> str:
    """Return the name of a child: the explicit one, otherwise a generated one. length: overrides the kind's limit."""
    if desired.name is not None:
        return desired.name
    whose, length = desired.owner, names.find_length(desired.kind.key) if length is None else length
    return whose.stack.name_child(whose.resource, incarnation=incarnation, namespace=desired.namespace, length=length)


def add_tracking_metadata(metadata: Object, desired: DesiredResource, *, ref: ObjectRef, incarnation: int) -> None:
    """Add the owner to `metadata`: everything that a restarted operator must know about the child."""
    whose, stack = desired.owner, desired.owner.stack
    requires = ",".join(whose.requires)
    identity = names.identity(
        stack_uid=stack.uid, group=ref.group, kind=ref.kind, namespace=ref.namespace, name=ref.name
    )
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        names.LABEL_STACK_UID: stack.uid,
        names.LABEL_STACK: names.stack_label(stack.name),
        names.LABEL_RESOURCE: names.resource_label(whose.resource),
        names.LABEL_BUCKET: sharding.label_of(stack.uid),
    }
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        names.ANNOTATION_IDENTITY: identity,
        names.ANNOTATION_SIGNATURE: signatures.write(
            identity, resource=whose.resource, incarnation=incarnation, requires=requires, signer=whose.hashes
        ),
        names.ANNOTATION_INCARNATION: str(incarnation),
        names.ANNOTATION_HASH: desired.hash,
        names.ANNOTATION_REQUIRES: requires,
    }
    if desired.applied_fields is not None:
        metadata["annotations"][names.ANNOTATION_LAST_APPLIED] = desired.applied_fields.record
    if desired.inherited_rules is not None:
        metadata["annotations"] |= desired.inherited_rules.annotations
    if desired.is_retained:
        metadata["annotations"][names.ANNOTATION_DELETION_POLICY] = names.RETAIN


def with_adopted(manifest: Object) -> Object:
    """Return a copy of the object with the annotation for adopted objects. The original is unchanged."""
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], names.ANNOTATION_ADOPTED: names.ADOPTED}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
