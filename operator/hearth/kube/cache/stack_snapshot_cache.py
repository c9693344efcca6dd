"""Cache of all StackSnapshots of the management cluster, by UID, name and Stack.

Must not know what a snapshot means.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from hearth.engine.cluster_objects import StackSnapshotObject
from hearth.kube.cache import child_cache, object_store
from hearth.kube.cache.child_cache import WatchStatus
from hearth.kube.cache.object_store import ObjectStore
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import Reflector
from hearth.kube.watch.watch_context import WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.model import names
from hearth.model.api import status_fields
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK_SNAPSHOT


class StackSnapshotListener(Protocol):
    """The part of the engine's listener that receives StackSnapshots."""

    def on_stack_snapshot(self, uid: str) -> None:
        """Handle a StackSnapshot that was created, changed or deleted, or a change of one of its VolumeSnapshots."""


class StackSnapshotCache:
    """Every StackSnapshot, or those of one namespace. Its watch runs from `start` to `close`."""

    def __init__(
        self,
        connection: WatchConnection,
        listener: StackSnapshotListener,
        *,
        namespace: str = "",
        options: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        self._listener = listener
        self._namespace = namespace
        self._store: ObjectStore[StackSnapshotObject] = object_store.ObjectStore(self)
        self.index = SnapshotIndex()
        self._server = WatchContext(connection=connection, options=options or WatchOptions(), observer=observer)
        path = api_requests.collection_path(STACK_SNAPSHOT, namespace)
        self._reflector = Reflector(self._server, path, self._store, name=STACK_SNAPSHOT.key)
        self._volume_reflector: Reflector | None = None

    def start(self) -> None:
        """Start the watch."""
        self._reflector.start()

    async def close(self) -> None:
        """Stop the watches; the listener receives no more calls."""
        await self._reflector.close()
        if self._volume_reflector is not None:
            await self._volume_reflector.close()

    def watch_volumes(self, kind: Kind) -> None:
        """Report changes of VolumeSnapshots with the label of a StackSnapshot from now on."""
        if self._volume_reflector is None:
            path = api_requests.collection_path(kind, self._namespace)
            selector = {"labelSelector": names.LABEL_SNAPSHOT_UID}
            handler = VolumeSnapshotHandler(self._listener)
            self._volume_reflector = Reflector(
                self._server, path, handler, name=kind.key, selector=selector, metadata_only=True
            )
            self._volume_reflector.start()

    async def wait_synced(self) -> None:
        """Wait until all StackSnapshots were listed once; a kind that is not served has none."""
        await self._reflector.wait_synced()

    def health(self) -> list[WatchStatus]:
        """Return the state of the watch."""
        return [child_cache.measure(STACK_SNAPSHOT.key, self._reflector, objects=len(self._store.records))]

    @property
    def is_synced(self) -> bool:
        """Whether all StackSnapshots were listed once."""
        return self._reflector.is_synced

    def find_snapshot(self, uid: str) -> StackSnapshotObject | None:
        """Return the StackSnapshot, or None if it does not exist."""
        return self._store.records.get(uid)

    def snapshots(self) -> Collection[str]:
        """Return the UIDs of all StackSnapshots."""
        return self._store.records.keys()

    def put(self, raw: Object) -> StackSnapshotObject:
        """Store the response to a write of the operator; notify no listener, neither now nor on its watch event."""
        return self._store.record_write(raw, passed=self._reflector.version)

    def forget(self, uid: str) -> None:
        """Drop a StackSnapshot that an answer of the server shows to be deleted."""
        self._store.forget(uid)

    def parse(self, raw: Object) -> StackSnapshotObject:
        """Return the cached part of a StackSnapshot."""
        return parse_snapshot(raw)

    def replace(self, old: StackSnapshotObject | None, new: StackSnapshotObject | None, *, is_ours: bool) -> None:
        """Update a created, changed or deleted StackSnapshot."""
        self.index.replace(old, new)
        either = new or old
        if either is not None and not is_ours:
            self._listener.on_stack_snapshot(either.uid)

    def complete(self) -> None:
        """Complete a new list."""


class SnapshotIndex:
    """StackSnapshots by name and by Stack."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, str], StackSnapshotObject] = {}
        self._by_stack: dict[tuple[str, str], dict[str, StackSnapshotObject]] = {}

    def replace(self, old: StackSnapshotObject | None, new: StackSnapshotObject | None) -> None:
        """Update a created, changed or deleted StackSnapshot."""
        if old is not None:
            self._drop(old)
        if new is not None:
            self._by_name[new.namespace, new.name] = new
            self._by_stack.setdefault((new.namespace, new.owner_key), {})[new.uid] = new

    def _drop(self, old: StackSnapshotObject) -> None:
        # A successor of the same name may have been seen before the deletion of this one.
        if (known := self._by_name.get((old.namespace, old.name))) is not None and known.uid == old.uid:
            del self._by_name[old.namespace, old.name]
        of_stack = self._by_stack.get((old.namespace, old.owner_key), {})
        of_stack.pop(old.uid, None)
        if not of_stack:
            self._by_stack.pop((old.namespace, old.owner_key), None)

    def find_by_name(self, namespace: str, name: str) -> StackSnapshotObject | None:
        """Return the StackSnapshot of that name; None if there is none."""
        return self._by_name.get((namespace, name))

    def list_of_stack(self, namespace: str, stack: str) -> Sequence[StackSnapshotObject]:
        """Return the StackSnapshots that name that Stack."""
        return tuple(self._by_stack.get((namespace, stack), {}).values())


class VolumeSnapshotHandler:
    """Receiver of VolumeSnapshots: stores none, and reports to which StackSnapshot each claims to belong."""

    def __init__(self, listener: StackSnapshotListener) -> None:
        self._listener = listener

    def on_list_started(self) -> None:
        """Start a new list."""

    def on_object(self, raw: Object) -> None:
        """Report a VolumeSnapshot that exists."""
        uid = (raw["metadata"].get("labels") or {}).get(names.LABEL_SNAPSHOT_UID)
        if isinstance(uid, str):
            self._listener.on_stack_snapshot(uid)

    def on_deleted(self, raw: Object) -> None:
        """Report a deleted VolumeSnapshot."""
        self.on_object(raw)

    def on_synced(self, version: int | None) -> None:
        """Complete a list."""


def parse_snapshot(raw: Object) -> StackSnapshotObject:
    """Convert an object to the engine's view of a StackSnapshot."""
    metadata, spec = raw["metadata"], raw.get("spec")
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
    )
