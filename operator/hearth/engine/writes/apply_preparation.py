"""Writes to a live object in addition to its apply, so that the result matches the definition.

They remove fields that left the definition, and obstacles that make the API server reject the apply. They also remove
fields of former appliers from an object that is adopted or handed over. Dry runs check first that nothing else changes.
After a crash in between, the object still belongs to its former owner, and the next apply starts again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

import structlog

from hearth.engine.ports import ClusterRequests, ClusterTrials, ClusterWrites, WorkloadCluster
from hearth.model import former_appliers, label_selectors, limits, names, workloads
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.plan.ownership import apply_obstacles, leaving_fields
from hearth.plan.ownership.apply_obstacles import FieldsPath
from hearth.plan.retry.api_errors import MaybeImmutable
from hearth.plan.state.steps import Apply, Suspend

logger = structlog.get_logger(__name__)

WITHIN = 55.0
"""Maximum seconds for all requests of one preparation, less than two slow requests (see
`fair_executor.STEP_HANGS_AFTER`)."""
INVALID = (400, 422)
BUSY = (408, 409, 429)
CLAIMS_AT_MOST = 5
"""Maximum attempts to write the field owners of an object while a controller writes its status."""
STAYS = "the API server keeps fields that were removed from the definition: {}"


@contextlib.asynccontextmanager
async def time_limit() -> AsyncIterator[None]:
    """Raise Unreachable if all requests in the block together take too long."""
    try:
        async with asyncio.timeout(WITHIN):
            yield
    except TimeoutError as error:
        raise Unreachable(f"no answers within {WITHIN:g} s") from error


async def find_ending_pod(step: Apply, *, cluster: ClusterRequests) -> str | None:
    """Return the name of a terminating Pod that mounts a claim of the object to create, or None if none is known.

    This happens if another client deleted the former object. Sends a request only for a workload that mounts a claim,
    and only for Pods with its labels. If the account cannot list Pods, the step does not wait.
    """
    labels, claims = workloads.find_pod_labels(step.manifest), {*workloads.find_claims(step.manifest)}
    if not (labels and claims):
        return None
    try:
        pods = await cluster.list_pods(step.ref.namespace, labels=label_selectors.write_labels(labels))
    except ApiStatusError as error:
        if error.is_forbidden:
            return None
        raise
    for pod in pods:
        is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if "deletionTimestamp" in pod["metadata"] and not is_over and claims & {*workloads.find_claims(pod)}:
            return str(pod["metadata"]["name"])
    return None


async def adopt(step: Apply, live: Object, *, cluster: WorkloadCluster, manager: str) -> Child:
    """Apply to an object that belongs to no Stack, and return it as written. Raises ApiStatusError and Unreachable.

    Fields that a former applier owned and the manifest lacks are removed; if the API server refuses that, they stay.
    The version proves that no other Stack has adopted the object since it was read.
    """
    owners = former_appliers.take_over(live, step.manifest, manager=manager)
    return await _take_over(step, live, owners, manifest=step.sent_manifest, cluster=cluster, manager=manager)


async def receive(step: Apply, live: Object, *, cluster: WorkloadCluster, manager: str) -> Child:
    """Apply to an object that another Stack hands over, and return it as written. Raises ApiStatusError and
    Unreachable.

    Fields that only that Stack set are removed; if the API server refuses that, they stay. The version proves that the
    object is still the one that was released.
    """
    owners = former_appliers.hand_over(live, manager=manager)
    return await _take_over(step, live, owners, manifest=step.manifest, cluster=cluster, manager=manager)


async def _take_over(
    step: Apply,
    live: Object,
    owners: list[Object] | None,
    *,
    manifest: Object,
    cluster: WorkloadCluster,
    manager: str,
) -> Child:
    """Write the owners of fields, if any, and apply to exactly the version that was read."""
    version = live["metadata"]["resourceVersion"]
    if owners is not None:
        version = (await _write_owners(step, live, owners, cluster=cluster)).resource_version
    manifest = with_preconditions(manifest, uid=live["metadata"]["uid"], resourceVersion=str(version))
    try:
        return await cluster.apply(manifest, kind=step.kind, manager=manager, force=True)
    except ApiStatusError as error:
        kept = await _keep_rest(step, cluster=cluster, manager=manager) if error.code in INVALID else None
        if kept is None:
            raise
    manifest["metadata"]["resourceVersion"] = str(kept.resource_version)
    return await cluster.apply(manifest, kind=step.kind, manager=manager, force=True)


async def give_up_claims(step: Apply, *, cluster: WorkloadCluster, manager: str) -> None:
    """Let the next apply remove fields from a child of the Stack that left its definition.

    Without the right to read the object, its owners stay unchanged. Raises ApiStatusError and Unreachable.
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


