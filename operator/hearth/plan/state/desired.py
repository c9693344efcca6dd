"""From an evaluated manifest to the complete objects that may stand for it: named, labelled, annotated, hashed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import orjson

from hearth.model import names, packing, sharding, signatures
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.signatures import Signer
from hearth.plan.environment.inherited_rules import InheritedRules
from hearth.plan.ownership.applied_fields import AppliedFields
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.template.blueprint import StackIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOwner:
    """Whose child something is, as its labels and annotations tell."""

    stack: StackIdentity
    resource: str
    requires: tuple[str, ...]
    """`name/incarnation` of each resource that the manifest was evaluated against."""
    signer: Signer = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredObject:
    """What one resource's child is to be, as one of its incarnations."""

    resource: DesiredResource = field(repr=False)
    ref: ObjectRef
    incarnation: int
    is_adopted: bool = False
    """Whether it was somebody else's before, and goes on to say so."""

    @property
    def manifest(self) -> Object:
        """Complete; made anew at every call, as nobody asks for it while nothing changes."""
        return build_manifest(self)

    @property
    def kind(self) -> Kind:
        """Of the child."""
        return self.resource.kind

    @property
    def hash(self) -> str:
        """Of the definition."""
        return self.resource.hash

    @property
    def applied_fields(self) -> AppliedFields | None:
        """What others may keep of it; None where nothing."""
        return self.resource.applied_fields

    @property
    def inherited_rules(self) -> InheritedRules | None:
        """What of the manifest comes from the parent's environment; None where nothing."""
        return self.resource.inherited_rules

    @property
    def record(self) -> str:
        """What the object is to remember of what is stated; "" where that is nothing."""
        return self.applied_fields.record if self.applied_fields is not None else ""


@dataclass(slots=True, kw_only=True)
class DesiredResource:
    """An evaluated definition, whichever incarnation comes to carry it; made by `want`, and not changed since."""

    kind: Kind
    packed: bytes = field(repr=False)
    """JSON of a list whose only entry is the manifest as the user means it: nothing of ours in it."""
    name: str | None
    """The one that is stated."""
    namespace: str
    """Where the child is to be; "" for cluster scope."""
    hash: str
    """Of the manifest: our labels and a name of ours name the wish, and a change of theirs alone is no reason to write."""
    owner: ChildOwner
    applied_fields: AppliedFields | None = None
    """What others may keep of the manifest; None where nothing."""
    is_retained: bool = False
    """Whether the object is to say that it outlives its wish."""
    inherited_rules: InheritedRules | None = None
    """What the object is given of the parent's environment besides; None where that is nothing."""
    inputs: object = None
    """What it was made of: while that stays the same, so does this."""
    _incarnation: int = 0
    """That of `_ref`."""
    _ref: ObjectRef | None = field(default=None, repr=False)
    """As it was asked for last, which is mostly how it is asked for next."""

    @property
    def manifest(self) -> Object:
        """As the user means it, made anew at every call."""
        found: list[Object] = orjson.loads(self.packed)
        return found[0]

    @property
    def is_name_pinned(self) -> bool:
        """Whether every incarnation has the same name."""
        return bool(self.name)

    def at(self, incarnation: int, *, is_adopted: bool = False) -> DesiredObject:
        """That incarnation. is_adopted: it was somebody else's before, and goes on to say so."""
        return DesiredObject(
            resource=self, ref=self.ref_at(incarnation), incarnation=incarnation, is_adopted=is_adopted
        )

    def ref_at(self, incarnation: int) -> ObjectRef:
        """Where that incarnation is to be."""
        if self._ref is None or self._incarnation != incarnation:
            kind, name = self.kind, make_name(self, incarnation=incarnation)
            self._ref = ObjectRef(group=kind.group, kind=kind.name, namespace=self.namespace, name=name)
            self._incarnation = incarnation
        return self._ref


