"""What is known of the objects of one collection: fed by a watch and by the answers to our own writes, newest wins.

Knows uids and versions alone; what a record is and who hears of changes, its owner says. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from hearth import supervision
from hearth.model.child import Object


class Versioned(Protocol):
    """What a record must tell."""

    @property
    def uid(self) -> str:
        """Of the object."""

    @property
    def resource_version(self) -> int:
        """Of the state that the record shows."""


Record = TypeVar("Record", bound=Versioned)


class StoreOwner(Protocol[Record]):
    """Who makes records and uses them."""

    def parse(self, raw: Object) -> Record:
        """The record of `raw`."""

    def replace(self, old: Record | None, new: Record | None, *, is_ours: bool) -> None:
        """A record came (no `old`), changed or went (no `new`).

        is_ours: the owner itself handed the change in, so nobody needs to be told.
        """

    def complete(self) -> None:
        """The store now holds a full set."""


class ObjectStore(Generic[Record]):
    """The records of one collection by uid; the handler of its watch."""

    def __init__(self, owner: StoreOwner[Record]) -> None:
        self._owner = owner
        self._records: dict[str, Record] = {}
        self._forgotten: set[str] = set()
        self._outdated: set[str] = set()
        self._shown: set[str] | None = None
        self._older: dict[str, Object] = {}

    @property
    def records(self) -> Mapping[str, Record]:
        """By uid; not to be kept across an await."""
        return self._records

    def record_write(self, raw: Object, *, passed: int) -> Record:
        """Take in the answer to a write of our own, unless something newer is known; its record in any case.

        passed: the version up to which the watch has delivered everything. An object that is not newer and yet not
        here was deleted before its answer came.
        """
        uid = raw["metadata"]["uid"]
        known = self._records.get(uid)
        record = self._owner.parse(raw)
        if uid in self._forgotten or record.resource_version <= (known.resource_version if known else passed):
            return record
        self._keep(uid, known, record, is_ours=True)
        return record

    def forget(self, uid: str) -> None:
        """Our deletion is done: it is gone at once, and late events of it do not bring it back."""
        if uid in self._records:
            self._drop(uid, is_ours=True)
            # Its DELETED is still to come; where it came already, nothing was left to drop here.
            self._forgotten.add(uid)

    def invalidate(self) -> None:
        """From now on records are made differently: take in even what is known in that version already."""
        self._outdated = set(self._records)

    def on_list_started(self) -> None:
        """A fresh full set begins."""
        self._shown = set()
        self._older = {}

    def on_object(self, raw: Object) -> None:
        """Take in a state of an object, unless a newer one is known. The hot path: an echo costs two lookups."""
        metadata = raw["metadata"]
        uid = metadata["uid"]
        if self._shown is not None:
            self._shown.add(uid)
            self._older.pop(uid, None)
        known = self._records.get(uid)
        if uid in self._forgotten:
            if self._shown is not None:
                self._older[uid] = raw
            return
        if known is not None:
            version = int(metadata["resourceVersion"])
            if version < known.resource_version:
                if self._shown is not None:
                    self._older[uid] = raw
                return
            if version == known.resource_version and uid not in self._outdated:
                return
            metadata["uid"] = known.uid  # one copy in memory: the key's
        self._keep(uid, known, self._owner.parse(raw), is_ours=False)

    def on_deleted(self, raw: Object) -> None:
        """Drop an object, unless a newer state of it is known: it may only have lost its label, and got it back."""
        metadata = raw["metadata"]
        uid = metadata["uid"]
        if self._shown is not None:
            self._older.pop(uid, None)
        self._forgotten.discard(uid)
        known = self._records.get(uid)
        if known is not None and int(metadata["resourceVersion"]) >= known.resource_version:
            self._drop(uid, is_ours=False)

    def on_synced(self, version: int | None) -> None:
        """The full set is complete: what it did not show is gone, what it showed in an older state is in that state.

        Except for what is newer than the set itself: our own writes since. Nothing is, where `version` is None.
        """
        shown, self._shown = self._shown or set(), None
        older, self._older = self._older, {}
        # A store that was restored may well hold what we have deleted since the backup.
        self._forgotten = self._forgotten & shown if version is not None else set()
        for uid, raw in older.items():
            known = self._records.get(uid)
            if uid not in self._forgotten and (known is None or is_covered(known, version)):
                self._keep(uid, known, self._owner.parse(raw), is_ours=False)
        for uid in self._records.keys() - shown:
            if is_covered(self._records[uid], version):
                # One that cannot be dropped in an orderly way must not keep the others from it.
                supervision.guard("watch", self._drop)(uid, is_ours=False)
        self._owner.complete()

    def _keep(self, uid: str, known: Record | None, record: Record, *, is_ours: bool) -> None:
        self._outdated.discard(uid)
        self._records[uid] = record
        self._owner.replace(known, record, is_ours=is_ours)

    def _drop(self, uid: str, *, is_ours: bool) -> None:
        self._outdated.discard(uid)
        self._owner.replace(self._records.pop(uid), None, is_ours=is_ours)


def is_covered(record: Versioned, version: int | None) -> bool:
    """Whether a full set as of `version` speaks about that state of the object."""
    return version is None or record.resource_version <= version
