"""Finished work: for each resource, the definitions that succeeded and are not run again.

The signed status stores it, so it survives a restart. The revisions store it too, so it survives a restore from a backup,
which gives the Stack another UID: see `hearth.engine.definition.finished_record`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import limits, value_class
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.plan.state.resource_status import WorkFinished, WorkForgotten

FIELD = "finished"
"""The field of a status."""
DIGEST_LENGTH = 16
"""Hexadecimal digits of a definition's hash: 64 bits. The hash is keyed, so users cannot search for a collision."""
DEFINITIONS = 10
"""Definitions of one resource, the latest first: as many as a Stack has revisions to roll back to."""
OVERHEAD = 56
"""Bytes of an entry as JSON without its names and digests."""
UID_FIELD = "stackUID"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class FinishedEntry:
    """The finished work of one resource."""

    resource: str
    object: str
    """The last object, as kubectl names it: `job/shop-migrate`."""
    definitions: tuple[str, ...]
    """Digests, the latest first."""
    stack_uid: str = ""
    """The UID of the Stack whose hashes these are, if it was restored from a backup since then; otherwise ""."""

    @property
    def size(self) -> int:
        """Return the minimum size of the entry as JSON, in bytes."""
        names = len(self.resource.encode()) + len(self.object.encode())
        names += len(self.stack_uid) + len(UID_FIELD) + 6 if self.stack_uid else 0
        return OVERHEAD + names + len(self.definitions) * (DIGEST_LENGTH + 3)


