"""Stores the objects of one collection by UID, from a watch and the operator's own writes. The newest version wins.

Its owner defines the records and handles changes. `WatchedCache` is an owner with one watch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from hearth import supervision
from hearth.kube.watch.reflector import Reflector, WatchStatus
from hearth.kube.watch.watch_events import Echo
from hearth.model.child import Object

DELETED = b"DELETED"


class Versioned(Protocol):
    """The required properties of a record."""

    @property
    def uid(self) -> str:
        """Return the object's UID."""

    @property
    def resource_version(self) -> int:
        """Return the resourceVersion in the record."""


Record = TypeVar("Record", bound=Versioned)


class StoreOwner(Protocol[Record]):
    """The component that makes and uses the records."""

    def parse(self, raw: Object) -> Record:
        """Create the record of `raw`."""

    def replace(self, old: Record | None, new: Record | None, *, is_ours: bool) -> None:
        """Handle a created (no `old`), changed or deleted (no `new`) record.

        is_ours: the owner itself passed in the change, so no listener needs a notification.
        """

    def complete(self) -> None:
        """Handle a complete full set."""


class ObjectStore(Generic[Record]):
    """The records of one collection by UID; also the handler of its watch."""

    def __init__(self, owner: StoreOwner[Record]) -> None:
        self._owner = owner
        self._records: dict[str, Record] = {}
        self._forgotten: set[str] = set()
        self._outdated: set[str] = set()
        self._shown: set[str] | None = None
        self._older: dict[str, Object] = {}

    @property
    def records(self) -> Mapping[str, Record]:
        """Return the records by UID; invalid after an await."""
        return self._records

    def record_write(self, raw: Object, *, passed: int) -> Record:
        """Store the response to a write of the operator, unless a newer state is known; return its record in any case.

        passed: the version up to which the watch has delivered everything. An object that is not newer and is missing
        here was deleted before its response arrived.
        """
        uid = raw["metadata"]["uid"]
        known = self._records.get(uid)
        record = self._owner.parse(raw)
        if uid in self._forgotten or record.resource_version <= (known.resource_version if known else passed):
            return record
        self._store_record(uid, known, record, is_ours=True)
        return record

    def update(self, record: Record) -> None:
        """Replace the record of the same state of an object."""
        self._records[record.uid] = record

    def forget(self, uid: str) -> None:
        """Drop an object that the operator deleted; late events do not restore it."""
        if uid in self._records:
            self._drop(uid, is_ours=True)
            # Its DELETED event will still arrive: otherwise, there would be no record to drop.
            self._forgotten.add(uid)

    def invalidate(self) -> None:
        """Create all records again, even for known versions, because the owner now creates them differently."""
        self._outdated = set(self._records)

    def on_list_started(self) -> None:
        """Start a new full set."""
        self._shown = set()
        self._older = {}

    def on_object(self, raw: Object) -> None:
        """Store a state of an object unless a newer one is known. Hot path: an echo costs two lookups."""
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
        self._store_record(uid, known, self._owner.parse(raw), is_ours=False)

    def is_known(self, event: Echo) -> bool:
        """Return whether this event of an object changes nothing here, and record it."""
        event_type, uid, version = event
        if self._shown is not None:
            return False
        known = self._records.get(uid)
        if event_type == DELETED:
            if known is not None or uid not in self._forgotten:
                return False
            self._forgotten.discard(uid)
            return True
        is_current = known is not None and version <= known.resource_version
        return is_current and uid not in self._outdated and uid not in self._forgotten

    def on_deleted(self, raw: Object) -> None:
        """Drop an object unless a newer state is known: it may have lost its label and regained it."""
        metadata = raw["metadata"]
        uid = metadata["uid"]
        if self._shown is not None:
            self._older.pop(uid, None)
        self._forgotten.discard(uid)
        known = self._records.get(uid)
        if known is not None and int(metadata["resourceVersion"]) >= known.resource_version:
            self._drop(uid, is_ours=False)

    def on_synced(self, version: int | None) -> None:
        """Complete the full set: drop objects that it did not show, accept its older states as current.

        States newer than the set, from the operator's own writes, are exceptions. No state is newer if `version` is
        None.
        """
        shown, self._shown = self._shown or set(), None
        older, self._older = self._older, {}
        # A restored store may contain objects that the operator deleted after the backup.
        self._forgotten = self._forgotten & shown if version is not None else set()
        for uid, raw in older.items():
            known = self._records.get(uid)
            if uid not in self._forgotten and (known is None or is_covered(known, version)):
                self._store_record(uid, known, self._owner.parse(raw), is_ours=False)
        for uid in self._records.keys() - shown:
            if is_covered(self._records[uid], version):
                # An object that cannot be dropped cleanly must not block the others.
                supervision.guard("watch", self._drop)(uid, is_ours=False)
        self._owner.complete()

    def _store_record(self, uid: str, known: Record | None, record: Record, *, is_ours: bool) -> None:
        self._outdated.discard(uid)
        self._records[uid] = record
        self._owner.replace(known, record, is_ours=is_ours)

    def _drop(self, uid: str, *, is_ours: bool) -> None:
        self._outdated.discard(uid)
        self._owner.replace(self._records.pop(uid), None, is_ours=is_ours)


def is_covered(record: Versioned, version: int | None) -> bool:
    """Return whether a full set as of `version` covers this state of the object."""
    return version is None or record.resource_version <= version


class WatchedCache(Generic[Record]):
    """A store with one watch, which runs from `start` to `close`. A subclass creates both."""

    _store: ObjectStore[Record]
    _reflector: Reflector

    def start(self) -> None:
        """Start the watch."""
        self._reflector.start()

    async def close(self) -> None:
        """Stop the watch and all reports."""
        await self._reflector.close()

    @property
    def is_synced(self) -> bool:
        """Return whether all objects were listed once."""
        return self._reflector.is_synced

    async def wait_synced(self) -> None:
        """Wait until all objects were listed once; a kind that is not served has none."""
        await self._reflector.wait_synced()

    def put(self, raw: Object) -> Record:
        """Store the response to a write of the operator; report nothing, neither now nor on its watch event."""
        return self._store.record_write(raw, passed=self._reflector.version)

    def forget(self, uid: str) -> None:
        """Drop an object that an answer of the server shows to be deleted."""
        self._store.forget(uid)

    def health(self) -> list[WatchStatus]:
        """Return the state of the watch."""
        return [self._reflector.measure(objects=len(self._store.records))]

    def complete(self) -> None:
        """Complete a new list; `wait_synced` handles the notification."""
