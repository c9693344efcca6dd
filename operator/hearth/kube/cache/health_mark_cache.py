"""Cache of all HealthMarks of the management cluster.

Must not know what a mark means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.kube.cache import object_store
from hearth.kube.cache.watched_cache import WatchedCache
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import Reflector
from hearth.kube.watch.watch_context import WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.model.child import Object
from hearth.model.well_known_kinds import HEALTH_MARK


class HealthMarkListener(Protocol):
    """The part of the engine's listener that receives HealthMarks."""

    def on_health_mark(self, uid: str) -> None:
        """Handle a created, changed or deleted HealthMark."""


class HealthMarkCache(WatchedCache[HealthMarkObject]):
    """Every HealthMark, or those of one namespace. Its watch runs from `start` to `close`."""

    def __init__(
        self,
        connection: WatchConnection,
        listener: HealthMarkListener,
        *,
        namespace: str = "",
        options: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        self._listener = listener
        self._store = object_store.ObjectStore(self)
        server = WatchContext(connection=connection, options=options or WatchOptions(), observer=observer)
        self._reflector = Reflector(
            server, api_requests.collection_path(HEALTH_MARK, namespace), self._store, name=HEALTH_MARK.key
        )

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """Return the HealthMark, or None if it does not exist."""
        return self._store.records.get(uid)

    def marks(self) -> Collection[str]:
        """Return the UIDs of all HealthMarks."""
        return self._store.records.keys()

    def put(self, raw: Object) -> HealthMarkObject:
        """Store the response to a write of the operator; notify no listener, neither now nor on its watch event."""
        return self._store.record_write(raw, passed=self._reflector.version)

    def forget(self, uid: str) -> None:
        """Drop a HealthMark that an answer of the server shows to be deleted."""
        self._store.forget(uid)

    def parse(self, raw: Object) -> HealthMarkObject:
        """Return the cached part of a HealthMark."""
        return parse_mark(raw)

    def replace(self, old: HealthMarkObject | None, new: HealthMarkObject | None, *, is_ours: bool) -> None:
        """Update a created, changed or deleted HealthMark."""
        either = new or old
        is_same = old is not None and new is not None and (old.spec, old.status) == (new.spec, new.status)
        if either is not None and not is_ours and not is_same:
            self._listener.on_health_mark(either.uid)


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
    )


def find_time(managed_fields: Iterable[Mapping[str, Any]]) -> str:
    """Return when the spec was written last, "" if unknown."""
    times = (
        entry.get("time") or ""
        for entry in managed_fields
        if not entry.get("subresource") and "f:spec" in (entry.get("fieldsV1") or {})
    )
    return max(times, default="")