@dataclass(slots=True)
class FinishedWork:
    """The finished work of one Stack."""

    entries: dict[str, FinishedEntry] = field(default_factory=dict)
    """By resource. The entry that finished last comes last."""
    former: tuple[FinishedEntry, ...] = ()
    """Work that finished before the Stack was restored from a backup."""
    version: int = 0
    """Number of changes."""
    is_loaded: bool = False
    """Whether the status was read. Then an entry that is missing here is missing in the status too."""
    _recorded: frozenset[tuple[str, str]] = frozenset()
    """Resource and digest of each entry in the stored status."""
    _size: int = 0

    def load(self, encoded: Any) -> None:
        """Load the entries of the status, once. encoded: its signed field, None without one."""
        self.is_loaded = True
        for entry in decode(encoded):
            self._store_entry(entry)
        self._recorded = find_pairs(self.entries)

    def load_former(self, encoded: Any, *, stack_uid: str) -> None:
        """Load the entries of the Stack with that UID, which this one was before it was restored, once."""
        self.is_loaded = True
        for entry in decode(encoded):
            self._store_entry(entry if entry.stack_uid else dataclasses.replace(entry, stack_uid=stack_uid))

    def has(self, resource: str, hash_: str) -> bool:
        """Return whether that definition of a resource has finished."""
        entry = self.entries.get(resource)
        return entry is not None and shorten(hash_) in entry.definitions

    def has_object(self, ref: ObjectRef, hash_: str) -> bool:
        """Return whether an object with that name finished with that definition, under any name of its resource."""
        name, digest = str(ref), shorten(hash_)
        return any(each.object == name and digest in each.definitions for each in self.entries.values())

    def has_former(self, resource: str, ref: ObjectRef | None, find_hash: Callable[[str], str]) -> bool:
        """Return whether the work of a resource had finished before the Stack was restored.

        ref: its object, if it has a fixed name; find_hash: the hash of its definition in a Stack with that UID.
        """
        return any(
            (each.resource == resource or (ref is not None and each.object == str(ref)))
            and shorten(find_hash(each.stack_uid)) in each.definitions
            for each in self.former
        )

    def is_recorded(self, resource: str, hash_: str) -> bool:
        """Whether the stored status contains the entry, so that the object is no longer needed."""
        return (resource, shorten(hash_)) in self._recorded

    @property
    def has_unrecorded(self) -> bool:
        """Return whether the stored status lacks any entry."""
        return any(pair not in self._recorded for pair in find_pairs(self.entries)) if self.entries else False

    def apply_update(self, update: WorkFinished | WorkForgotten) -> None:
        """Apply a memory update of the planner."""
        match update:
            case WorkFinished():
                self.add(update.resource, update.ref, update.hash, wanted=update.wanted)
            case WorkForgotten():
                self.forget(update.resource, update.hash)

    def add(self, resource: str, ref: ObjectRef, hash_: str, *, wanted: Container[str]) -> bool:
        """Add finished work; return False if there is no room. wanted: the resources whose entries must stay."""
        before = self.entries.get(resource)
        known = tuple(each for each in (before.definitions if before is not None else ()) if each != shorten(hash_))
        entry = FinishedEntry(resource=resource, object=str(ref), definitions=(shorten(hash_), *known)[:DEFINITIONS])
        needed = self._size - (before.size if before is not None else 0) + entry.size
        dropped = [before] if before is not None else []
        for other in self._find_dispensable(resource, wanted):
            if needed <= limits.FINISHED_BYTES:
                break
            needed -= other.size
            dropped.append(other)
        if needed > limits.FINISHED_BYTES:
            return False
        for each in dropped:
            self._drop(each)
        self._store_entry(entry)
        return True

    def _find_dispensable(self, resource: str, wanted: Container[str]) -> list[FinishedEntry]:
        """Return the entries that can make room for one of a resource, the oldest first. wanted: see `add`.

        An entry from before a restore is needed until its resource has finished again; then only a rollback uses it.
        """
        former = [each for each in self.former if each.resource not in wanted]
        present = [each for name, each in self.entries.items() if name not in wanted and name != resource]
        repeated = [
            each
            for each in self.former
            if each.resource in wanted and (each.resource in self.entries or each.resource == resource)
        ]
        return [*former, *present, *repeated]

    def forget(self, resource: str, hash_: str = "") -> None:
        """Forget one definition of a resource, or all of its definitions, so that it runs again.

        Definitions from before a restore have other hashes, so all of them are forgotten.
        """
        for each in [each for each in self.former if each.resource == resource]:
            self._drop(each)
        entry = self.entries.get(resource)
        if entry is None:
            return
        left = tuple(each for each in entry.definitions if hash_ and each != shorten(hash_))
        self._drop(entry)
        if left:
            self._store_entry(FinishedEntry(resource=resource, object=entry.object, definitions=left))

    def note_written(self, status: Mapping[str, Any]) -> list[str]:
        """Record the entries of the written status; return the resources whose work is recorded now."""
        before = self._recorded
        written = decode(status.get(FIELD))
        self._recorded = find_pairs({each.resource: each for each in written if not each.stack_uid})
        return sorted({resource for resource, _ in self._recorded - before})

    def encode(self) -> list[Object]:
        """Encode for a status."""
        return [
            {
                "resource": each.resource,
                "object": each.object,
                "definitions": list(each.definitions),
                **({UID_FIELD: each.stack_uid} if each.stack_uid else {}),
            }
            for each in (*self.former, *self.entries.values())
        ]

    def _store_entry(self, entry: FinishedEntry) -> None:
        if entry.stack_uid:
            self.former = (*self.former, entry)
        else:
            self.entries[entry.resource] = entry
        self._size += entry.size
        self.version += 1

    def _drop(self, entry: FinishedEntry) -> None:
        if entry.stack_uid:
            self.former = tuple(each for each in self.former if each is not entry)
        else:
            del self.entries[entry.resource]
        self._size -= entry.size
        self.version += 1


def shorten(hash_: str) -> str:
    """Return the digest of a definition's hash."""
    return hash_.rpartition(":")[2][:DIGEST_LENGTH]


def find_pairs(entries: Mapping[str, FinishedEntry]) -> frozenset[tuple[str, str]]:
    """Return each resource with each of its digests."""
    return frozenset((name, digest) for name, entry in entries.items() for digest in entry.definitions)


def decode(encoded: Any) -> Iterator[FinishedEntry]:
    """Decode the entries of a status; skip entries that no operator writes."""
    for each in encoded if isinstance(encoded, list) else ():
        match each:
            case {"resource": str(resource), "object": str(object_), "definitions": list(definitions)}:
                digests = tuple(digest for digest in definitions if isinstance(digest, str))[:DEFINITIONS]
                uid = each.get(UID_FIELD)
                yield FinishedEntry(
                    resource=resource,
                    object=object_,
                    definitions=digests,
                    stack_uid=uid if isinstance(uid, str) else "",
                )
