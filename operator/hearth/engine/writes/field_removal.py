"""Makes sure that what left the definition of an object leaves the object as well.

A dry run of the apply shows what would stay. Must not know why the definition changed, nor what follows if a field stays.
After a crash at any point, the next apply starts again: the object has its old definition until the apply itself.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from hearth.engine.ports import WorkloadCluster
from hearth.engine.writes import obstacle_removal
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.plan.ownership import apply_obstacles, leaving_fields
from hearth.plan.ownership.apply_obstacles import FieldsPath
from hearth.plan.retry.api_errors import MaybeImmutable
from hearth.plan.state.steps import Apply

logger = structlog.get_logger(__name__)

BUSY = (408, 409, 429)
STAYS = "the API server keeps what left the definition: {}"


async def prepare(step: Apply, *, cluster: WorkloadCluster, manager: str) -> Apply | MaybeImmutable:
    """Return the step whose apply removes what left the definition, or what the API server would keep nevertheless.

    Sends no request if nothing left. Raises ApiStatusError and Unreachable.
    """
    leaving = leaving_fields.find_leaving(step.sent_manifest, step.owned_before) if step.owned_before else ()
    if not leaving:
        return step
    try:
        async with asyncio.timeout(obstacle_removal.WITHIN):
            return await _prepare(step, leaving, cluster=cluster, manager=manager)
    except TimeoutError as error:
        raise Unreachable(f"no answers within {obstacle_removal.WITHIN:g} s") from error


async def _prepare(
    step: Apply, leaving: Sequence[FieldsPath], *, cluster: WorkloadCluster, manager: str
) -> Apply | MaybeImmutable:
    try:
        predicted = await _predict(step, cluster=cluster, manager=manager)
        remaining = leaving_fields.find_remaining(leaving, predicted)
        if not remaining:
            return step
        live = await cluster.get(step.ref, kind=step.kind)
    except ApiStatusError:
        # The apply itself tells what is wrong, or the account may not read the object.
        return step
    if live["metadata"]["uid"] != step.uid:
        return step
    attributed = leaving_fields.find_attributed(remaining, predicted)
    if attributed:
        live = await _claim(step, live, attributed, cluster=cluster, manager=manager)
        predicted = await _predict(step, cluster=cluster, manager=manager)
        remaining = leaving_fields.find_remaining(leaving, predicted)
    kept = leaving_fields.find_unchanged(remaining, live, predicted, kind=step.kind)
    return await _remove_kept(step, live, kept, cluster=cluster, manager=manager) if kept else step


async def _predict(step: Apply, *, cluster: WorkloadCluster, manager: str) -> Object:
    """Return the object after the apply."""
    manifest = step.sent_manifest
    sent = {**manifest, "metadata": {**manifest["metadata"], "uid": step.uid}}
    return await cluster.apply_dry_run(sent, kind=step.kind, manager=manager)


async def _claim(
    step: Apply, live: Object, paths: Sequence[FieldsPath], *, cluster: WorkloadCluster, manager: str
) -> Object:
    """Record that the operator owns these fields, so that the next apply removes them; return the object as it is then."""
    metadata = live["metadata"]
    entries = leaving_fields.claim(live, paths, manager=manager, version=step.kind.api_version)
    precondition = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    await cluster.change(step.ref, {"metadata": {**precondition, "managedFields": entries}}, kind=step.kind)
    logger.info("ownership of leaving fields claimed", child=str(step.ref), fields=leaving_fields.describe(paths))
    return {**live, "metadata": {**metadata, "managedFields": entries}}


async def _remove_kept(
    step: Apply, live: Object, kept: Sequence[FieldsPath], *, cluster: WorkloadCluster, manager: str
) -> Apply | MaybeImmutable:
    """Remove fields that the apply alone leaves as they are, unless they are as in a new object."""
    created = await _create(step, cluster=cluster)
    wrong = leaving_fields.find_different(kept, live, created) if created is not None else []
    if created is None or not wrong:
        return step
    values = leaving_fields.find_values(created, wrong)
    stated = dataclasses.replace(step, manifest=leaving_fields.with_values(step.manifest, values))
    if values and not await _is_accepted(stated, values, cluster=cluster, manager=manager):
        return _stays([*values])
    aliases = leaving_fields.find_aliases([path for path in wrong if path not in values], live, created, step.manifest)
    gone = [*(path for path in wrong if path not in values), *aliases]
    if gone and not await _is_removable(step, live, gone, cluster=cluster):
        return _stays([path for path in gone if path not in aliases])
    if aliases:
        await _claim(step, live, gone, cluster=cluster, manager=manager)
    return stated


def _stays(paths: Sequence[FieldsPath]) -> MaybeImmutable:
    """Return the finding that these fields cannot be removed from the object. A new object would not have them so."""
    fields = leaving_fields.describe(paths)
    return MaybeImmutable(message=STAYS.format(", ".join(fields)), fields=fields)


async def _create(step: Apply, *, cluster: WorkloadCluster) -> Object | None:
    """Return what a new object of the definition would be, or None if the API server does not accept one.

    Raises Unreachable if it does not answer that.
    """
    try:
        return await cluster.create_dry_run(step.manifest, kind=step.kind)
    except ApiStatusError as error:
        if error.code in BUSY or error.code >= 500:
            raise Unreachable("a dry run got no answer") from error
        return None


async def _is_accepted(
    step: Apply, values: Mapping[FieldsPath, Any], *, cluster: WorkloadCluster, manager: str
) -> bool:
    """Return whether the API server takes these values, which the step states."""
    try:
        predicted = await _predict(step, cluster=cluster, manager=manager)
    except ApiStatusError as error:
        if error.code not in obstacle_removal.INVALID:
            raise
        return False
    return all(leaving_fields.read(predicted, path) == value for path, value in values.items())


async def _is_removable(step: Apply, live: Object, paths: Sequence[FieldsPath], *, cluster: WorkloadCluster) -> bool:
    """Return whether the API server removes these fields on request."""
    wanted, metadata = leaving_fields.without(live, paths), live["metadata"]
    patch = apply_obstacles.make_patch(wanted, apply_obstacles.strip(live))
    try:
        answer = await cluster.change_dry_run(step.ref, {**patch, "metadata": {"uid": metadata["uid"]}}, kind=step.kind)
    except ApiStatusError as error:
        if error.code not in obstacle_removal.INVALID:
            raise
        return False
    return all(leaving_fields.read(answer, path) is leaving_fields.MISSING for path in paths)
