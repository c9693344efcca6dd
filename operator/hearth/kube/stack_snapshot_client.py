"""Implements `hearth.engine.ports.SnapshotClient` on a real API server, with a cache of all StackSnapshots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from hearth.engine.cluster_objects import StackSnapshotObject
from hearth.kube.cache.object_client import ObjectClient, RecordIndex
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import ClusterObserver, Reflector
from hearth.model import limits, names
from hearth.model.api import status_fields
from hearth.model.well_known_kinds import STACK_SNAPSHOT

if TYPE_CHECKING:
    from hearth.kube.client.connection import Connection
    from hearth.model.child import Object
    from hearth.model.kinds import Kind


class KubeSnapshotClient(ObjectClient[StackSnapshotObject]):
    """Every StackSnapshot, or all of one namespace, by UID, name and Stack. Watches run from `start` to `close`."""

    kind = STACK_SNAPSHOT

    def __init__(
        self,
        connection: Connection,
        on_change: Callable[[str], None],
        *,
        namespace: str = "",
        observer: ClusterObserver | None = None,
    ) -> None:
        """on_change: gets the UID of a StackSnapshot after another writer changed it or one of its VolumeSnapshots."""
        super().__init__(connection, on_change, namespace=namespace, observer=observer)
        self._namespace = namespace
        self._index = SnapshotIndex()
        self.find_snapshot_by_name, self.snapshots_of = self._index.find_by_name, self._index.list_of_stack
        self._volume_reflector: Reflector | None = None

    async def close(self) -> None:
        """Stop the watches and all reports."""
        await super().close()
        if self._volume_reflector is not None:
            await self._volume_reflector.close()

    def find_snapshot(self, uid: str) -> StackSnapshotObject | None:
        """Return the StackSnapshot, or None if it does not exist."""
        return self._store.records.get(uid)

    def snapshots(self) -> Collection[str]:
        """Return the UIDs of all StackSnapshots."""
        return self._store.records.keys()

    def watch_volumes(self, kind: Kind) -> None:
        """Start to report changes to VolumeSnapshots that have the label of a StackSnapshot."""
        if self._volume_reflector is None:
            path = api_requests.collection_path(kind, self._namespace)
            selector = {"labelSelector": names.LABEL_SNAPSHOT_UID}
            handler = VolumeSnapshotHandler(self._on_change)
            self._volume_reflector = Reflector(
                self._context, path, handler, name=kind.key, selector=selector, metadata_only=True
            )
            self._volume_reflector.start()

    async def write_snapshot_status(self, snapshot: StackSnapshotObject, status: Object) -> None:
        """Merge-patch the status of a StackSnapshot. Does nothing if it was deleted."""
        await self.patch(snapshot, {"status": status}, "/status")

    async def write_snapshot_finalizers(self, snapshot: StackSnapshotObject, finalizers: Sequence[str]) -> None:
        """Replace the finalizers of a StackSnapshot. Does nothing if it was deleted."""
        await self.patch(snapshot, {"metadata": {"finalizers": list(finalizers)}})

    async def write_snapshot_content(self, snapshot: StackSnapshotObject, content: str) -> None:
        """Write the record of the content of a StackSnapshot. Does nothing if it was deleted."""
        await self.patch(snapshot, {"metadata": {"annotations": {names.ANNOTATION_CONTENT: content}}})

    def parse(self, raw: Object) -> StackSnapshotObject:
        """Return the cached part of a StackSnapshot."""
        return parse_snapshot(raw)

    def replace(self, old: StackSnapshotObject | None, new: StackSnapshotObject | None, *, is_ours: bool) -> None:
        """Update a created, changed or deleted StackSnapshot."""
        self._index.replace(old, new)
        either = new or old
        if either is not None and not is_ours:
            self._on_change(either.uid)


class SnapshotIndex:
    """StackSnapshots by name and by Stack."""

    def __init__(self) -> None:
        self._by_name = RecordIndex[StackSnapshotObject](lambda snapshot: snapshot.name)
        self._by_stack = RecordIndex[StackSnapshotObject](lambda snapshot: snapshot.owner_key)
        self.list_of_stack = self._by_stack.list_records

    def replace(self, old: StackSnapshotObject | None, new: StackSnapshotObject | None) -> None:
        """Update a created, changed or deleted StackSnapshot."""
        self._by_name.replace(old, new)
        self._by_stack.replace(old, new)

    def find_by_name(self, namespace: str, name: str) -> StackSnapshotObject | None:
        """Return the newest StackSnapshot with this name, or None if none exists."""
        return next(reversed(self._by_name.list_records(namespace, name)), None)


class VolumeSnapshotHandler:
    """Handler for VolumeSnapshots. Stores nothing; reports the StackSnapshot in the label of each VolumeSnapshot."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        """on_change: gets the UID of a StackSnapshot."""
        self._on_change = on_change

    def on_list_started(self) -> None:
        """Start a new list."""

    def on_object(self, raw: Object) -> None:
        """Report a VolumeSnapshot that exists."""
        uid = (raw["metadata"].get("labels") or {}).get(names.LABEL_SNAPSHOT_UID)
        if isinstance(uid, str):
            self._on_change(uid)

    def on_deleted(self, raw: Object) -> None:
        """Report a deleted VolumeSnapshot."""
        self.on_object(raw)

    def on_synced(self, version: int | None) -> None:
        """End a list."""


def parse_snapshot(raw: Object) -> StackSnapshotObject:
    """Convert an object to the engine's view of a StackSnapshot."""
    metadata, spec = raw["metadata"], raw.get("spec")
    content = (metadata.get("annotations") or {}).get(names.ANNOTATION_CONTENT, "")
    return StackSnapshotObject(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        resource_version=int(metadata["resourceVersion"]),
        created_at=metadata.get("creationTimestamp") or "",
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        spec=spec if isinstance(spec, dict) else {},
        status=status_fields.keep_valid(raw.get("status")),
        content=content if len(content) <= limits.SNAPSHOT_CONTENT_BYTES else "",
    )
