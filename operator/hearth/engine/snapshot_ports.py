"""The port of the StackSnapshots. See `hearth.engine.ports`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from hearth.model import owner_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackSnapshotObject:
    """A StackSnapshot as cached from the management cluster."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    created_at: str
    """RFC 3339, UTC, whole seconds."""
    deleting: bool
    finalizers: tuple[str, ...]
    spec: Object
    status: Object

    @property
    def owner_key(self) -> str:
        """Return the key of the Stack or instance, which is in the same namespace: see `hearth.model.names.owner_key`."""
        return owner_fields.read_owner(self.spec)


class SnapshotClient(Protocol):
    """The StackSnapshots of the management cluster, and the watch of their VolumeSnapshots."""

    @property
    def is_synced(self) -> bool:
        """Whether all StackSnapshots are known."""

    def find_snapshot(self, uid: str) -> StackSnapshotObject | None:
        """Return the StackSnapshot; None if it is gone."""

    def find_snapshot_by_name(self, namespace: str, name: str) -> StackSnapshotObject | None:
        """Return the StackSnapshot of that name; None if there is none."""

    def snapshots(self) -> Collection[str]:
        """Return the UIDs of all StackSnapshots."""

    def snapshots_of(self, namespace: str, owner_key: str) -> Sequence[StackSnapshotObject]:
        """Return the StackSnapshots that name the Stack or instance with that key; cheap."""

    def watch_volumes(self, kind: Kind) -> None:
        """Report changes of VolumeSnapshots with the label of a StackSnapshot from now on. kind: VolumeSnapshot."""

    async def write_snapshot_status(self, snapshot: StackSnapshotObject, status: Object) -> None:
        """Merge-patch the status of a StackSnapshot; ignore one that is gone.

        Raises `ApiStatusError` with 409 if the StackSnapshot changed.
        """

    async def write_snapshot_finalizers(self, snapshot: StackSnapshotObject, finalizers: Sequence[str]) -> None:
        """Replace the finalizers of a StackSnapshot; ignore one that is gone.

        Raises `ApiStatusError` with 409 if the StackSnapshot changed.
        """
