"""Limits the memory of cached children and Stacks: per object, per namespace, and for all children without valid
signatures.

A record of a child omits fields that exceed a limit and reports the omission. Metadata that the engine itself needs is
always kept. A record of a Stack omits a spec that has no room: only a sync reads it, and requests it again.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from hearth.engine.cluster_objects import StackObject
from hearth.model import child_fields, instance_fields, limits, names, packing
from hearth.model.child import FINALIZERS, Child, Path
from hearth.model.memory_shares import SMALL, memory_shares

FINALIZER_BYTES = 64
"""Memory of a finalizer in addition to its text."""
ANNOTATIONS: Path = ("metadata", "annotations")
LABELS: Path = ("metadata", "labels")
OUR_LABELS = (names.LABEL_STACK_UID, names.LABEL_STACK, names.LABEL_RESOURCE, names.LABEL_BUCKET)
OUR_ANNOTATIONS = (
    names.ANNOTATION_IDENTITY,
    names.ANNOTATION_SIGNATURE,
    names.ANNOTATION_INCARNATION,
    names.ANNOTATION_HASH,
    names.ANNOTATION_REQUIRES,
    names.ANNOTATION_LAST_APPLIED,
    names.ANNOTATION_POST_BREAKPOINT,
    names.ANNOTATION_INHERITED_RULES,
    names.REQUEST_INHERITED_RETRY,
    names.ANNOTATION_UNHEALTHY,
    names.ANNOTATION_MARKED_BY,
    names.ANNOTATION_RESTARTED_BY,
    names.ANNOTATION_SUSPENDED,
    names.ANNOTATION_DELETION_POLICY,
    names.ANNOTATION_ADOPTED,
)
"""The annotations of a child that the engine reads. Any client can add others with the same prefixes."""
LONG = "x" * (limits.ANNOTATION_KEPT_BYTES + 1)
"""Placeholder for a missing annotation: too long to be stored."""


class CacheBudget:
    """The memory budget for all children of one cluster."""

    def __init__(self, on_limit: Callable[[str], None], *, payer: str = "") -> None:
        """payer: the namespace whose share counts all children; "" for the namespace of each."""
        self._on_limit = on_limit
        self._payer = payer
        self._unproven = 0
        """Bytes of the children without a valid signature."""
        self._kinds = Counter[str]()
        """Bytes of all children by kind."""

    def count_bytes(self) -> Mapping[str, float]:
        """Return the bytes of the stored fields by kind."""
        return {kind: float(size) for kind, size in self._kinds.items()}

    def fit(self, made: Child, known: Child | None, *, shown: Mapping[str, Any], paths: Iterable[Path]) -> None:
        """Measure a new record and cut it down if it is too large.

        known: the record that it replaces; shown: the object; paths: the stored fields of the object.
        """
        size = measure_record(made)
        if size <= limits.OBJECT_SURELY_KEPT_BYTES and made.is_identified:
            return
        room = self._find_room(made, known)
        if size > room:
            # The record is new and has no other reference, so it can still be changed.
            cut_down(made, shown=shown, paths=paths, room=room)
            if known is None or known.omitted != made.omitted:
                self._on_limit("object-bytes" if room == limits.OBJECT_KEPT_BYTES else "cache-bytes")

    def _find_room(self, made: Child, known: Child | None) -> int:
        is_alike = known is not None and known.is_identified == made.is_identified
        before = measure_record(known) if known is not None and is_alike else 0
        if not made.is_identified:
            return min(limits.OBJECT_KEPT_BYTES, limits.UNPROVEN_KEPT_BYTES - self._unproven + before)
        room = memory_shares.find_room(self._payer or made.namespace) + before
        return min(limits.OBJECT_KEPT_BYTES, max(limits.OBJECT_SURELY_KEPT_BYTES, room))

    def replace(self, old: Child | None, new: Child | None) -> None:
        """Replace a record in the totals; either argument may be None."""
        if old is not None:
            self._add(old, -measure_record(old))
        if new is not None:
            self._add(new, measure_record(new))

    def _add(self, child: Child, size: int) -> None:
        self._kinds[child.kind.key] += size
        if child.is_identified:
            memory_shares.add(self, self._payer or child.namespace, size)
        else:
            self._unproven += size


def measure_record(made: Child) -> int:
    """Return the bytes of a child; of one without a valid signature, which may have any number of them, with its owners."""
    owned = len(made.ownership.fields) if not made.is_identified and made.ownership is not None else 0
    return measure_fields(made) + owned


def measure_fields(made: Child) -> int:
    """Return the bytes of the stored fields, and of more finalizers than ordinary objects have."""
    size = len(made.packed_fields) + len(made.hash) + len(made.signature)
    if len(made.finalizers) > limits.FINALIZERS_KEPT:
        size += sum(map(len, made.finalizers)) + FINALIZER_BYTES * len(made.finalizers)
    return size


def measure(value: Any) -> int:
    """Return the JSON size in bytes; for a large value, about its size in memory."""
    try:
        return len(orjson.dumps(value))
    except TypeError:
        # The value is nested too deeply to be encoded.
        return limits.BODY_BYTES


def cut_down(made: Child, *, shown: Mapping[str, Any], paths: Iterable[Path], room: int) -> None:
    """Drop fields that exceed the budget, largest first, and all data that only messages show."""
    fields = child_fields.project_fields(shown, kind=made.kind, paths=())
    metadata, omitted = fields["metadata"], list[Path]()
    stated_labels, stated = metadata.get("labels") or {}, metadata.get("annotations") or {}
    kept_labels = {key: stated_labels[key] for key in OUR_LABELS if key in stated_labels}
    # An object without a valid signature may contain anything in Hearth's annotations.
    ours = OUR_ANNOTATIONS if made.is_identified else ()
    kept_annotations = {key: stated[key] for key in ours if len(stated.get(key, LONG)) <= limits.ANNOTATION_KEPT_BYTES}
    wanted = [(LABELS, metadata.get("labels")), (ANNOTATIONS, metadata.get("annotations"))]
    wanted += [(path, find(shown, path)) for path in paths]
    metadata["labels"], metadata["annotations"] = kept_labels, kept_annotations
    room -= measure(fields)
    for size, path in sorted((measure(value), path) for path, value in wanted if value is not None):
        room -= size
        if room >= 0:
            child_fields.copy_path(shown, fields, path)
        else:
            omitted.append(path)
    if len(made.finalizers) > limits.FINALIZERS_KEPT:
        omitted.append(FINALIZERS)
        object.__setattr__(made, "finalizers", keep_finalizers(made.finalizers))
    object.__setattr__(made, "omitted", tuple(omitted))
    object.__setattr__(made, "hash", made.hash[: limits.HASH_KEPT])
    object.__setattr__(made, "signature", kept_annotations.get(names.ANNOTATION_SIGNATURE, ""))
    object.__setattr__(made, "packed_fields", child_fields.pack(fields, made.known_texts))
    if not made.is_identified and made.ownership is not None and len(made.ownership.fields) > max(room, 0):
        object.__setattr__(made, "ownership", None)


def keep_finalizers(finalizers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first finalizers, and Hearth's own."""
    first = finalizers[: limits.FINALIZERS_KEPT]
    own = names.FINALIZER_COMPLETION in finalizers and names.FINALIZER_COMPLETION not in first
    return (*first, names.FINALIZER_COMPLETION) if own else first