def make_desired(  # noqa: PLR0913 -- each is something else that the object is to show
    manifest: Object,
    *,
    kind: Kind,
    hash_: str,
    whose: ChildOwner,
    packed: bytes | None = None,
    statement: AppliedFields | None = None,
    is_retained: bool = False,
    inherited: InheritedRules | None = None,
    inputs: object = None,
) -> DesiredResource:
    """What is wanted by an evaluated manifest. packed: the same as `Wanted.packed` has it, where somebody keeps that anyway."""
    metadata = manifest.get("metadata") or {}
    return DesiredResource(
        kind=kind,
        packed=packing.pack([manifest]) if packed is None else packed,
        name=metadata.get("name"),
        namespace=metadata.get("namespace", whose.stack.namespace) if kind.namespaced else "",
        # The object has the same, so that one copy serves both.
        hash=sys.intern(hash_),
        owner=whose,
        applied_fields=statement,
        is_retained=is_retained,
        inherited_rules=inherited,
        inputs=inputs,
    )


def hash_desired(manifest: Object, *, is_retained: bool, hashes: HashFunction) -> str:
    """The hash of everything that a child is to show of its resource's definition.

    A policy that is not the usual one is part of it, so that its change alone is written too, once.
    """
    return hashes.hash([manifest, names.RETAIN]) if is_retained else hashes.hash(manifest)


def build_manifest(desired: DesiredObject) -> Object:
    """The object to apply."""
    wanted, ref = desired.resource, desired.ref
    manifest = wanted.manifest
    metadata = manifest["metadata"] = manifest.get("metadata") or {}
    if wanted.kind.namespaced:
        metadata["namespace"] = ref.namespace
    metadata["name"] = ref.name
    add_tracking_metadata(metadata, wanted, ref=ref, incarnation=desired.incarnation)
    if wanted.inherited_rules is not None:
        manifest = wanted.inherited_rules.merge_into(manifest)
    return with_adopted(manifest) if desired.is_adopted else manifest


def make_name(wanted: DesiredResource, *, incarnation: int) -> str:
    """The name of a child: the one that is stated, else one of ours."""
    if wanted.name is not None:
        return wanted.name
    whose = wanted.owner
    return names.child_name(
        stack=whose.stack.name,
        stack_namespace=whose.stack.namespace,
        stack_uid=whose.stack.uid,
        resource=whose.resource,
        incarnation=incarnation,
        namespace=wanted.namespace,
    )


def add_tracking_metadata(metadata: Object, wanted: DesiredResource, *, ref: ObjectRef, incarnation: int) -> None:
    """Write into `metadata` whose child this is: all that a restarted controller must know of it."""
    whose, stack = wanted.owner, wanted.owner.stack
    requires = ",".join(whose.requires)
    identity = names.identity(
        stack_uid=stack.uid, group=ref.group, kind=ref.kind, namespace=ref.namespace, name=ref.name
    )
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        names.LABEL_STACK_UID: stack.uid,
        names.LABEL_STACK: names.stack_label(stack.name),
        names.LABEL_RESOURCE: whose.resource,
        names.LABEL_BUCKET: sharding.label_of(stack.uid),
    }
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        names.ANNOTATION_IDENTITY: identity,
        names.ANNOTATION_SIGNATURE: signatures.write(
            identity, resource=whose.resource, incarnation=incarnation, requires=requires, signer=whose.signer
        ),
        names.ANNOTATION_INCARNATION: str(incarnation),
        names.ANNOTATION_HASH: wanted.hash,
        names.ANNOTATION_REQUIRES: requires,
    }
    if wanted.applied_fields is not None:
        metadata["annotations"][names.ANNOTATION_LAST_APPLIED] = wanted.applied_fields.record
    if wanted.inherited_rules is not None:
        metadata["annotations"][names.ANNOTATION_INHERITED_RULES] = wanted.inherited_rules.digest
    if wanted.is_retained:
        metadata["annotations"][names.ANNOTATION_DELETION_POLICY] = names.RETAIN


def with_adopted(manifest: Object) -> Object:
    """The same object, saying that it was somebody else's before; the original stays as it is."""
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], names.ANNOTATION_ADOPTED: names.ADOPTED}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
