"""`Child`, the reduced view of a live object that the watch cache stores, and its parser.

It parses `managedFields` and Hearth's own metadata.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from hearth.model import child_fields, former_appliers, limits, names, object_fields, packing, value_class
from hearth.model import signatures as signatures_module
from hearth.model.child_fields import KnownTexts
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.signatures import Facts, Signatures
from hearth.model.text import redaction

Object: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]
"""A path into an object: `("spec", "replicas")`."""

FINALIZERS: Path = ("metadata", "finalizers")
"""Marks a child with more finalizers than it keeps: they must be read before they are changed."""
TEXT_MAPS = frozenset({("f:metadata", "f:labels"), ("f:metadata", "f:annotations")})
"""The maps of `fieldsV1` that every object has, and that contain only texts."""
MEMBER = frozenset({"."})
"""The key in `fieldsV1` for a level that is itself owned, in addition to the fields below it."""
UNPROVEN = "?"
"""The resource name for all objects that carry a Stack's label without its signature. No real resource can have this
name."""
SEPARATOR = "\0"
"""Separates names of outputs; no name contains it."""
EVERY_OUTPUT = "*"
"""Stands for the sensitive outputs of a Stack that has too many of them."""
UNHEALTHY_WITHOUT_REASON = f"marked by the annotation {names.ANNOTATION_UNHEALTHY}, which gives no reason"
"""The reason of an unhealthy mark that has no reason."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class FieldOwnership:
    """Hearth's entry in `managedFields`, reduced to what `hearth.plan.ownership.field_ownership` needs."""

    fields: bytes
    """The entry's `fieldsV1` as JSON."""
    collapsed: tuple[Path, ...] = ()
    """Leaves of the entry that only appear to be owned as a whole, as paths into `fields`: free-form maps (and keyed
    lists in them) where other field managers took over or removed every key that Hearth applied.
    """
    is_scaled: bool = False
    """Whether `spec.replicas`, if there is one, was set through the scale subresource (an autoscaler, `kubectl scale`), or
    restored for its writer after a suspend."""
    api_version: str = ""
    """The apiVersion of the last apply, which may differ from the version in the current definition."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
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
    """Whether Hearth's signature proves that this object is a child, now or in an earlier state that this process has
    seen. Copied or forged labels make no child. Without proof, all data here about a resource, an incarnation or a
    Stack is only a claim."""
    is_signed: bool
    """Whether the signature is valid now."""
    is_labelled_by_us: bool
    """Whether an apply by Hearth owns the label with the Stack's UID. Only checked on objects that are not signed."""
    is_retained: bool
    """Whether an annotation retains the object when it is obsolete, because of its own policy or its content."""
    is_adopted: bool
    """Whether the object existed before Hearth adopted it."""
    is_shared: bool
    """Whether the object was adopted, and a program that applied it before owns fields that Hearth applies as well."""
    is_held_down: bool
    """Whether the field manager for suspend owns fields of its spec."""
    has_record: bool
    """Whether it carries the annotation `hearth.dev/suspended`, no matter who wrote it."""
    has_own_record: bool
    """Whether the field manager for suspend owns the annotation `hearth.dev/suspended`."""
    signature: str
    """The signature annotation, valid or not."""
    packed_fields: bytes
    """`fields` as JSON, see `hearth.model.child_fields`."""
    ownership: FieldOwnership | None
    """None if the object has no entry of a Hearth field manager."""
    defect: str = ""
    """Why parts of the object cannot be read and are missing in `fields`, or "" if the object is complete."""
    omitted: tuple[Path, ...] = ()
    """The required fields that are not in `fields` because they are too large."""
    size: int = 0
    """Memory in bytes that an external object takes; 0 for a child."""
    hidden_outputs: str = ""
    """For a Stack, the names of the outputs whose values it hides, see `list_hidden_outputs`."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """Return the object reduced to what expressions and health rules read; it always has apiVersion, kind and metadata.

        Takes 4 µs for an object of 1 KiB, and a twentieth of that if it was read recently. Do not modify the result.
        """
        known = child_fields.recent.find(self)
        if known is not None:
            return known
        fields = child_fields.unpack(self.packed_fields, self.known_texts)
        return child_fields.recent.keep(self, fields, size=len(self.packed_fields))

    @property
    def known_texts(self) -> KnownTexts:
        """Return the texts of the fields that the child also stores in other attributes."""
        return KnownTexts(self.kind, self.namespace, self.name, self.uid, self.stack_uid, self.hash, self.signature)

    @property
    def index_key(self) -> str:
        """Return the name of the resource under which the object is indexed."""
        return self.resource if self.is_identified else UNPROVEN

    @property
    def must_not_delete(self) -> bool:
        """Return whether an annotation of the object forbids its deletion."""
        return self.is_retained or self.is_adopted

    @property
    def unhealthy_reason(self) -> str | None:
        """Return why the object is marked unhealthy, or None if it is not marked."""
        annotations = self.fields["metadata"].get("annotations") or {}
        if names.ANNOTATION_UNHEALTHY not in annotations:
            return None
        return annotations[names.ANNOTATION_UNHEALTHY].strip() or UNHEALTHY_WITHOUT_REASON

    @property
    def marked_by(self) -> str:
        """Return the HealthMark that the mark comes from, or "" if none is known."""
        return str((self.fields["metadata"].get("annotations") or {}).get(names.ANNOTATION_MARKED_BY, ""))

    @property
    def restarted_by(self) -> str:
        """Return the HealthMark for which the Pods were restarted last; "" for none."""
        return str((self.fields["metadata"].get("annotations") or {}).get(names.ANNOTATION_RESTARTED_BY, ""))

    @property
    def ref(self) -> ObjectRef:
        """Return the reference to the object."""
        return ObjectRef(group=self.kind.group, kind=self.kind.name, namespace=self.namespace, name=self.name)


def parse_child(
    raw: Mapping[str, Any],
    *,
    kind: Kind,
    paths: Iterable[Path],
    signatures: Signatures | None = None,
    known: Child | None = None,
) -> Child:
    """Parse the reduced view of `raw`: the metadata and the fields under `paths`.

    signatures: verifies Hearth's signatures; without it, none is trusted. known: an earlier state of the same object.
    """
    metadata = raw["metadata"]
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    entries = metadata.get("managedFields") or ()
    suspending = [entry for entry in entries if entry.get("manager") == names.SUSPEND_FIELD_MANAGER]
    namespace = sys.intern(metadata.get("namespace", ""))
    stack_uid = sys.intern(labels.get(names.LABEL_STACK_UID, ""))
    signed = find_facts(metadata, kind=kind, stack_uid=stack_uid, signatures=signatures, known=known)
    facts = signed if signed is not None else recall_facts(known, stack_uid=stack_uid)
    texts = KnownTexts(
        kind=kind,
        namespace=namespace,
        name=metadata["name"],
        uid=metadata["uid"],
        stack_uid=stack_uid,
        hash=annotations.get(names.ANNOTATION_HASH, ""),
        signature=annotations.get(names.ANNOTATION_SIGNATURE, ""),
    )
    return Child(
        kind=kind,
        namespace=namespace,
        name=texts.name,
        uid=texts.uid,
        resource_version=int(metadata["resourceVersion"]),
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        stack_uid=stack_uid,
        resource=sys.intern(facts.resource if facts is not None else labels.get(names.LABEL_RESOURCE, "")),
        incarnation=facts.incarnation
        if facts is not None
        else parse_incarnation(annotations.get(names.ANNOTATION_INCARNATION, "")),
        hash=texts.hash,
        requires=read_requires(annotations, facts),
        is_identified=facts is not None,
        is_signed=signed is not None,
        is_labelled_by_us=facts is None and is_labelled(metadata),
        is_retained=annotations.get(names.ANNOTATION_DELETION_POLICY) == names.RETAIN
        or names.ANNOTATION_KEEPS in annotations,
        is_adopted=annotations.get(names.ANNOTATION_ADOPTED) == names.ADOPTED,
        is_shared=annotations.get(names.ANNOTATION_ADOPTED) == names.ADOPTED
        and former_appliers.is_shared(entries, find_entry(entries)),
        is_held_down=any(map(is_held, suspending)),
        has_record=names.ANNOTATION_SUSPENDED in annotations,
        has_own_record=names.ANNOTATION_SUSPENDED in annotations and any(map(holds_record, suspending)),
        signature=texts.signature,
        packed_fields=child_fields.pack(child_fields.project_fields(raw, kind=kind, paths=paths), texts),
        ownership=find_ownership(raw),
        hidden_outputs=list_hidden_outputs(raw) if names.is_stack(kind.group, kind.name) else "",
    )


def list_hidden_outputs(stack: Any) -> str:
    """Return the names of the outputs whose values a Stack hides, each between separators; `EVERY_OUTPUT` for too many.

    Expressions look at thousands of Stacks for them, too many to unpack.
    """
    outputs = object_fields.mapping(stack, "status", "outputs")
    found = SEPARATOR.join(name for name, value in outputs.items() if value == redaction.SENSITIVE)
    if len(found) > limits.HIDDEN_OUTPUTS_LENGTH:
        return EVERY_OUTPUT
    return f"{SEPARATOR}{found}{SEPARATOR}" if found else ""


def find_hidden_output(hidden: str, wanted: Collection[str], *, or_any: bool) -> str:
    """Return the first of the wanted outputs that is among `list_hidden_outputs`, or any hidden one; "" for none."""
    if not hidden:
        return ""
    if hidden == EVERY_OUTPUT:
        return next(iter(wanted), "*" if or_any else "")
    found = next((name for name in wanted if f"{SEPARATOR}{name}{SEPARATOR}" in hidden), "")
    return found or (hidden.split(SEPARATOR, 2)[1] if or_any else "")


def find_facts(
    metadata: Mapping[str, Any], *, kind: Kind, stack_uid: str, signatures: Signatures | None, known: Child | None
) -> Facts | None:
    """Return what Hearth's signature on the object proves, or None if it proves nothing."""
    text = (metadata.get("annotations") or {}).get(names.ANNOTATION_SIGNATURE, "")
    if not text or signatures is None:
        return None
    if known is not None and known.is_signed and known.stack_uid == stack_uid and known.signature == text:
        # The signature was verified before. Most events change other fields, and verification costs more than the rest
        # of the parser.
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
    """Return the proof from an earlier state of the same object, while its label names the same Stack.

    This way, removing the signature cannot free an object while its Stack is deleted or suspended and signs nothing.
    """
    if known is None or not known.is_identified or known.stack_uid != stack_uid:
        return None
    requires = signatures_module.digest(",".join(known.requires))
    return Facts(resource=known.resource, incarnation=known.incarnation, requires=requires)


