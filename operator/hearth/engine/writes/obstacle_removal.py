"""Removal of what in a live object makes the API server reject an apply, if a dry run shows that nothing else changes.

Two writes: one that removes the obstacle, or hands it over to the operator's field manager, and the apply itself. After a
crash in between, the next apply finishes the work. Must not know how the apply was rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import structlog

from hearth.engine.ports import WorkloadCluster
from hearth.model import limits, names
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.plan.ownership import apply_obstacles
from hearth.plan.ownership.apply_obstacles import FieldsPath
from hearth.plan.state.steps import Apply, Suspend

logger = structlog.get_logger(__name__)

INVALID = (400, 422)
WITHIN = 55.0
"""Seconds for all requests of one removal: less than two slow ones (see `fair_executor.STEP_HANGS_AFTER`)."""


async def apply_without_obstacle(step: Apply, live: Object, *, cluster: WorkloadCluster, manager: str) -> Child | None:
    """Remove the obstacle and apply; return the written object, or None if there is no obstacle that may be removed.

    live: the object that the step changes. Raises ApiStatusError and Unreachable.
    """
    try:
        async with asyncio.timeout(WITHIN):
            return await _apply_without_obstacle(step, live, cluster=cluster, manager=manager)
    except TimeoutError as error:
        raise Unreachable(f"no answers within {WITHIN:g} s") from error


async def convert_ownership(step: Apply, live: Object, *, cluster: WorkloadCluster) -> bool:
    """Give the record of the last apply the apiVersion of this one; return False if it has that already.

    The API server converts the result of an apply to the version of the last one, and fails if that does not have all
    its fields. Raises ApiStatusError and Unreachable.
    """
    metadata = live["metadata"]
    entries = apply_obstacles.renew_version(live, step.kind.api_version)
    if entries is None or metadata["uid"] != step.uid:
        return False
    preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    await cluster.change(step.ref, {"metadata": {**preconditions, "managedFields": entries}}, kind=step.kind)
    logger.info("field ownership converted", child=str(step.ref), version=step.kind.api_version)
    return True


async def suspend_without_obstacle(step: Suspend, live: Object, *, cluster: WorkloadCluster) -> Child | None:
    """Remove the suspending fields that alone fill a map, and apply; return None if there are none.

    The map stays, because the definition sets it, and an apply without the fields would make null of it. They belong to
    the operator alone, so that no dry run is needed. Raises ApiStatusError and Unreachable.
    """
    ref, kind, metadata, manager = step.child.ref, step.child.kind, live["metadata"], names.SUSPEND_FIELD_MANAGER
    emptied = apply_obstacles.find_emptied(step.manifest, live, manager=manager)
    if metadata["uid"] != step.child.uid or not emptied:
        return None
    preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    await cluster.change(ref, {**emptied, "metadata": preconditions}, kind=kind)
    return await cluster.apply(step.manifest, kind=kind, manager=manager, force=True)


async def _apply_without_obstacle(step: Apply, live: Object, *, cluster: WorkloadCluster, manager: str) -> Child | None:
    manifest, metadata = step.sent_manifest, live["metadata"]
    if metadata["uid"] != step.uid:
        return None
    emptied = apply_obstacles.find_emptied(manifest, live)
    _, foreign = apply_obstacles.predict(manifest, live)
    if not (emptied or foreign):
        return None
    items = await find_items(step, live, foreign, cluster=cluster)
    if items is None or not (emptied or items):
        return None
    preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    owners = {"managedFields": apply_obstacles.hand_over(live, items)} if items else {}
    await cluster.change(step.ref, {**emptied, "metadata": {**preconditions, **owners}}, kind=step.kind)
    logger.info(
        "obstacle removed", child=str(step.ref), emptied=sorted(emptied), items=["/".join(each) for each in items]
    )
    sent = {**manifest, "metadata": {**manifest["metadata"], "uid": metadata["uid"]}}
    return await cluster.apply(sent, kind=step.kind, manager=manager, force=True)


async def find_items(
    step: Apply, live: Object, foreign: Sequence[FieldsPath], *, cluster: WorkloadCluster
) -> list[FieldsPath] | None:
    """Return the fewest `foreign` items without which the API server accepts the change; None if it never does."""
    if await is_accepted(step, live, dropped=(), cluster=cluster):
        return []
    if not foreign or len(foreign) > limits.FOREIGN_ITEMS:
        return None
    if not await is_accepted(step, live, dropped=foreign, cluster=cluster):
        return None
    needed = list(foreign)
    for item in foreign if len(foreign) > 1 else ():
        rest = [each for each in needed if each != item]
        if await is_accepted(step, live, dropped=rest, cluster=cluster):
            needed = rest
    return needed


async def is_accepted(step: Apply, live: Object, *, dropped: Collection[FieldsPath], cluster: WorkloadCluster) -> bool:
    """Return whether a dry run makes exactly the change of the apply, and leaves out these list items."""
    wanted, _ = apply_obstacles.predict(step.sent_manifest, live, dropped=dropped)
    patch = apply_obstacles.make_patch(wanted, apply_obstacles.strip(live))
    metadata = {"uid": live["metadata"]["uid"], "resourceVersion": live["metadata"]["resourceVersion"]}
    try:
        answer = await cluster.change_dry_run(step.ref, {**patch, "metadata": metadata}, kind=step.kind)
    except ApiStatusError as error:
        if error.code in INVALID:
            return False
        raise
    return apply_obstacles.is_as_predicted(answer, wanted, live)
