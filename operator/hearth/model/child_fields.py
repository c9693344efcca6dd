"""Selects the fields of an object that a `Child` stores, and packs them to save memory.

Values that the child has in other attributes are not packed a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import orjson

from hearth.model import names, packing
from hearth.model.kinds import Kind

Texts: TypeAlias = tuple[tuple[str, str], ...]
"""Keys of labels or annotations, each with its text."""

HEAD = frozenset({"apiVersion", "kind", "metadata"})
IDENTITY = frozenset({"name", "namespace", "uid"})
METADATA_KEPT = ("name", "namespace", "uid", "generation", "labels", "annotations", "creationTimestamp")
KNOWN = 0
"""Replaces texts in packed labels and annotations that the child stores elsewhere.

The API server allows no numbers there.
"""
RECENT = 32
"""Number of most recently read objects whose fields are cached."""
RECENT_BYTES = 256 * 1024
"""Bytes of the packed JSON. Unpacked, the fields need up to fifteen times as much memory."""


class KnownTexts(NamedTuple):
    """Texts of fields that a child also stores in other attributes."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    stack_uid: str
    hash: str
    signature: str

    def list_labels(self) -> Texts:
        """Return the texts by their label keys."""
        return ((names.LABEL_STACK_UID, self.stack_uid),)

    def list_annotations(self) -> Texts:
        """Return the texts by their annotation keys."""
        group, kind = self.kind.group, self.kind.name
        identity = names.identity(
            stack_uid=self.stack_uid, group=group, kind=kind, namespace=self.namespace, name=self.name
        )
        return (
            (names.ANNOTATION_IDENTITY, identity),
            (names.ANNOTATION_HASH, self.hash),
            (names.ANNOTATION_SIGNATURE, self.signature),
        )


def project_fields(raw: Mapping[str, Any], *, kind: Kind, paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Return `raw` reduced to its identifying metadata and the fields under `paths`."""
    metadata = raw["metadata"]
    kept: dict[str, Any] = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {key: metadata[key] for key in METADATA_KEPT if key in metadata},
    }
    for path in paths:
        copy_path(raw, kept, path)
    return kept


def find_whole(raw: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the paths that cover a whole object, except its status and its identifying fields."""
    return [(key,) for key in raw if key not in ("apiVersion", "kind", "metadata", "status")]


def copy_path(source: Mapping[str, Any], target: dict[str, Any], path: tuple[str, ...]) -> None:
    """Share the value under `path` of `source` with `target`; do nothing if `source` has none."""
    for key in path[:-1]:
        inner = source.get(key)
        if not isinstance(inner, dict):
            return
        source = inner
        existing = target.get(key)
        # A map that was shared whole already contains what this path needs.
        if existing is inner:
            return
        target = target.setdefault(key, {})
    if path[-1] in source:
        target[path[-1]] = source[path[-1]]


def pack(fields: Mapping[str, Any], known: KnownTexts) -> bytes:
    """Return the fields of an object as JSON, in a quarter of the memory of the maps.

    Raises TypeError for values that JSON cannot represent.
    """
    metadata = {key: value for key, value in fields["metadata"].items() if key not in IDENTITY}
    if labels := metadata.get("labels"):
        metadata["labels"] = without(labels, known.list_labels())
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = without(annotations, known.list_annotations())
    others = {key: value for key, value in fields.items() if key not in HEAD}
    return packing.pack([metadata, others] if others else [metadata])


def without(stated: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """Return labels or annotations without the known texts."""
    left = {**stated}
    for key, text in texts:
        if left.get(key) == text:
            left[key] = KNOWN
    return left


def unpack(packed: bytes, known: KnownTexts) -> dict[str, Any]:
    """Return the fields that `pack` packed."""
    return restore_fields(orjson.loads(packed), known)


def restore_fields(parts: list[Any], known: KnownTexts) -> dict[str, Any]:
    """Return the fields from their packed parts, with the texts that the child stores elsewhere."""
    metadata, *others = parts
    if labels := metadata.get("labels"):
        restore(labels, known.list_labels())
    if annotations := metadata.get("annotations"):
        restore(annotations, known.list_annotations())
    place = {"name": known.name, "namespace": known.namespace} if known.namespace else {"name": known.name}
    identified = {**place, "uid": known.uid, **metadata}
    head = {"apiVersion": known.kind.api_version, "kind": known.kind.name, "metadata": identified}
    return {**head, **others[0]} if others else head


def restore(packed: dict[str, Any], texts: Texts) -> None:
    """Put the known texts back."""
    for key, text in texts:
        if packed.get(key) == KNOWN:
            packed[key] = text


class RecentFields:
    """Caches the fields of recently read objects, because one reconcile reads the same fields several times."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, dict[str, Any]]] = {}
        """By the `id` of an object.

        The object is stored with its fields, so that no other object gets the same `id`.
        """
        self._size = 0
        """Bytes of JSON of all cached fields."""

    def find(self, owner: object) -> dict[str, Any] | None:
        """Return the fields of a recently read object."""
        found = self._known.get(id(owner))
        return found[1] if found is not None else None

    def keep(self, owner: object, fields: dict[str, Any], *, size: int) -> dict[str, Any]:
        """Cache the fields of an object. size: bytes of JSON."""
        if len(self._known) >= RECENT or self._size + size > RECENT_BYTES:
            self._known.clear()
            self._size = 0
        self._size += size
        self._known[id(owner)] = (owner, fields)
        return fields


recent = RecentFields()
