"""Implements `hearth.engine.ports.ManagementCluster` for one Stack, with writes in memory.

A preview has no HealthMarks, StackSnapshots and StackPlans; `NoHealthMarks`, `NoSnapshots` and `NoPlans` implement their
ports.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from hearth.engine.cluster_objects import HealthMarkObject, Revision, StackObject, StackPlanObject, StackSnapshotObject
from hearth.model import names, well_known_kinds
from hearth.model.api import status_fields
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, HearthError, SnapshotNotUsable, TamperedRevision
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.stack_tree import Node, StackTree
from hearth.plan.ownership import apply_obstacles
from hearth.plan.target.change_plans import PreviewedChange
from hearth.preview.live_cluster import LiveCluster
from hearth.template.instances.instance_form import InstanceForms


class CopiedManagementCluster:
    """The cluster of the Stacks, as the engine sees it in a preview."""

    def __init__(
        self,
        live: LiveCluster,
        stack: StackObject,
        *,
        others: Collection[str] | None,
        beside: Mapping[ObjectRef, Object],
        accounts: Collection[str],
    ) -> None:
        """others: UIDs of all Stacks, None if unknown; beside: sources from the user that replace the live ones.

        accounts: the users that the user of the preview may impersonate.
        """
        self.stack = stack
        self.tree = StackTree()
        self.tree.put(Node(stack.uid, stack.namespace, stack.name, stack.parent, stack.kind))
        self._live = live
        self._others = others
        self._beside = beside
        self._accounts = accounts
        self._stored: dict[str, tuple[Revision, Object]] = {}

    def add_revision(self, revision: Revision, definition: Object) -> None:
        """Add a stored revision."""
        self._stored[revision.name] = revision, definition

    def find_stack(self, uid: str) -> StackObject | None:
        """Return the Stack of the preview."""
        return self.stack if uid == self.stack.uid else None

    async def open_stack(self, stack: StackObject) -> StackObject:
        """Return the Stack with its spec parsed."""
        return stack.with_parsed_spec()

    def stacks(self) -> Collection[str]:
        """Return the UID of the Stack of the preview."""
        return (self.stack.uid,)

    def has_listed(self, kind: str) -> bool:  # noqa: ARG002 -- the port
        """Return True: a preview reads everything it needs."""
        return True

    def find_forms(self, key: str) -> InstanceForms | None:  # noqa: ARG002 -- the port
        """Return None: the dry runs of a preview have the rights of its user."""
        return None

    def complete_kind(self, name: str) -> str:  # noqa: ARG002 -- the port
        """Return "": a preview has no HealthMark that needs it."""
        return ""

    def is_other_shard_uid(self, uid: str) -> bool:
        """Return whether another Stack of this UID may exist."""
        return self._others is None or uid in self._others

    def is_other_shard_name(self, namespace: str, name: str, *, kind: str = names.STACK) -> bool:  # noqa: ARG002 -- the port
        """Return False: a preview has no HealthMark that needs it."""
        return False

    def revisions(self, stack_uid: str) -> tuple[Revision, ...]:
        """Return the revisions by rising number."""
        found = [revision for revision, _ in self._stored.values()] if stack_uid == self.stack.uid else []
        return tuple(sorted(found, key=lambda each: each.number))

    def find_former_revisions(self, stack: StackObject) -> Collection[tuple[str, Revision]]:  # noqa: ARG002 -- the port
        """Return none: a preview reclaims no revisions."""
        return ()

    async def adopt_revision(self, stack: StackObject, revision: Revision) -> None:
        """Do nothing: a preview reclaims no revisions."""

    async def annotate_revision(self, stack: StackObject, revision: Revision, annotation: str, text: str) -> None:
        """Do nothing: a preview does not outlive its process."""

    async def get_revision(self, stack: StackObject, name: str) -> Revision | None:  # noqa: ARG002 -- the port
        """Return the stored revision."""
        found = self._stored.get(name)
        return found[0] if found is not None else None

    async def create_revision(self, stack: StackObject, revision: Revision, definition: Object) -> Revision:  # noqa: ARG002 -- the port
        """Store a revision in memory."""
        return self._stored.setdefault(revision.name, (revision, definition))[0]

    async def get_definition(self, stack: StackObject, revision: Revision) -> Object:  # noqa: ARG002 -- the port
        """Return the stored definition. Raises TamperedRevision if it could not be read."""
        found = self._stored.get(revision.name)
        if found is None or not found[1]:
            raise TamperedRevision(f"controllerrevision.apps/{revision.name} cannot be read")
        return found[1]

    async def delete_revision(self, stack: StackObject, revision: Revision) -> None:
        """Keep the revision: the preview does not show the history."""

    async def add_finalizer(self, stack: StackObject) -> None:  # noqa: ARG002 -- the port
        """Add the finalizer in memory."""
        if names.FINALIZER not in self.stack.finalizers:
            self._replace(finalizers=(*self.stack.finalizers, names.FINALIZER))

    async def remove_finalizer(self, stack: StackObject) -> None:  # noqa: ARG002 -- the port
        """Remove the finalizer in memory."""
        self._replace(finalizers=tuple(each for each in self.stack.finalizers if each != names.FINALIZER))

    async def delete_stack(self, stack: StackObject) -> None:
        """Keep the Stack: a preview does not delete it."""

    async def write_status(self, stack: StackObject, status: Object) -> None:  # noqa: ARG002 -- the port
        """Merge the status in memory."""
        merged = apply_obstacles.patched(self.stack.status, status)
        self._replace(packed_status=status_fields.pack(merged), phase=str(merged.get("phase", "")))

    def _replace(self, **changes: object) -> None:
        version = self.stack.resource_version + 1
        self.stack = dataclasses.replace(self.stack, resource_version=version, **changes)  # type: ignore[arg-type]  # the fields of a StackObject

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """Return the data of a source."""
        return well_known_kinds.find_source_data(await self._get(ref, user), ref.kind)

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """Return the binary data of a source."""
        return well_known_kinds.find_source_data(await self._get(ref, user), ref.kind, is_binary=True)

    async def _get(self, ref: ObjectRef, user: str) -> Object:
        if ref in self._beside:
            return self._beside[ref]
        if ref.kind not in well_known_kinds.SOURCE_KINDS:
            raise ApiStatusError(code=404, status={"code": 404, "reason": "NotFound"})
        return await self._live.get(
            ref, kind=well_known_kinds.SOURCE_KINDS[ref.kind], user=user if user in self._accounts else ""
        )

    def follow_sources(self, stack_uid: str, refs: Collection[ObjectRef]) -> None:
        """Watch nothing: the copy does not change on its own."""

    def find_polled_sources(self, stack_uid: str) -> Sequence[ObjectRef]:  # noqa: ARG002 -- the port
        """Return no source."""
        return ()

    def find_source_creators(self, stack_uid: str) -> frozenset[str]:  # noqa: ARG002 -- the port
        """Return no Stack."""
        return frozenset()

    async def emit_event(self, stack: StackObject, *, type_: str, reason: str, message: str) -> None:
        """Post nothing."""

    async def emit_source_event(self, ref: ObjectRef, *, type_: str, reason: str, message: str) -> None:
        """Post nothing."""


class NoHealthMarks:
    """The port `HealthMarkClient` without HealthMarks."""

    def find_mark(self, uid: str) -> HealthMarkObject | None:  # noqa: ARG002 -- the port
        """Return None."""
        return None

    def marks(self) -> Collection[str]:
        """Return none."""
        return ()

    async def write_mark_resolution(self, mark: HealthMarkObject, resolution: str) -> None:
        """Write nothing."""

    async def write_mark_status(self, mark: HealthMarkObject, status: Object) -> None:
        """Write nothing."""


NO_RESTORE: Final = (
    "spec.rollback.toSnapshot: the rollback to StackSnapshot {name} cannot be previewed or planned; with spec.approval, "
    "set spec.approval.required to Never first, which needs an approval, or use toRevision, which restores no data"
)


class NoSnapshots:
    """The port `SnapshotClient` without StackSnapshots."""

    is_synced = True

    def find_snapshot(self, uid: str) -> StackSnapshotObject | None:  # noqa: ARG002 -- the port
        """Return None."""
        return None

    def find_snapshot_by_name(self, namespace: str, name: str) -> StackSnapshotObject | None:  # noqa: ARG002 -- the port
        """Raise SnapshotNotUsable: a preview cannot show how volumes are restored."""
        raise SnapshotNotUsable("SnapshotNotFound", NO_RESTORE.format(name=name))

    def snapshots(self) -> Collection[str]:
        """Return none."""
        return ()

    def snapshots_of(self, namespace: str, owner_key: str) -> Sequence[StackSnapshotObject]:  # noqa: ARG002 -- the port
        """Return none."""
        return ()

    def watch_volumes(self, kind: Kind) -> None:
        """Watch nothing."""

    async def write_snapshot_status(self, snapshot: StackSnapshotObject, status: Object) -> None:
        """Write nothing."""

    async def write_snapshot_content(self, snapshot: StackSnapshotObject, content: str) -> None:
        """Do nothing: there are no snapshots."""

    async def write_snapshot_finalizers(self, snapshot: StackSnapshotObject, finalizers: Sequence[str]) -> None:
        """Write nothing."""


class NoPlans:
    """The port `StackPlanClient` without StackPlans."""

    is_synced = True
    is_approvable = False

    def plans_of(self, namespace: str, stack_uid: str) -> Sequence[StackPlanObject]:  # noqa: ARG002 -- the port
        """Return none."""
        return ()

    async def create_plan(self, manifest: Object) -> StackPlanObject | None:  # noqa: ARG002 -- the port
        """Create nothing."""
        return None

    async def write_plan_status(self, plan: StackPlanObject, status: Object) -> None:
        """Write nothing."""

    async def delete_plan(self, plan: StackPlanObject) -> None:
        """Delete nothing."""


class NoPreviews:
    """The port `ChangePreviews` without previews."""

    async def preview(self, stack: StackObject) -> PreviewedChange:
        """Raise HearthError."""
        raise HearthError(f"a preview makes no plan of {stack.name}")
