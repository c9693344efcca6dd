"""From an evaluated manifest to the complete objects that may stand for it: named, labelled, annotated, hashed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hearth.model import names, shards
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.inheritance import Inheritance
from hearth.plan.stated import Statement
from hearth.template.blueprint import StackIdentity


class Hashes(Protocol):
    """A keyed hash of any JSON value."""

    def hash(self, value: object) -> str:
        """The same text for the same value and key."""

    def is_comparable(self, text: str) -> bool:
        """Whether `text` was made by this key and algorithm; if not it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standpoint:
    """Whose child something is, as its labels and annotations tell."""

    stack: StackIdentity
    resource: str
    requires: tuple[str, ...]
    """`name/incarnation` of each resource that the manifest was evaluated against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What one resource's child is to be, as one of its incarnations."""

    kind: Kind
    ref: ObjectRef
    incarnation: int
    manifest: Object = field(repr=False)
    """Complete: shared by every pass, never changed in place."""
    hash: str
    statement: Statement | None = None
    """What others may keep of it; None where nothing."""
    inherited: Inheritance | None = None
    """What of the manifest comes from the parent's environment; None where nothing."""

    @property
    def record(self) -> str:
        """What the object is to remember of what is stated; "" where that is nothing."""
        return self.statement.record if self.statement is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An evaluated definition, whichever incarnation comes to carry it."""

    kind: Kind
    manifest: Object = field(repr=False)
    """As the user means it: nothing of ours in it. Shared, never changed in place."""
    hash: str
    """Of the manifest: our labels and a name of ours name the wish, and a change of theirs alone is no reason to write."""
    whose: Standpoint
    statement: Statement | None = None
    """What others may keep of the manifest; None where nothing."""
    is_retained: bool = False
    """Whether the object is to say that it outlives its wish."""
    inherited: Inheritance | None = None
    """What the object is given of the parent's environment besides; None where that is nothing."""
    _incarnations: dict[tuple[int, bool], Desired] = field(default_factory=dict, repr=False)

    @property
    def is_name_pinned(self) -> bool:
        """Whether every incarnation has the same name."""
        return bool((self.manifest.get("metadata") or {}).get("name"))

    def at(self, incarnation: int, *, is_adopted: bool = False) -> Desired:
        """The complete object of that incarnation. is_adopted: it was somebody else's before, and goes on to say so."""
        found = self._incarnations.get((incarnation, is_adopted))
        if found is None:
            found = complete(self, incarnation=incarnation, is_adopted=is_adopted)
            self._incarnations[incarnation, is_adopted] = found
        return found


def hash_wish(manifest: Object, *, is_retained: bool, hashes: Hashes) -> str:
    """The hash of everything that a child is to show of its resource's definition.

    A policy that is not the usual one is part of it, so that its change alone is written too, once.
    """
    return hashes.hash([manifest, names.RETAIN]) if is_retained else hashes.hash(manifest)


def complete(wanted: Wanted, *, incarnation: int, is_adopted: bool) -> Desired:
    """The object to apply."""
    kind, whose = wanted.kind, wanted.whose
    metadata = dict(wanted.manifest.get("metadata") or {})
    namespace = metadata.setdefault("namespace", whose.stack.namespace) if kind.namespaced else ""
    name = metadata.setdefault("name", make_name(whose, incarnation=incarnation, namespace=namespace))
    ref = ObjectRef(group=kind.group, kind=kind.name, namespace=namespace, name=name)
    sign(metadata, wanted, ref=ref, incarnation=incarnation)
    manifest = {**wanted.manifest, "metadata": metadata}
    if wanted.inherited is not None:
        manifest = wanted.inherited.lay_over(manifest)
    if is_adopted:
        manifest = adopted(manifest)
    return Desired(
        kind=kind,
        ref=ref,
        incarnation=incarnation,
        manifest=manifest,
        hash=wanted.hash,
        statement=wanted.statement,
        inherited=wanted.inherited,
    )


def make_name(whose: Standpoint, *, incarnation: int, namespace: str) -> str:
    """The name of a child whose manifest does not state one."""
    return names.child_name(
        stack=whose.stack.name,
        stack_namespace=whose.stack.namespace,
        stack_uid=whose.stack.uid,
        resource=whose.resource,
        incarnation=incarnation,
        namespace=namespace,
    )


def sign(metadata: Object, wanted: Wanted, *, ref: ObjectRef, incarnation: int) -> None:
    """Write into `metadata` whose child this is: all that a restarted controller must know of it."""
    stack = wanted.whose.stack
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        names.LABEL_STACK_UID: stack.uid,
        names.LABEL_STACK: names.stack_label(stack.name),
        names.LABEL_RESOURCE: wanted.whose.resource,
        names.LABEL_BUCKET: shards.label_of(stack.uid),
    }
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        names.ANNOTATION_IDENTITY: names.identity(
            stack_uid=stack.uid, group=ref.group, kind=ref.kind, namespace=ref.namespace, name=ref.name
        ),
        names.ANNOTATION_INCARNATION: str(incarnation),
        names.ANNOTATION_HASH: wanted.hash,
        names.ANNOTATION_REQUIRES: ",".join(wanted.whose.requires),
    }
    if wanted.statement is not None:
        metadata["annotations"][names.ANNOTATION_STATED] = wanted.statement.record
    if wanted.inherited is not None:
        metadata["annotations"][names.ANNOTATION_INHERITED] = wanted.inherited.record
    if wanted.is_retained:
        metadata["annotations"][names.ANNOTATION_DELETION_POLICY] = names.RETAIN


def adopted(manifest: Object) -> Object:
    """The same object, saying that it was somebody else's before; the original stays as it is."""
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], names.ANNOTATION_ADOPTED: names.ADOPTED}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
