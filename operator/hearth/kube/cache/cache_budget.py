"""Cache memory limits for children: per object, per Stack, and for all children without valid signatures.

A record omits fields that exceed a limit and reports the omission. Metadata that the engine itself needs always stays.
Must not know which component reads the fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from hearth.model import child_fields, limits, names
from hearth.model.child import Child, Path

KIB = 1024
SMALL = 8 * KIB
"""Bytes up to which an object is not measured: nearly all are smaller.

Measuring takes a tenth of the time per event.
"""
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
    names.ANNOTATION_SUSPENDED,
    names.ANNOTATION_DELETION_POLICY,
    names.ANNOTATION_ADOPTED,
)
"""The annotations of a child that the engine reads. Any client can add others with the same prefixes."""
LONG = "x" * (limits.ANNOTATION_KEPT_BYTES + 1)
"""Placeholder for a missing annotation: too long to be stored."""


class CacheBudget:
    """The memory budget for all children of one cluster."""

    def __init__(self, on_limit: Callable[[str], None]) -> None:
        self._on_limit = on_limit
        self._stacks: dict[str, int] = {}
        """KiB of the identified children, by Stack UID."""
        self._unproven = 0
        """KiB of all other children."""
        self._kinds = Counter[str]()
        """KiB of all children by kind."""

    def count_bytes(self) -> Mapping[str, float]:
        """Return the approximate bytes of the stored fields by kind."""
        return {kind: float(size * KIB) for kind, size in self._kinds.items()}

    def fit_small(self, made: Child, size: int) -> bool:
        """Count a record by its size on the wire, if that is too small to require measuring.

        size: bytes; 0 if unknown. False: the record must be measured.
        """
        if not 0 < size <= SMALL or not made.is_identified:
            return False
        if self._stacks.get(made.stack_uid, 0) * KIB > limits.STACK_KEPT_BYTES - SMALL:
            return False
        object.__setattr__(made, "size", -(-size // KIB))
        return True

    def fit(self, made: Child, known: Child | None, *, shown: Mapping[str, Any], paths: Iterable[Path]) -> None:
        """Measure a new record and cut it down if it is too large.

        known: the record that it replaces; shown: the object; paths: the stored fields of the object.
        """
        size = measure_fields(made)
        if not made.is_identified and made.ownership is not None:
            size += len(made.ownership.fields)
        before = known.size if known is not None and whose(known) == whose(made) else 0
        used = self._stacks.get(made.stack_uid, 0) if made.is_identified else self._unproven
        most = limits.STACK_KEPT_BYTES if made.is_identified else limits.UNPROVEN_KEPT_BYTES
        room = min(limits.OBJECT_KEPT_BYTES, most - (used - before) * KIB)
        if size > room:
            # The record was just made and has no other reference, so it can still be changed.
            cut_down(made, shown=shown, paths=paths, room=room)
            size = measure_fields(made)
            if known is None or known.omitted != made.omitted:
                self._on_limit("object-bytes" if room == limits.OBJECT_KEPT_BYTES else "cache-bytes")
        object.__setattr__(made, "size", -(-size // KIB))

    def replace(self, old: Child | None, new: Child | None) -> None:
        """Replace a record in the totals; either argument may be None."""
        if old is not None and new is not None and old.size == new.size and whose(old) == whose(new):
            return
        if old is not None:
            self._add(old, -old.size)
        if new is not None:
            self._add(new, new.size)

    def _add(self, child: Child, size: int) -> None:
        self._kinds[child.kind.key] += size
        if not child.is_identified:
            self._unproven += size
            return
        total = self._stacks.get(child.stack_uid, 0) + size
        if total:
            self._stacks[child.stack_uid] = total
        else:
            self._stacks.pop(child.stack_uid, None)


def whose(child: Child) -> str:
    """Return the key of the budget that counts the child."""
    return child.stack_uid if child.is_identified else ""


def measure_fields(made: Child) -> int:
    """Return the bytes of the stored fields."""
    return len(made.packed_fields) + len(made.hash) + len(made.signature)


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
    object.__setattr__(made, "omitted", tuple(omitted))
    object.__setattr__(made, "finalizers", made.finalizers[: limits.FINALIZERS_KEPT])
    object.__setattr__(made, "hash", made.hash[: limits.HASH_KEPT])
    object.__setattr__(made, "signature", kept_annotations.get(names.ANNOTATION_SIGNATURE, ""))
    object.__setattr__(made, "packed_fields", child_fields.pack(fields, made.known_texts))
    if not made.is_identified and made.ownership is not None and len(made.ownership.fields) > max(room, 0):
        object.__setattr__(made, "ownership", None)


def find(shown: Mapping[str, Any], path: Path) -> Any:
    """Return the object's value at a path, or None if it is missing."""
    found: Any = shown
    for key in path:
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found
