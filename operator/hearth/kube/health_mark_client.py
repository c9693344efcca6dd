"""Implements `hearth.engine.ports.HealthMarkClient` on a real API server, with a cache of all HealthMarks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.kube.cache import object_store
from hearth.kube.cache.object_store import WatchedCache
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import ClusterObserver, Reflector, WatchContext
from hearth.model import limits, names
from hearth.model.well_known_kinds import HEALTH_MARK

if TYPE_CHECKING:
    from hearth.kube.client.connection import Connection
    from hearth.model.child import Object

QUERY: Final = {"fieldManager": "hearth-marks"}
"""The operator's own field manager for marks. Its writes do not change the recorded time of the author's last spec
write."""


class KubeHealthMarkClient(WatchedCache[HealthMarkObject]):
    """Every HealthMark, or all of one namespace. Its watch runs from `start` to `close`."""

    def __init__(
        self,
        connection: Connection,
        on_change: Callable[[str], None],
        *,
        namespace: str = "",
        observer: ClusterObserver | None = None,
    ) -> None:
        """on_change: gets the UID of a HealthMark that another writer created, changed or deleted."""
        self._on_change = on_change
        self._sender = api_requests.ApiClient(connection, observer)
        self._store = object_store.ObjectStore(self)
        path = api_requests.collection_path(HEALTH_MARK, namespace)
        context = WatchContext(connection=connection, observer=observer)
        self._reflector = Reflector(context, path, self._store, name=HEALTH_MARK.key)

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """Return the HealthMark, or None if it does not exist."""
        return self._store.records.get(uid)

    def marks(self) -> Collection[str]:
        """Return the UIDs of all HealthMarks."""
        return self._store.records.keys()

    async def write_mark_status(self, mark: HealthMarkObject, status: Object) -> None:
        """Merge-patch the status of a HealthMark; ignore a deleted one."""
        await self._patch(mark, {"status": status}, "/status")

    async def write_mark_resolution(self, mark: HealthMarkObject, resolution: str) -> None:
        """Write the annotation of a resolved HealthMark; ignore a deleted one."""
        await self._patch(mark, {"metadata": {"annotations": {names.ANNOTATION_RESOLVED: resolution}}})

    async def _patch(self, mark: HealthMarkObject, change: Object, subresource: str = "") -> None:
        """Send a merge patch; the API server rejects it unless the version matches."""
        path = api_requests.object_path(HEALTH_MARK, mark.namespace, mark.name) + subresource
        body = api_requests.at_version(change, mark.resource_version)
        answer = await self._sender.send_existing("patch", HEALTH_MARK, path, query=QUERY, body=body)
        if answer is None:
            # Update the cache now. The watch event may be late, and the next reconcile would write again.
            self.forget(mark.uid)
        else:
            self.put(answer)

    def parse(self, raw: Object) -> HealthMarkObject:
        """Return the cached part of a HealthMark."""
        return parse_mark(raw)

    def replace(self, old: HealthMarkObject | None, new: HealthMarkObject | None, *, is_ours: bool) -> None:
        """Update a created, changed or deleted HealthMark."""
        either = new or old
        is_same = (
            old is not None
            and new is not None
            and (old.spec, old.status, old.resolution) == (new.spec, new.status, new.resolution)
        )
        if either is not None and not is_ours and not is_same:
            self._on_change(either.uid)


def parse_mark(raw: Object) -> HealthMarkObject:
    """Convert an object to the engine's view of a HealthMark."""
    metadata = raw["metadata"]
    return HealthMarkObject(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        resource_version=int(metadata["resourceVersion"]),
        written_at=find_time(metadata.get("managedFields") or ()) or metadata.get("creationTimestamp", ""),
        spec=raw.get("spec") or {},
        status=raw.get("status") or {},
        resolution=str((metadata.get("annotations") or {}).get(names.ANNOTATION_RESOLVED, ""))[
            : limits.ANNOTATION_KEPT_BYTES
        ],
    )


def find_time(managed_fields: Iterable[Mapping[str, Any]]) -> str:
    """Return when the spec was written last, "" if unknown."""
    times = (
        entry.get("time") or ""
        for entry in managed_fields
        if not entry.get("subresource") and "f:spec" in (entry.get("fieldsV1") or {})
    )
    return max(times, default="")
