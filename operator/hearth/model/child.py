"""The slim view of one real object that the watch cache keeps, and how it is read off the object.

Knows the shape of objects and of `managedFields`; must not know where they come from, nor judge them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from hearth.model import limits, names, packing
from hearth.model import signatures as signatures_module
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.signatures import Facts, Signatures

Object: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]
"""A way into an object: `("spec", "replicas")`."""

METADATA_KEPT = ("name", "namespace", "uid", "generation", "labels", "annotations", "creationTimestamp")
MEMBER = frozenset({"."})
"""The key with which `fieldsV1` marks a level that is itself owned, besides what is below it."""
UNPROVEN = "?"
"""Stands for the resource of all objects that carry a Stack's label without its signature: no resource has such a name."""
UNHEALTHY_WITHOUT_REASON = f"marked by the annotation {names.ANNOTATION_UNHEALTHY}, which gives no reason"
"""The reason of a mark that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOwnership:
    """Our entry in `managedFields`, and what judging it will need (kept small; see `hearth.plan.ownership.field_ownership`)."""

    fields: bytes
    """The entry's `fieldsV1` as JSON."""
    collapsed: tuple[Path, ...] = ()
    """The leaves of the entry that only look as if they were owned whole, as ways into `fields`: free-form maps (and
    keyed lists in them) of which every key that we stated was taken or removed by others."""
    is_scaled: bool = False
    """Whether `spec.replicas` is somebody's who set it through the scale subresource: an autoscaler, `kubectl scale`; or
    was put back for them after it was suspended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One real object that carries a Stack's label."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    resource_version: int
    deleting: bool
    finalizers: tuple[str, ...]
    stack_uid: str
    resource: str
    incarnation: int
    hash: str
    requires: tuple[str, ...]
    """`name/incarnation` of each resource that it was evaluated against."""
    is_identified: bool
    """Whether our signature proves that this very object is a child, now or in an earlier state that this process has seen;
    labels that were copied or forged make no child. Without it, whatever is said here of a resource, an incarnation or a
    Stack is a claim and nothing more."""
    is_signed: bool
    """Whether the signature is valid now."""
    is_labelled_by_us: bool
    """Whether an apply of ours owns the label with the Stack's UID; only looked at where nothing is signed."""
    is_retained: bool
    """Whether it says itself that it is to be kept when nothing wants it any more."""
    is_adopted: bool
    """Whether it was somebody else's before."""
    is_held_down: bool
    """Whether the field manager of suspending states fields of its spec."""
    has_record: bool
    """Whether it carries the annotation `hearth.dev/suspended` at all, whoever wrote that."""
    has_own_record: bool
    """Whether the field manager of suspending owns the annotation `hearth.dev/suspended`."""
    fields: Mapping[str, Any]
    """The object cut down to what expressions and health rules read; always holds apiVersion, kind, metadata."""
    ownership: FieldOwnership | None
    """None where no entry of a Hearth manager is left."""
    defect: str = ""
    """Why parts of the object cannot be read, which are missing in `fields`; "" where all of it is there."""
    omitted: tuple[Path, ...] = ()
    """What of the fields that somebody reads is not in `fields`, since it is too large."""
    size: int = 0
    """KiB that `fields` takes as JSON, where somebody counts them: a number that is small takes no memory itself."""

    @property
    def signature(self) -> str:
        """As its annotation says, valid or not."""
        return str((self.fields["metadata"].get("annotations") or {}).get(names.ANNOTATION_SIGNATURE, ""))

    @property
    def index_key(self) -> str:
        """The resource that it is known under."""
        return self.resource if self.is_identified else UNPROVEN

    @property
    def must_not_delete(self) -> bool:
        """Whether it says itself that it must not be deleted."""
        return self.is_retained or self.is_adopted

    @property
    def unhealthy_reason(self) -> str | None:
        """Why somebody calls it unhealthy; None where nobody does."""
        annotations = self.fields["metadata"].get("annotations") or {}
        if names.ANNOTATION_UNHEALTHY not in annotations:
            return None
        return annotations[names.ANNOTATION_UNHEALTHY].strip() or UNHEALTHY_WITHOUT_REASON

    @property
    def ref(self) -> ObjectRef:
        """Where it is."""
        return ObjectRef(group=self.kind.group, kind=self.kind.name, namespace=self.namespace, name=self.name)