async def _keep_rest(step: Apply, *, cluster: WorkloadCluster, manager: str) -> Child | None:
    """Let the next apply remove nothing. Return the object as written, or None if the apply would remove nothing anyway."""
    live = await cluster.get(step.ref, kind=step.kind)
    owners = former_appliers.reduce_claims(live, step.manifest, manager=manager)
    if owners is None:
        return None
    written = await _write_owners(step, live, owners, cluster=cluster)
    logger.info("kept fields of former appliers", child=str(step.ref))
    return written


async def _write_owners(step: Apply, live: Object, owners: list[Object], *, cluster: ClusterWrites) -> Child:
    """Write the owners of fields if the object has not changed since it was read. Also accepts an offer of it."""
    metadata = pin(live)
    if names.ANNOTATION_OFFERED in (live["metadata"].get("annotations") or {}):
        metadata["annotations"] = {names.ANNOTATION_OFFERED: None}
    return await cluster.change(step.ref, {"metadata": {**metadata, "managedFields": owners}}, kind=step.kind)


async def remove_leaving_fields(step: Apply, *, cluster: WorkloadCluster, manager: str) -> Apply | MaybeImmutable:
    """Return the step whose apply removes fields that left the definition, including those that the API server would
    keep.

    Sends no request if no field left. Raises ApiStatusError and Unreachable.
    """
    leaving = leaving_fields.find_leaving(step.sent_manifest, step.owned_before) if step.owned_before else ()
    if not leaving:
        return step
    return await _remove_leaving_fields(step, leaving, cluster=cluster, manager=manager)


@time_limit()
async def _remove_leaving_fields(
    step: Apply, leaving: Sequence[FieldsPath], *, cluster: WorkloadCluster, manager: str
) -> Apply | MaybeImmutable:
    try:
        predicted = await _predict(step, cluster=cluster, manager=manager)
        remaining = leaving_fields.find_remaining(leaving, predicted)
        if not remaining:
            return step
        live = await cluster.get(step.ref, kind=step.kind)
    except ApiStatusError:
        # The apply itself reports the problem, or the account is not allowed to read the object.
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


async def _remove_kept(
    step: Apply, live: Object, kept: Sequence[FieldsPath], *, cluster: WorkloadCluster, manager: str
) -> Apply | MaybeImmutable:
    """Remove fields that an apply leaves unchanged, unless they are as in a new object."""
    created = await _predict_new(step, cluster=cluster)
    wrong = leaving_fields.find_different(kept, live, created) if created is not None else []
    if created is None or not wrong:
        return step
    values = leaving_fields.find_values(created, wrong)
    stated = dataclasses.replace(step, manifest=leaving_fields.with_values(step.manifest, values))
    if values and not await _are_values_accepted(stated, values, cluster=cluster, manager=manager):
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


async def _predict(step: Apply, *, cluster: ClusterTrials, manager: str) -> Object:
    """Return the object after the apply."""
    sent = with_preconditions(step.sent_manifest, uid=step.uid)
    return await cluster.apply_dry_run(sent, kind=step.kind, manager=manager)


async def _claim(
    step: Apply, live: Object, paths: Sequence[FieldsPath], *, cluster: ClusterWrites, manager: str
) -> Object:
    """Record that the operator owns these fields, so that the next apply removes them; return the object as it is then."""
    entries = leaving_fields.claim(live, paths, manager=manager, version=step.kind.api_version)
    await cluster.change(step.ref, {"metadata": {**pin(live), "managedFields": entries}}, kind=step.kind)
    logger.info("claimed ownership of removed fields", child=str(step.ref), fields=leaving_fields.describe(paths))
    return {**live, "metadata": {**live["metadata"], "managedFields": entries}}


async def _predict_new(step: Apply, *, cluster: ClusterTrials) -> Object | None:
    """Return the object that the definition would create, or None if the API server does not accept one.

    Raises Unreachable if it does not answer.
    """
    try:
        return await cluster.create_dry_run(step.manifest, kind=step.kind)
    except ApiStatusError as error:
        if error.code in BUSY or error.code >= 500:
            raise Unreachable("a dry run got no answer") from error
        return None


