"""Implements `hearth.engine.ports.HealthMarkClient` on a real API server, with a cache of all HealthMarks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.kube.cache.object_client import ObjectClient
from hearth.model import limits, names
from hearth.model.well_known_kinds import HEALTH_MARK

if TYPE_CHECKING:
    from hearth.model.child import Object

QUERY: Final = {"fieldManager": "hearth-marks"}
"""The operator's own field manager for marks. Its writes do not change the recorded time of the author's last spec
write."""


class KubeHealthMarkClient(ObjectClient[HealthMarkObject]):
    """The client of HealthMarks. `on_change` gets the UID of a HealthMark that another writer changed."""

    kind = HEALTH_MARK

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """Return the HealthMark, or None if it does not exist."""
        return self._store.records.get(uid)

    def marks(self) -> Collection[str]:
        """Return the UIDs of all HealthMarks."""
        return self._store.records.keys()

    async def write_mark_status(self, mark: HealthMarkObject, status: Object) -> None:
        """Merge-patch the status of a HealthMark; ignore a deleted one."""
        await self.patch(mark, {"status": status}, "/status", query=QUERY)

    async def write_mark_resolution(self, mark: HealthMarkObject, resolution: str) -> None:
        """Write the annotation of a resolved HealthMark; ignore a deleted one."""
        resolved = {"metadata": {"annotations": {names.ANNOTATION_RESOLVED: resolution}}}
        await self.patch(mark, resolved, query=QUERY)

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
