"""Adoption of an object, and its handover by another Stack: those who applied it before lose their fields.

At most one more write: of the owners of fields, before the apply, which removes what only they stated. After a crash in
between, the object belongs to whom it belonged before, and the next attempt finds the owners as it would leave them. Must
not know whether an object may be adopted.
"""

from __future__ import annotations

import structlog

from hearth.engine.ports import WorkloadCluster
from hearth.model import former_appliers, names
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError
from hearth.plan.state.steps import Apply

logger = structlog.get_logger(__name__)

INVALID = (400, 422)


async def adopt(step: Apply, live: Object, *, cluster: WorkloadCluster, manager: str) -> Child:
    """Apply to an object that belongs to no Stack, and return it as written. Raises ApiStatusError and Unreachable.

    What a former applier owned and the manifest lacks is removed; if the API server refuses that, it stays.
    """
    owners = former_appliers.take_over(live, step.manifest, manager=manager)
    if owners is not None:
        await _write_owners(step, live, owners, cluster=cluster)
    manifest = with_preconditions(step.sent_manifest, uid=live["metadata"]["uid"])
    try:
        return await cluster.apply(manifest, kind=step.kind, manager=manager, force=True)
    except ApiStatusError as error:
        if error.code not in INVALID or await _keep_rest(step, cluster=cluster, manager=manager) is None:
            raise
    return await cluster.apply(manifest, kind=step.kind, manager=manager, force=True)


async def receive(step: Apply, live: Object, *, cluster: WorkloadCluster, manager: str) -> Child:
    """Apply to an object that another Stack hands over, and return it as written. Raises ApiStatusError and Unreachable.

    What only that Stack stated is removed; if the API server refuses that, it stays. The version proves that the object is
    still the one that was let go.
    """
    version = live["metadata"]["resourceVersion"]
    owners = former_appliers.hand_over(live, manager=manager)
    if owners is not None:
        version = (await _write_owners(step, live, owners, cluster=cluster)).resource_version
    manifest = with_preconditions(step.manifest, uid=live["metadata"]["uid"], resourceVersion=str(version))
    try:
        return await cluster.apply(manifest, kind=step.kind, manager=manager, force=True)
    except ApiStatusError as error:
        kept = await _keep_rest(step, cluster=cluster, manager=manager) if error.code in INVALID else None
        if kept is None:
            raise
    manifest["metadata"]["resourceVersion"] = str(kept.resource_version)
    return await cluster.apply(manifest, kind=step.kind, manager=manager, force=True)


async def _keep_rest(step: Apply, *, cluster: WorkloadCluster, manager: str) -> Child | None:
    """Let the next apply remove nothing. Return the object as written; None if the apply would remove nothing anyway."""
    live = await cluster.get(step.ref, kind=step.kind)
    owners = former_appliers.reduce_claims(live, step.manifest, manager=manager)
    if owners is None:
        return None
    written = await _write_owners(step, live, owners, cluster=cluster)
    logger.info("fields of former appliers kept", child=str(step.ref))
    return written


async def give_up_claims(step: Apply, *, cluster: WorkloadCluster, manager: str) -> None:
    """Let the next apply remove from a child of the Stack what its definition no longer has.

    Without the right to read the object, its owners stay as they are. Raises ApiStatusError and Unreachable.
    """
    try:
        live = await cluster.get(step.ref, kind=step.kind)
    except ApiStatusError as error:
        if not error.is_forbidden:
            raise
        return
    owners = former_appliers.give_up_claims(live, step.manifest, manager=manager)
    if owners is not None and live["metadata"]["uid"] == step.uid:
        await _write_owners(step, live, owners, cluster=cluster)


async def _write_owners(step: Apply, live: Object, owners: list[Object], *, cluster: WorkloadCluster) -> Child:
    """Write the owners of fields, if the object is still as it was read. An offer to take it over is accepted with that."""
    metadata: Object = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
    if names.ANNOTATION_OFFERED in (live["metadata"].get("annotations") or {}):
        metadata["annotations"] = {names.ANNOTATION_OFFERED: None}
    return await cluster.change(step.ref, {"metadata": {**metadata, "managedFields": owners}}, kind=step.kind)


def with_preconditions(manifest: Object, **metadata: str) -> Object:
    """Return a copy of the manifest with preconditions on its object."""
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}