def find(shown: Mapping[str, Any], path: Path) -> Any:
    """Return the object's value at a path, or None if it is missing."""
    found: Any = shown
    for key in path:
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


class SpecRoom:
    """The room for the records of one cache, in the shares of their namespaces."""

    def fit(self, made: StackObject, known: StackObject | None) -> StackObject:
        """Return a new record, without large parts of its spec if there is no room. known: the record that it replaces."""
        size, before = measure_stack(made), measure_stack(known)
        room = memory_shares.find_room(made.namespace) - memory_shares.total // limits.SPECS_LEAVE_FRACTION
        return made if size <= before or size - before <= room else omit_spec(made)

    def replace(self, old: StackObject | None, new: StackObject | None) -> None:
        """Count a replaced record; either argument may be None."""
        either = new or old
        if either is not None:
            memory_shares.add(self, either.namespace, measure_stack(new) - measure_stack(old))


def measure_stack(stack: StackObject | None) -> int:
    """Return the counted bytes of a record, 0 for a small one. The template of an instance belongs to its definition."""
    size = measure_texts(stack) if stack is not None else 0
    return size if size > SMALL else 0


def measure_texts(stack: StackObject) -> int:
    """Return the bytes of a record that no other record shares."""
    own_template = 0 if stack.definition else len(stack.packed_template)
    texts = (stack.packed_spec, stack.packed_parameters, stack.packed_stated, stack.packed_status)
    return own_template + sum(map(len, texts))


def omit_spec(stack: StackObject) -> StackObject:
    """Return the same Stack with only the parts of its spec that are read at any time."""
    template = stack.packed_template if stack.definition else b""
    stated = reduce_stated(stack.packed_stated) if stack.definition else b""
    kept = dataclasses.replace(stack, packed_template=template, packed_parameters=b"", packed_stated=stated)
    return dataclasses.replace(kept, omitted_size=stack.omitted_size + measure_stack(stack) - measure_texts(kept))


def reduce_stated(packed: bytes) -> bytes:
    """Return the spec of an instance with its options, and the small ones of its parameters."""
    spec = orjson.loads(packed)
    if not isinstance(spec, dict):
        return packed
    return packing.pack(
        {
            name: value
            for name, value in spec.items()
            if name == instance_fields.OPTIONS or len(packing.pack(value)) <= limits.SPEC_VALUE_KEPT_BYTES
        }
    )
