"""From an evaluated manifest to the complete object that is applied: name, namespace, labels, annotations, hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.template.blueprint import StackIdentity


class Hashes(Protocol):
    """A keyed hash of any JSON value."""

    def hash(self, value: object) -> str:
        """The same text for the same value and key."""

    def is_comparable(self, text: str) -> bool:
        """Whether `text` was made by this key and algorithm; if not it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What one resource's child is to be."""

    kind: Kind
    ref: ObjectRef
    manifest: Object
    """Complete: shared by every pass, never changed in place."""
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standpoint:
    """Whose child something is, as its labels and annotations tell."""

    stack: StackIdentity
    resource: str
    incarnation: int
    requires: tuple[str, ...]
    """`name/incarnation` of each resource that the manifest was evaluated against."""


def complete(manifest: Object, whose: Standpoint, *, kind: Kind, hashes: Hashes) -> Desired:
    """The object to apply for an evaluated `manifest`, which is taken over and changed in place."""
    stack = whose.stack
    metadata = manifest.setdefault("metadata", {})
    namespace = metadata.setdefault("namespace", stack.namespace) if kind.namespaced else ""
    name = metadata.setdefault(
        "name",
        names.child_name(
            stack=stack.name,
            stack_namespace=stack.namespace,
            stack_uid=stack.uid,
            resource=whose.resource,
            incarnation=whose.incarnation,
            namespace=namespace,
        ),
    )
    # The hash comes before our labels: they name the wish, and a change of theirs alone is no reason to write.
    hashed = hashes.hash(manifest)
    ref = ObjectRef(group=kind.group, kind=kind.name, namespace=namespace, name=name)
    sign(metadata, whose, ref=ref, hashed=hashed)
    return Desired(kind=kind, ref=ref, manifest=manifest, hash=hashed)


def sign(metadata: Object, whose: Standpoint, *, ref: ObjectRef, hashed: str) -> None:
    """Write into `metadata` whose child this is: all that a restarted controller must know of it."""
    stack = whose.stack
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        names.LABEL_STACK_UID: stack.uid,
        names.LABEL_STACK: names.stack_label(stack.name),
        names.LABEL_RESOURCE: whose.resource,
    }
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        names.ANNOTATION_IDENTITY: names.identity(
            stack_uid=stack.uid, group=ref.group, kind=ref.kind, namespace=ref.namespace, name=ref.name
        ),
        names.ANNOTATION_INCARNATION: str(whose.incarnation),
        names.ANNOTATION_HASH: hashed,
        names.ANNOTATION_REQUIRES: ",".join(whose.requires),
    }
