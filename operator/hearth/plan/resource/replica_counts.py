"""Keeps the number of replicas of an object whose template does not set it, for example because an autoscaler does.

A replacement starts with the current number, and a number that is removed from the template stays as it is. Otherwise,
the API server would set it to 1 and the autoscaler would have to scale up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.model.child import Child, Object
from hearth.plan.ownership import applied_fields, field_ownership
from hearth.plan.resource.resource_context import ResourceContext
from hearth.plan.resource.suspend_object import SuspendRecords
from hearth.plan.state.desired import DesiredObject

SCALED_KINDS: Final = frozenset({"Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "ReplicationController"})
"""The built-in kinds with a scale subresource, by `Kind.group`."""

REPLICAS: Final = ("spec", "replicas")


def find_kept_count(context: ResourceContext, desired: DesiredObject, child: Child | None) -> int | None:
    """Return the number of replicas that the object keeps, or starts with, or None if the manifest or the API server decides.

    child: the object to change, None for a new one.
    """
    if child is not None:
        return read_count(child) if _is_left_by_us(desired.manifest, child) else None
    recorded = context.detached.replicas if context.detached is not None else None
    noted = context.memory.replica_counts.get(context.name, recorded)
    present = [
        each
        for each in context.children
        if each.is_identified
        and (context.records.is_suspended(each) or not each.is_held_down or read_count(each) is not None)
    ]
    former = max(present, key=lambda each: each.incarnation, default=None)
    count = read_former_count(former, context.records) if former is not None else noted
    if count is None or not _is_left_to_others(desired, former):
        return None
    return count


def _is_left_by_us(manifest: Object, child: Child) -> bool:
    """Return whether the operator set the number of replicas of the object although the manifest does not."""
    if read_stated(manifest) is not None or child.ownership is None or child.is_held_down:
        return False
    if child.kind.key not in SCALED_KINDS and applied_fields.read_applied_record(child):
        # For a custom kind, its manifest set the number. Otherwise, the number comes from an object that this one
        # replaced.
        return False
    ours = field_ownership.read_fields(child.ownership)
    return "f:replicas" in ours.get("f:spec", {})


def _is_left_to_others(desired: DesiredObject, former: Child | None) -> bool:
    """Return whether the manifest sets no number, or allows others to change its number."""
    applied = desired.applied_fields
    if read_stated(desired.manifest) is None:
        return True
    if former is None or applied is None or not applied.is_tolerable(applied_fields.REPLICAS, is_scaled=False):
        return False
    return applied.is_recorded(applied_fields.REPLICAS, applied_fields.read_applied_record(former))


def read_former_count(former: Child, records: SuspendRecords) -> int | None:
    """Return the number of replicas that the successor of an object can start with, or None.

    It is the number before the object was suspended, if it is suspended.
    """
    record = records.find(former)
    if record is None or record.is_resumed:
        return read_count(former)
    return check_count({**record.ours, **record.theirs}.get(REPLICAS))


def with_count(manifest: Object, count: int) -> Object:
    """Return the manifest with this number of replicas."""
    spec = manifest.get("spec")
    return {**manifest, "spec": {**(spec if isinstance(spec, dict) else {}), "replicas": count}}


def read_stated(manifest: Mapping[str, Any]) -> Any:
    """Return the number that a manifest states, or None."""
    spec = manifest.get("spec")
    return spec.get("replicas") if isinstance(spec, dict) else None


def read_count(child: Child) -> int | None:
    """Return the number of replicas of an object, or None if it has none."""
    return check_count(read_stated(child.fields))


def check_count(count: Any) -> int | None:
    """Return a number of replicas that an object can start with, or None for any other value."""
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else None
