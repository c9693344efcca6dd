"""`hearth.engine.ports.SnapshotClient` on a real API server: StackSnapshots, their statuses and finalizers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from hearth.kube.client import api_client, api_requests
from hearth.model.well_known_kinds import STACK_SNAPSHOT

if TYPE_CHECKING:
    from hearth.engine.cluster_objects import StackSnapshotObject
    from hearth.kube.cache.stack_snapshot_cache import StackSnapshotCache
    from hearth.kube.client.api_client import RequestObserver
    from hearth.kube.client.connection import Connection
    from hearth.model.child import Object
    from hearth.model.kinds import Kind


class KubeSnapshotClient:
    """Reader of cached StackSnapshots and writer of their statuses and finalizers."""

    def __init__(
        self, connection: Connection, *, cache: StackSnapshotCache, observer: RequestObserver | None = None
    ) -> None:
        self._sender = api_client.ApiClient(connection, observer)
        self._cache = cache

    @property
    def is_synced(self) -> bool:
        """Return whether all StackSnapshots are known."""
        return self._cache.is_synced

    def find_snapshot(self, uid: str) -> StackSnapshotObject | None:
        """Return the StackSnapshot, or None if it does not exist."""
        return self._cache.find_snapshot(uid)

    def find_snapshot_by_name(self, namespace: str, name: str) -> StackSnapshotObject | None:
        """Return the StackSnapshot of that name, or None if there is none."""
        return self._cache.index.find_by_name(namespace, name)

    def snapshots(self) -> Collection[str]:
        """Return the UIDs of all StackSnapshots."""
        return self._cache.snapshots()

    def snapshots_of(self, namespace: str, owner_key: str) -> Sequence[StackSnapshotObject]:
        """Return the StackSnapshots that name that Stack."""
        return self._cache.index.list_of_stack(namespace, owner_key)

    def watch_volumes(self, kind: Kind) -> None:
        """Report changes of VolumeSnapshots with the label of a StackSnapshot from now on."""
        self._cache.watch_volumes(kind)

    async def write_snapshot_status(self, snapshot: StackSnapshotObject, status: Object) -> None:
        """Merge-patch the status of a StackSnapshot; ignore a deleted one."""
        await self._patch(snapshot, {"status": status}, "/status")

    async def write_snapshot_finalizers(self, snapshot: StackSnapshotObject, finalizers: Sequence[str]) -> None:
        """Replace the finalizers of a StackSnapshot; ignore a deleted one."""
        await self._patch(snapshot, {"metadata": {"finalizers": list(finalizers)}})

    async def _patch(self, snapshot: StackSnapshotObject, body: Object, subresource: str = "") -> None:
        """Send a merge patch; the API server rejects it unless the version matches."""
        metadata = {**body.get("metadata", {}), "resourceVersion": str(snapshot.resource_version)}
        path = api_requests.object_path(STACK_SNAPSHOT, snapshot.namespace, snapshot.name) + subresource
        answer = await self._sender.patch_existing(STACK_SNAPSHOT, path, {**body, "metadata": metadata})
        if answer is None or ("deletionTimestamp" in answer["metadata"] and not answer["metadata"].get("finalizers")):
            # Its event may be late, and the next look must not write again.
            self._cache.forget(snapshot.uid)
        else:
            self._cache.put(answer)
