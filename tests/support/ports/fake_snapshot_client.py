"""The port `SnapshotClient` on the fake server: replaces `hearth.kube.stack_snapshot_client` for one engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hearth.engine.cluster_objects import StackSnapshotObject
from hearth.kube import stack_snapshot_client
from hearth.kube.stack_snapshot_client import SnapshotIndex, VolumeSnapshotHandler
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.ports.fake_connection import FakeWire
from support.server import api_errors, fake_kinds
from support.server.fake_objects import copy
from support.server.request_faults import Request

MANAGER = "hearth"
STACK_SNAPSHOT = fake_kinds.STACK_SNAPSHOT.kind


class FakeSnapshots:
    """One engine's access to StackSnapshots, including existing ones."""

    is_synced = True

    def __init__(self, wire: FakeWire, on_change: Callable[[str], None]) -> None:
        self._wire = wire
        self._server = wire.server
        self._on_change = on_change
        self._snapshots: dict[str, StackSnapshotObject] = {}
        self._index = SnapshotIndex()
        self._volumes: Kind | None = None
        self._volume_handler = VolumeSnapshotHandler(on_change)
        wire.receive(self._take)
        for raw in self._server.list_all(STACK_SNAPSHOT):
            self._take(STACK_SNAPSHOT, None, raw)

    def _take(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Handle an event."""
        raw = after or before
        if raw is None:
            return
        if kind == self._volumes:
            self._volume_handler.on_object(raw)
        if kind != STACK_SNAPSHOT:
            return
        snapshot = stack_snapshot_client.parse_snapshot(copy(raw))
        known = self._snapshots.get(snapshot.uid)
        if after is None:
            self._replace(snapshot.uid, None)
        elif known is not None and known.resource_version >= snapshot.resource_version:
            return
        else:
            self._replace(snapshot.uid, snapshot)
        self._on_change(snapshot.uid)

    def _replace(self, uid: str, snapshot: StackSnapshotObject | None) -> None:
        self._index.replace(self._snapshots.pop(uid, None), snapshot)
        if snapshot is not None:
            self._snapshots[uid] = snapshot

    def find_snapshot(self, uid: str) -> StackSnapshotObject | None:
        """As the port says."""
        return self._snapshots.get(uid)

    def find_snapshot_by_name(self, namespace: str, name: str) -> StackSnapshotObject | None:
        """As the port says."""
        return self._index.find_by_name(namespace, name)

    def snapshots(self) -> Collection[str]:
        """As the port says."""
        return tuple(self._snapshots)

    def snapshots_of(self, namespace: str, owner_key: str) -> Sequence[StackSnapshotObject]:
        """As the port says."""
        return self._index.list_of_stack(namespace, owner_key)

    def watch_volumes(self, kind: Kind) -> None:
        """As the port says."""
        self._volumes = kind

    async def write_snapshot_status(self, snapshot: StackSnapshotObject, status: Object) -> None:
        """As the port says."""
        sent = copy(status)
        place = (snapshot.namespace, snapshot.name)
        await self._write(
            snapshot,
            "snapshot-status",
            lambda: self._server.patch_status(STACK_SNAPSHOT, *place, sent, manager=MANAGER),
        )

    async def write_snapshot_content(self, snapshot: StackSnapshotObject, content: str) -> None:
        """As the port says."""
        sent = {"metadata": {"annotations": {names.ANNOTATION_CONTENT: content}}}
        place = (snapshot.namespace, snapshot.name)
        await self._write(
            snapshot,
            "snapshot-content",
            lambda: self._server.patch(STACK_SNAPSHOT, *place, sent, manager=MANAGER),
        )

    async def write_snapshot_finalizers(self, snapshot: StackSnapshotObject, finalizers: Sequence[str]) -> None:
        """As the port says."""
        sent = {"metadata": {"finalizers": list(finalizers) or None}}
        place = (snapshot.namespace, snapshot.name)
        await self._write(
            snapshot,
            "snapshot-finalizer",
            lambda: self._server.patch(STACK_SNAPSHOT, *place, sent, manager=MANAGER),
        )

    async def _write(self, snapshot: StackSnapshotObject, verb: str, act: Callable[[], Object]) -> None:
        def checked() -> Object:
            live = self._server.get(STACK_SNAPSHOT, snapshot.namespace, snapshot.name)
            if live["metadata"]["resourceVersion"] != str(snapshot.resource_version):
                raise api_errors.stale(STACK_SNAPSHOT, snapshot.name)
            return act()

        try:
            answer = copy(await self._wire.send(snapshot_request(verb, snapshot), checked))
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise
            self._replace(snapshot.uid, None)
            return
        found = stack_snapshot_client.parse_snapshot(answer)
        known = self._snapshots.get(found.uid)
        if found.deleting and not found.finalizers:
            self._replace(found.uid, None)
        elif known is not None and known.resource_version < found.resource_version:
            self._replace(found.uid, found)


def snapshot_request(verb: str, snapshot: StackSnapshotObject) -> Request:
    """A write of a StackSnapshot."""
    return Request(verb=verb, kind=STACK_SNAPSHOT, namespace=snapshot.namespace, name=snapshot.name)