def parse_child(
    raw: Mapping[str, Any],
    *,
    kind: Kind,
    paths: Iterable[Path],
    signatures: Signatures | None = None,
    known: Child | None = None,
) -> Child:
    """The slim view of `raw`, keeping the fields under `paths` besides the metadata.

    signatures: tells ours from others; without it none is believed. known: an earlier state of the same object.
    """
    metadata = raw["metadata"]
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    namespace = metadata.get("namespace", "")
    stack_uid = labels.get(names.LABEL_STACK_UID, "")
    signed = find_facts(metadata, kind=kind, stack_uid=stack_uid, signatures=signatures, known=known)
    facts = signed if signed is not None else recall_facts(known, stack_uid=stack_uid)
    return Child(
        kind=kind,
        namespace=namespace,
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        stack_uid=stack_uid,
        resource=sys.intern(facts.resource if facts is not None else labels.get(names.LABEL_RESOURCE, "")),
        incarnation=facts.incarnation
        if facts is not None
        else parse_incarnation(annotations.get(names.ANNOTATION_INCARNATION, "")),
        hash=annotations.get(names.ANNOTATION_HASH, ""),
        requires=read_requires(annotations, facts),
        is_identified=facts is not None,
        is_signed=signed is not None,
        is_labelled_by_us=facts is None and is_labelled(metadata),
        is_retained=annotations.get(names.ANNOTATION_DELETION_POLICY) == names.RETAIN,
        is_adopted=annotations.get(names.ANNOTATION_ADOPTED) == names.ADOPTED,
        is_held_down=any(map(is_held, metadata.get("managedFields") or ())),
        has_record=names.ANNOTATION_SUSPENDED in annotations,
        has_own_record=names.ANNOTATION_SUSPENDED in annotations and holds_record(metadata),
        fields=project_fields(raw, kind=kind, paths=paths),
        ownership=find_ownership(raw),
    )


def find_facts(
    metadata: Mapping[str, Any], *, kind: Kind, stack_uid: str, signatures: Signatures | None, known: Child | None
) -> Facts | None:
    """What our signature on the object proves of it; None where that is nothing."""
    text = (metadata.get("annotations") or {}).get(names.ANNOTATION_SIGNATURE, "")
    if not text or signatures is None:
        return None
    if known is not None and known.is_signed and known.stack_uid == stack_uid and known.signature == text:
        # Proven before. Most events change something else, and the proof costs more than all the rest of them.
        return signatures_module.parse(text.rpartition("/")[0])
    identity = names.identity(
        stack_uid=stack_uid,
        group=kind.group,
        kind=kind.name,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )
    return signatures_module.read(identity, text, signatures=signatures)


def recall_facts(known: Child | None, *, stack_uid: str) -> Facts | None:
    """What was proven of an earlier state of the same object, while its label names the same Stack.

    So nobody sets an object free by taking the signature off while its Stack is deleted or suspended, and signs nothing.
    """
    if known is None or not known.is_identified or known.stack_uid != stack_uid:
        return None
    requires = signatures_module.digest(",".join(known.requires))
    return Facts(resource=known.resource, incarnation=known.incarnation, requires=requires)


def read_requires(annotations: Mapping[str, str], facts: Facts | None) -> tuple[str, ...]:
    """What the object was evaluated against; nothing where that is not what we wrote."""
    text = annotations.get(names.ANNOTATION_REQUIRES, "")
    if not text or facts is None or signatures_module.digest(text) != facts.requires:
        return ()
    return tuple(text.split(","))


def parse_incarnation(text: str) -> int:
    """The number that `text` states; 1 where somebody has spoilt it."""
    is_count = text.isascii() and text.isdigit() and len(text) <= limits.COUNT_DIGITS
    return int(text) if is_count else 1


def project_fields(raw: Mapping[str, Any], *, kind: Kind, paths: Iterable[Path]) -> Object:
    """`raw` with its identifying metadata and what lies under `paths`, nothing else."""
    metadata = raw["metadata"]
    kept: Object = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {key: metadata[key] for key in METADATA_KEPT if key in metadata},
    }
    for path in paths:
        copy_path(raw, kept, path)
    return kept


def find_whole(raw: Mapping[str, Any]) -> list[Path]:
    """The paths under which all of an object is, its status and its identifying fields excepted."""
    return [(key,) for key in raw if key not in ("apiVersion", "kind", "metadata", "status")]


def copy_path(source: Mapping[str, Any], target: Object, path: Path) -> None:
    """Let `target` share what `source` has under `path`; nothing where `source` has nothing there."""
    for key in path[:-1]:
        inner = source.get(key)
        if not isinstance(inner, dict):
            return
        source = inner
        existing = target.get(key)
        # A map that was shared whole already holds what this path asks for.
        if existing is inner:
            return
        target = target.setdefault(key, {})
    if path[-1] in source:
        target[path[-1]] = source[path[-1]]