def read_requires(annotations: Mapping[str, str], facts: Facts | None) -> tuple[str, ...]:
    """Parse the inputs of the object's evaluation. Returns an empty result if the value is not in Hearth's format."""
    text = annotations.get(names.ANNOTATION_REQUIRES, "")
    if not text or facts is None or signatures_module.digest(text) != facts.requires:
        return ()
    return tuple(text.split(","))


def parse_incarnation(text: str) -> int:
    """Parse the number in `text`; 1 if the value is invalid."""
    is_count = text.isascii() and text.isdigit() and len(text) <= limits.COUNT_DIGITS
    return int(text) if is_count else 1


def find_ownership(raw: Mapping[str, Any]) -> FieldOwnership | None:
    """Return Hearth's entry in the object's `managedFields`, if there is one."""
    entries = raw["metadata"].get("managedFields") or ()
    entry = find_entry(entries)
    if entry is None:
        return None
    fields = entry.get("fieldsV1") or {}
    others = [other["fieldsV1"] for other in entries if other is not entry and other.get("fieldsV1")]
    return FieldOwnership(
        fields=packing.pack(fields),
        collapsed=tuple(find_collapsed(fields, others, raw, path=())),
        is_scaled=is_scaled(entries),
        api_version=sys.intern(str(entry.get("apiVersion", ""))),
    )