async def _are_values_accepted(
    step: Apply, values: Mapping[FieldsPath, Any], *, cluster: ClusterTrials, manager: str
) -> bool:
    """Return whether the API server takes these values, which the step states."""
    try:
        predicted = await _predict(step, cluster=cluster, manager=manager)
    except ApiStatusError as error:
        if error.code not in INVALID:
            raise
        return False
    return all(leaving_fields.read(predicted, path) == value for path, value in values.items())


async def _is_removable(step: Apply, live: Object, paths: Sequence[FieldsPath], *, cluster: ClusterTrials) -> bool:
    """Return whether the API server removes these fields on request."""
    wanted, metadata = leaving_fields.without(live, paths), live["metadata"]
    patch = apply_obstacles.make_patch(wanted, apply_obstacles.strip(live))
    try:
        answer = await cluster.change_dry_run(step.ref, {**patch, "metadata": {"uid": metadata["uid"]}}, kind=step.kind)
    except ApiStatusError as error:
        if error.code not in INVALID:
            raise
        return False
    return all(leaving_fields.read(answer, path) is leaving_fields.MISSING for path in paths)


@time_limit()
async def apply_without_obstacle(step: Apply, live: Object, *, cluster: WorkloadCluster, manager: str) -> Child | None:
    """Remove the obstacle and apply; return the written object, or None if there is no obstacle that may be removed.

    live: the object that the step changes. Raises ApiStatusError and Unreachable.
    """
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
    owners = {"managedFields": apply_obstacles.hand_over(live, items)} if items else {}
    await cluster.change(step.ref, {**emptied, "metadata": {**pin(live), **owners}}, kind=step.kind)
    logger.info(
        "obstacle removed", child=str(step.ref), emptied=sorted(emptied), items=["/".join(each) for each in items]
    )
    sent = with_preconditions(manifest, uid=metadata["uid"])
    return await cluster.apply(sent, kind=step.kind, manager=manager, force=True)


@time_limit()
async def remove_other_version(step: Apply, *, cluster: WorkloadCluster, manager: str) -> None:
    """Remove fields that come from another version of the object's kind and that no apply at this version would remove.

    For example, an autoscaler that returns to `autoscaling/v1` would keep the metrics of `v2` in an annotation. Raises
    ApiStatusError and Unreachable.
    """
    try:
        predicted = await _predict(step, cluster=cluster, manager=manager)
        live = await cluster.get(step.ref, kind=step.kind)
    except ApiStatusError:
        # The apply itself reports the problem, or the account is not allowed to read the object.
        return
    created = await _predict_new(step, cluster=cluster)
    if created is None or live["metadata"]["uid"] != step.uid:
        return
    fields = leaving_fields.find_outdated_defaults(step.sent_manifest, predicted, created)
    annotations = leaving_fields.find_outdated_annotations(step.sent_manifest, predicted, created)
    patch = apply_obstacles.make_patch(leaving_fields.without(live, fields), apply_obstacles.strip(live))
    if not (patch or annotations):
        return
    metadata = {**pin(live), "annotations": dict.fromkeys(annotations)}
    await cluster.change(step.ref, {**patch, "metadata": metadata}, kind=step.kind)
    logger.info(
        "removed values of another API version",
        child=str(step.ref),
        fields=[*leaving_fields.describe(fields), *annotations],
    )


@time_limit()
async def apply_without_defaults(step: Apply, live: Object, *, cluster: WorkloadCluster, manager: str) -> Child | None:
    """Remove defaults that the API server filled in for the former definition, and apply; return None if that does not
    help.

    A Deployment that becomes `Recreate` would keep the numbers of `RollingUpdate`, which are invalid with it: no field
    manager owns them, so no apply removes them. live: the object that the step changes. Raises ApiStatusError and
    Unreachable.
    """
    created = await _predict_new(step, cluster=cluster) if live["metadata"]["uid"] == step.uid else None
    if created is None:
        return None
    is_claimed = False
    for attempt in range(1, CLAIMS_AT_MOST + 1):
        try:
            is_claimed = await _claim_defaults(step, live, created, cluster=cluster, manager=manager)
            break
        except ApiStatusError as error:
            if not error.is_conflict or attempt == CLAIMS_AT_MOST:
                raise
        # A controller wrote the status in the meantime.
        live = await cluster.get(step.ref, kind=step.kind)
    if not is_claimed:
        return None
    sent = with_preconditions(step.sent_manifest, uid=step.uid)
    return await cluster.apply(sent, kind=step.kind, manager=manager, force=True)


