"""Adoption of an object, whose former appliers lose their fields to the operator's field manager.

At most one more write: of the owners of fields, before the apply. After a crash in between, the object still belongs to
no Stack, and the next adoption finds the owners as it would leave them. Must not know whether an object may be adopted.
"""

from __future__ import annotations

import structlog

from hearth.engine.ports import WorkloadCluster
from hearth.model import former_appliers
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
        if error.code not in INVALID or not await _keep_rest(step, cluster=cluster, manager=manager):
            raise
    return await cluster.apply(manifest, kind=step.kind, manager=manager, force=True)


async def _keep_rest(step: Apply, *, cluster: WorkloadCluster, manager: str) -> bool:
    """Let the next apply remove nothing; return whether it would have removed something. The object is none of the Stack."""
    live = await cluster.get(step.ref, kind=step.kind)
    owners = former_appliers.reduce_claims(live, step.manifest, manager=manager)
    if owners is None:
        return False
    await _write_owners(step, live, owners, cluster=cluster)
    logger.info("fields of former appliers kept", child=str(step.ref))
    return True


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


async def _write_owners(step: Apply, live: Object, owners: list[Object], *, cluster: WorkloadCluster) -> None:
    """Write the owners of fields, if the object is still as it was read."""
    metadata = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
    await cluster.change(step.ref, {"metadata": {**metadata, "managedFields": owners}}, kind=step.kind)


def with_preconditions(manifest: Object, **metadata: str) -> Object:
    """Return a copy of the manifest with preconditions on its object."""
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}