def is_scale(entry: Mapping[str, Any]) -> bool:
    """Return whether a `managedFields` entry owns the replica count through the scale subresource, or on its behalf."""
    is_meant = entry.get("subresource") == "scale" or entry.get("manager") == names.SUSPEND_FIELD_MANAGER
    return is_meant and owns_replicas(entry)


def is_scaled(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a replica count, if the spec has one, was last written through the scale subresource.

    entries: the `managedFields` of the object. A write of 0 through that subresource removes all owners of the count
    and records no new owner; later writes through it record none either (API server 1.36). A count without an owner
    therefore comes from the scale subresource.
    """
    return any(map(is_scale, entries)) or (any(map(is_held, entries)) and not any(map(owns_replicas, entries)))


def owns_replicas(entry: Mapping[str, Any]) -> bool:
    """Return whether a `managedFields` entry owns the replica count."""
    return "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})


def find_entry(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Find the entry of the Stack that the object belongs to.

    An object that moved from one Stack to another carries an entry of each. The owner's entry is the one that owns the
    label with the Stack's UID, because no two Stacks can apply the same UID.
    """
    ours = [entry for entry in entries if former_appliers.is_of_stack(entry)]
    if len(ours) > 1:
        return next((entry for entry in ours if holds_label(entry)), ours[0])
    return ours[0] if ours else None


def is_applied_by_us(entry: Mapping[str, Any]) -> bool:
    """Return whether Hearth made this `managedFields` entry, by an apply of a definition or by suspending."""
    is_suspending = entry.get("manager") == names.SUSPEND_FIELD_MANAGER and entry.get("operation") == "Apply"
    return is_suspending or former_appliers.is_of_stack(entry)


def is_held(entry: Mapping[str, Any]) -> bool:
    """Return whether a `managedFields` entry owns a field of the spec."""
    return "f:spec" in (entry.get("fieldsV1") or {})


def holds_record(entry: Mapping[str, Any]) -> bool:
    """Return whether a `managedFields` entry owns the annotation that records the object's earlier fields."""
    owned = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {}
    return f"f:{names.ANNOTATION_SUSPENDED}" in owned


def is_labelled(metadata: Mapping[str, Any]) -> bool:
    """Return whether an apply by Hearth owns the label with the Stack's UID, as the API server recorded it."""
    return any(
        former_appliers.is_of_stack(entry) and holds_label(entry) for entry in metadata.get("managedFields") or ()
    )


def holds_label(entry: Mapping[str, Any]) -> bool:
    """Return whether the entry owns the label with the Stack's UID."""
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return f"f:{names.LABEL_STACK_UID}" in (metadata.get("f:labels") or {})


def find_collapsed(
    fields: Mapping[str, Any], others: Sequence[Mapping[str, Any]], live: Any, *, path: Path
) -> list[Path]:
    """Find the leaves of `fields` that `FieldOwnership.collapsed` describes.

    others: the same level of every other entry; live: the same level of the object, None if it was not loaded. A leaf
    is normally an atomic map. No field manager can own a part of an atomic map, and it is empty only if Hearth applied
    an empty map. If others own parts of it, or the map is empty now, its keys from Hearth were taken over or removed.
    """
    found: list[Path] = []
    # Runs for every field of every watch event, so it avoids generators and function calls.
    is_map = isinstance(live, dict)
    for key, inner in fields.items():
        value = live.get(key[2:]) if is_map else find_item(live, key)
        theirs = [other[key] for other in others if key in other] if others else others
        if inner and inner.keys() != MEMBER:
            # Text is never a map, so labels and annotations, most fields of most objects, can be skipped.
            if (theirs or value is not None) and (*path, key) not in TEXT_MAPS:
                found += find_collapsed(inner, theirs, value, path=(*path, key))
        elif (not value and isinstance(value, dict | list)) or (
            theirs and any(their.keys() - MEMBER for their in theirs)
        ):
            found.append((*path, key))
    return found


def find_item(live: Any, key: str) -> Any:
    """Find the item of a keyed list that a key of `fieldsV1` names, or None if it names none or an unknown one."""
    if not isinstance(live, list) or not key.startswith("k:"):
        return None
    wanted = parse_key(key)
    for item in live:
        if isinstance(item, dict) and all(item.get(name) == value for name, value in wanted.items()):
            return item
    return None


@functools.lru_cache(maxsize=4096)
def parse_key(key: str) -> Mapping[str, Any]:
    """Parse the key fields that name a list item in `fieldsV1`: `k:{"name":"web"}`. Cached: few values recur often."""
    parsed: Mapping[str, Any] = orjson.loads(key[2:])
    return parsed