async def _claim_defaults(
    step: Apply, live: Object, created: Object, *, cluster: WorkloadCluster, manager: str
) -> bool:
    """Let the next apply remove the defaults of the former definition, if it is accepted without them; return whether it is."""
    defaults = leaving_fields.find_outdated_defaults(step.sent_manifest, live, created)
    if not defaults:
        return False
    wanted = leaving_fields.without(apply_obstacles.predict_alone(step.sent_manifest, live), defaults)
    patch = apply_obstacles.make_patch(wanted, apply_obstacles.strip(live))
    try:
        await cluster.change_dry_run(step.ref, {**patch, "metadata": pin(live)}, kind=step.kind)
    except ApiStatusError as error:
        if error.code not in INVALID:
            raise
        return False
    await _claim(step, live, defaults, cluster=cluster, manager=manager)
    return True


async def convert_ownership(step: Apply, live: Object, *, cluster: ClusterWrites) -> bool:
    """Give the record of the last apply the apiVersion of this one; return False if it has that already.

    The API server converts the result of an apply to the version of the last one, and fails if that does not have all
    its fields. Raises ApiStatusError and Unreachable.
    """
    metadata = live["metadata"]
    entries = apply_obstacles.renew_version(live, step.kind.api_version)
    if entries is None or metadata["uid"] != step.uid:
        return False
    await cluster.change(step.ref, {"metadata": {**pin(live), "managedFields": entries}}, kind=step.kind)
    logger.info("converted field ownership", child=str(step.ref), version=step.kind.api_version)
    return True


async def suspend_without_obstacle(step: Suspend, live: Object, *, cluster: ClusterWrites) -> Child | None:
    """Remove the suspending fields if they are the only content of a map, and apply; return None without such fields.

    The map stays, because the definition sets it, and an apply without the fields would turn it into null. Only the
    operator owns the fields, so no dry run is needed. Raises ApiStatusError and Unreachable.
    """
    ref, kind, metadata, manager = step.child.ref, step.child.kind, live["metadata"], names.SUSPEND_FIELD_MANAGER
    emptied = apply_obstacles.find_emptied(step.manifest, live, manager=manager)
    if metadata["uid"] != step.child.uid or not emptied:
        return None
    await cluster.change(ref, {**emptied, "metadata": pin(live)}, kind=kind)
    return await cluster.apply(step.manifest, kind=kind, manager=manager, force=True)


async def find_items(
    step: Apply, live: Object, foreign: Sequence[FieldsPath], *, cluster: ClusterTrials
) -> list[FieldsPath] | None:
    """Return the fewest `foreign` items without which the API server accepts the change, or None if it never does."""
    if await is_change_accepted(step, live, dropped=(), cluster=cluster):
        return []
    if not foreign or len(foreign) > limits.FOREIGN_ITEMS:
        return None
    if not await is_change_accepted(step, live, dropped=foreign, cluster=cluster):
        return None
    needed = list(foreign)
    for item in foreign if len(foreign) > 1 else ():
        rest = [each for each in needed if each != item]
        if await is_change_accepted(step, live, dropped=rest, cluster=cluster):
            needed = rest
    return needed


async def is_change_accepted(
    step: Apply, live: Object, *, dropped: Collection[FieldsPath], cluster: ClusterTrials
) -> bool:
    """Return whether a dry run makes exactly the change of the apply, and leaves out these list items."""
    wanted, _ = apply_obstacles.predict(step.sent_manifest, live, dropped=dropped)
    patch = apply_obstacles.make_patch(wanted, apply_obstacles.strip(live))
    try:
        answer = await cluster.change_dry_run(step.ref, {**patch, "metadata": pin(live)}, kind=step.kind)
    except ApiStatusError as error:
        if error.code in INVALID:
            return False
        raise
    return apply_obstacles.is_as_predicted(answer, wanted, live)


def pin(live: Object) -> Object:
    """Return the metadata that bind a write to exactly that object, as it was read."""
    return {key: live["metadata"][key] for key in ("uid", "resourceVersion")}


def with_preconditions(manifest: Object, **metadata: str | None) -> Object:
    """Return a copy of the manifest with preconditions on its object."""
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}
