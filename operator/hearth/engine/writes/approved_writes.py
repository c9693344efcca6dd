"""A cluster that only accepts the writes of an approved plan. Every other write raises OutsidePlan before it is sent.

Each write is compared with the object as it is now, and carries the version of that object, so that a change by another
client in between is a conflict.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from hearth.engine.ports import WorkloadCluster
from hearth.engine.writes import apply_preparation, step_execution
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.well_known_kinds import VOLUME_CLAIM
from hearth.plan.ownership import apply_obstacles
from hearth.plan.target import approved_steps
from hearth.plan.target.approved_steps import ApprovedSteps, OutsidePlan

Answer = TypeVar("Answer")
TRIES: Final = 3
"""Comparisons of one write while other clients change its object, usually its status."""
EXISTS: Final = {"code": 409, "reason": "Conflict", "message": "the object exists already"}
"""The answer of the API server to the creation of an existing object."""
CLAIM_SIZE: Final = ("spec.resources.requests.storage",)


def restrict(cluster: WorkloadCluster, approved: ApprovedSteps, *, stack_uid: str) -> WorkloadCluster:
    """Return the cluster, restricted to the writes that are approved for this Stack."""
    return cast("WorkloadCluster", ApprovedCluster(cluster, approved, stack_uid=stack_uid))


class ApprovedCluster:
    """The port `WorkloadCluster`. Reads and dry runs are those of the inner cluster."""

    def __init__(self, cluster: WorkloadCluster, approved: ApprovedSteps, *, stack_uid: str) -> None:
        self._cluster = cluster
        self._approved = approved
        self._stack_uid = stack_uid

    def __getattr__(self, name: str) -> Any:
        """Return a method that does not write."""
        return getattr(self._cluster, name)

    def acting_as(self, user: str) -> WorkloadCluster:
        """Return the same restricted cluster, accessed as that user."""
        return restrict(self._cluster.acting_as(user), self._approved, stack_uid=self._stack_uid)

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Apply a manifest if the plan contains exactly its changes."""
        ref = refer(kind, manifest["metadata"])
        if manifest["metadata"].get("resourceVersion") == step_execution.CREATE_ONLY:
            if excess := self._approved.find_excess_of_creation(ref, manifest):
                await self._refuse_creation(ref, excess, kind=kind)
            return await self._cluster.apply(manifest, kind=kind, manager=manager, force=force)

        async def apply_to(live: Object) -> Child:
            sent = at_version(manifest, live)
            predicted = await self._cluster.apply_dry_run(sent, kind=kind, manager=manager)
            changed = approved_steps.find_changed(live, predicted, manager=manager)
            demand(
                self._approved.find_excess_of_change(ref, live, changed, stack_uid=self._stack_uid, manifest=manifest)
            )
            return await self._cluster.apply(sent, kind=kind, manager=manager, force=force)

        return await self._write_exactly(ref, apply_to, kind=kind, wanted=manifest)

    async def change(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Child:
        """Write a merge patch if the plan contains its changes."""

        async def change(live: Object) -> Child:
            self._compare(ref, live, patch)
            return await self._cluster.change(ref, at_version(patch, live), kind=kind)

        return await self._write_exactly(ref, change, kind=kind, wanted=patch)

    async def change_object(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Write a merge patch of an object that is not a child: of a claim of a replaced StatefulSet, or our records."""

        async def change(live: Object) -> Object:
            paths = list(approved_steps.find_paths(live, apply_obstacles.patched(live, patch)))
            is_size = kind == VOLUME_CLAIM and not approved_steps.find_unplanned(paths, CLAIM_SIZE)
            if paths and not (is_size and self._approved.replaces_set_of(ref)):
                self._compare(ref, live, patch)
            return await self._cluster.change_object(ref, at_version(patch, live), kind=kind)

        return await self._write_exactly(ref, change, kind=kind, wanted=patch)

    async def create_object(self, manifest: Object, *, kind: Kind) -> Object:
        """Create an object that is not a child if the plan creates it."""
        demand(self._approved.find_excess_of_creation(refer(kind, manifest["metadata"]), manifest))
        return await self._cluster.create_object(manifest, kind=kind)

    async def delete_object(self, raw: Object, *, kind: Kind) -> None:
        """Delete an object that is not a child if the plan deletes it."""
        demand(self._approved.find_excess_of_deletion(refer(kind, raw["metadata"])))
        await self._cluster.delete_object(raw, kind=kind)

    async def delete(self, child: Child, *, keeps_dependents: bool = False) -> bool:
        """Delete a child if the plan deletes it."""
        demand(self._approved.find_excess_of_deletion(child.ref))
        return await self._cluster.delete(child, keeps_dependents=keeps_dependents)

    async def release(self, child: Child) -> None:
        """Release a child if the plan releases or deletes it."""
        demand(self._approved.find_excess_of_release(child.ref))
        await self._cluster.release(child)

    async def mark(self, child: Child, reason: str | None, *, mark_id: str = "") -> Child | None:
        """Write a health mark. The plan covers what follows from it, or it does not happen."""
        return await self._cluster.mark(child, reason, mark_id=mark_id)

    async def _refuse_creation(self, ref: ObjectRef, excess: str, *, kind: Kind) -> None:
        """Raise ApiStatusError as for an existing object if there is one that the plan changes, otherwise OutsidePlan."""
        if self._approved.changes(ref):
            try:
                await self._cluster.get(ref, kind=kind)
            except ApiStatusError as error:
                if not error.is_not_found:
                    raise
            else:
                raise ApiStatusError(code=409, status={**EXISTS, "details": {"name": ref.name}})
        raise OutsidePlan(excess)

    def _compare(self, ref: ObjectRef, live: Object, patch: Object) -> None:
        """Raise OutsidePlan if the plan does not contain the changes of a merge patch."""
        changed = apply_obstacles.patched(live, patch)
        demand(self._approved.find_excess_of_change(ref, live, changed, stack_uid=self._stack_uid))

    async def _write_exactly(
        self, ref: ObjectRef, write: Callable[[Object], Awaitable[Answer]], *, kind: Kind, wanted: Object
    ) -> Answer:
        """Compare and write the object, again if it changed in between. wanted: states the version, or accepts any."""
        for _ in range(TRIES - 1):
            live = await self._cluster.get(ref, kind=kind)
            try:
                return await write(live)
            except ApiStatusError as error:
                if not error.is_conflict or "resourceVersion" in wanted["metadata"]:
                    raise
        return await write(await self._cluster.get(ref, kind=kind))


def demand(excess: str) -> None:
    """Raise OutsidePlan if a write is not approved. excess: the difference, or ""."""
    if excess:
        raise OutsidePlan(excess)


def at_version(sent: Object, live: Object) -> Object:
    """Return a manifest or patch for exactly this version of its object, unless it states another one."""
    version = sent["metadata"].get("resourceVersion") or live["metadata"]["resourceVersion"]
    return apply_preparation.with_preconditions(sent, resourceVersion=version)


def refer(kind: Kind, metadata: Object) -> ObjectRef:
    """Return the object that a manifest names."""
    namespace = metadata.get("namespace", "") if kind.namespaced else ""
    return ObjectRef(group=kind.group, kind=kind.name, namespace=namespace, name=metadata["name"])