def find_ownership(raw: Mapping[str, Any]) -> FieldOwnership | None:
    """Our entry in the object's `managedFields`, if there is one."""
    entries = raw["metadata"].get("managedFields") or ()
    entry = find_entry(entries)
    if entry is None:
        return None
    fields = entry.get("fieldsV1") or {}
    others = [other["fieldsV1"] for other in entries if other is not entry and other.get("fieldsV1")]
    return FieldOwnership(
        fields=packing.pack(fields),
        collapsed=tuple(find_collapsed(fields, others, raw, path=())),
        is_scaled=any(map(is_scale, entries)),
    )


def is_scale(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of `managedFields` holds the replica count by way of the scale subresource, or in its stead."""
    is_meant = entry.get("subresource") == "scale" or entry.get("manager") == names.SUSPEND_FIELD_MANAGER
    return is_meant and "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})


def find_entry(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The entry of the Stack that the object belongs to.

    An object that went from one Stack to another carries an entry of both: the one that holds the label with the
    Stack's UID is the owner's, since no two Stacks can state the same one.
    """
    ours = [entry for entry in entries if is_ours(entry)]
    if len(ours) > 1:
        return next((entry for entry in ours if holds_label(entry)), ours[0])
    return ours[0] if ours else None


def is_ours(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of `managedFields` was made by an apply of Hearth to the object itself."""
    return (
        str(entry.get("manager", "")).startswith(names.FIELD_MANAGER_PREFIX)
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    )


def is_held(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of `managedFields` is that of suspending, with a field of the spec."""
    return entry.get("manager") == names.SUSPEND_FIELD_MANAGER and "f:spec" in (entry.get("fieldsV1") or {})


def holds_record(metadata: Mapping[str, Any]) -> bool:
    """Whether the field manager of suspending owns the annotation in which the object remembers how it was."""
    key = f"f:{names.ANNOTATION_SUSPENDED}"
    return any(
        entry.get("manager") == names.SUSPEND_FIELD_MANAGER
        and key in (((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {})
        for entry in metadata.get("managedFields") or ()
    )


def is_labelled(metadata: Mapping[str, Any]) -> bool:
    """Whether an apply of ours owns the label with the Stack's UID, as the API server recorded it."""
    return any(is_ours(entry) and holds_label(entry) for entry in metadata.get("managedFields") or ())


def holds_label(entry: Mapping[str, Any]) -> bool:
    """Whether the entry owns the label with the Stack's UID."""
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return f"f:{names.LABEL_STACK_UID}" in (metadata.get("f:labels") or {})


def find_collapsed(
    fields: Mapping[str, Any], others: Sequence[Mapping[str, Any]], live: Any, *, path: Path
) -> list[Path]:
    """The leaves of `fields` that `Ownership.collapsed` describes.

    others: the same level of every other entry; live: the same level of the object, None where it was not loaded.
    A leaf is normally an atomic map: nobody can own a part of it, and it is not empty unless we stated it so. Where
    others own parts, or nothing is left, it was a map with keys of ours, and they are gone.
    """
    found: list[Path] = []
    # Runs for every field of every watch event: hence no generator, and no call where a look will do.
    is_map = isinstance(live, dict)
    for key, inner in fields.items():
        value = live.get(key[2:]) if is_map else find_item(live, key)
        theirs = [other[key] for other in others if key in other] if others else others
        if inner and inner.keys() != MEMBER:
            if theirs or value is not None:
                found += find_collapsed(inner, theirs, value, path=(*path, key))
        elif (not value and isinstance(value, dict | list)) or (
            theirs and any(their.keys() - MEMBER for their in theirs)
        ):
            found.append((*path, key))
    return found


def find_item(live: Any, key: str) -> Any:
    """The item of a keyed list that a key of `fieldsV1` names; None where that is nothing or not known."""
    if not isinstance(live, list) or not key.startswith("k:"):
        return None
    wanted = parse_key(key)
    for item in live:
        if isinstance(item, dict) and all(item.get(name) == value for name, value in wanted.items()):
            return item
    return None


@functools.lru_cache(maxsize=4096)
def parse_key(key: str) -> Mapping[str, Any]:
    """The key fields that name a list item in `fieldsV1`: `k:{"name":"web"}`. Remembered: few differ, all recur."""
    parsed: Mapping[str, Any] = orjson.loads(key[2:])
    return parsed
