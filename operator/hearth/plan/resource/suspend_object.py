"""Writes that suspend, resume and restore one object, and the record that the object stores meanwhile.

A separate field manager applies only the fields that suspend the object. So this needs no definition, and the object's
own definition is unchanged. The same apply writes the record of the previous values as an annotation. Must not know
when and in what order objects are suspended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from hearth.model import names
from hearth.model.child import Child, FieldOwnership, Object, Path
from hearth.plan.health import suspend_rules
from hearth.plan.health.suspend_rules import SuspendRule
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.field_ownership import DriftFinding, LostField
from hearth.plan.retry.backoff import SuspendPurpose
from hearth.plan.state import suspend_record
from hearth.plan.state.steps import Suspend
from hearth.plan.state.suspend_record import SuspendRecord, SuspendRecords


def suspend(child: Child, rule: SuspendRule, records: SuspendRecords) -> Suspend:
    """Plan the step that scales an object down, or scales it down again if another client started it meanwhile."""
    is_again = records.is_suspended_now(child)
    before = records.read(child)
    if before.is_resumed:
        before = SuspendRecord(ours=read_fields(child, before.ours), theirs=read_fields(child, before.theirs))
    recorded = {**before.ours, **before.theirs}
    still = {path: value for path, value in rule.overrides.items() if path in recorded}
    sets = {**rule.sets, **rule.find_overridden(child), **still}
    unknown = [path for path in sets if path not in recorded]
    ours = [path for path in unknown if owns(child.ownership, path)]
    theirs = [path for path in unknown if path not in ours]
    record = SuspendRecord(
        ours={**before.ours, **read_fields(child, ours)}, theirs={**before.theirs, **read_fields(child, theirs)}
    )
    started = (path for path, value in sets.items() if suspend_rules.read(child.fields, path) != value)
    return Suspend(
        child=child,
        manifest=remember(build_apply(child, sets), records.write(child, record)),
        purpose=SuspendPurpose.SUSPEND,
        repaired_paths=tuple(started) if is_again else (),
    )


def resume(child: Child, records: SuspendRecords) -> Suspend:
    """Plan the step that resumes an object that has its definition.

    It restores, once, the fields that the definition does not own.
    """
    record = records.read(child)
    theirs = read_fields(child, record.theirs) if record.is_resumed else record.theirs
    back = {path: value for path, value in theirs.items() if not owns(child.ownership, path)}
    return Suspend(child=child, manifest=build_apply(child, back), purpose=SuspendPurpose.RESUME)


def restore(child: Child, records: SuspendRecords) -> Suspend:
    """Plan the step that restores a suspended object to its previous values, regardless of its current definition."""
    record = dataclasses.replace(records.read(child), is_resumed=True)
    manifest = remember(build_apply(child, {**record.ours, **record.theirs}), records.write(child, record))
    return Suspend(child=child, manifest=manifest, purpose=SuspendPurpose.RESTORE)


def read_fields(child: Child, paths: Iterable[Path]) -> dict[Path, Any]:
    """Return these fields of an object, with None for absent ones."""
    return {path: suspend_rules.read(child.fields, path) for path in paths}


def remember(manifest: Object, record: str) -> Object:
    """Return the same apply with the record in the object's annotation."""
    metadata = {**manifest["metadata"], "annotations": {names.ANNOTATION_SUSPENDED: record}}
    for key, value in (manifest["metadata"].get("annotations") or {}).items():
        metadata["annotations"][key] = value
    return {**manifest, "metadata": metadata}


def build_apply(child: Child, stated: Mapping[Path, Any]) -> Object:
    """Build the apply of these fields to this exact object. A field with value None is omitted."""
    metadata: Object = {"name": child.name, "uid": child.uid}
    if child.namespace:
        metadata["namespace"] = child.namespace
    manifest: Object = {"apiVersion": child.kind.api_version, "kind": child.kind.name, "metadata": metadata}
    for path, value in stated.items():
        place = manifest
        for key in path[:-1] if value is not None else ():
            place = place.setdefault(key, {})
        if value is not None:
            place[path[-1]] = value
    return manifest


def owns(found: FieldOwnership | None, path: Path) -> bool:
    """Return whether the object's definition owns the field."""
    if found is None:
        return False
    node: Any = field_ownership.read_fields(found)
    for key in path:
        node = node.get(f"f:{key}")
        if node is None:
            return False
        if field_ownership.is_leaf(node):
            return True
    return True


def without_suspend_fields(child: Child, finding: DriftFinding, records: SuspendRecords) -> DriftFinding:
    """Move the fields that suspending took from the object's definition from tolerated to repaired."""
    ours = records.read(child).ours
    return take(finding, tuple(lost for lost in finding.tolerated if lost.path in ours))


def reclaim_unrecorded(child: Child, finding: DriftFinding, records: SuspendRecords) -> DriftFinding:
    """Repair fields that still have their suspended value, for an object whose record is missing or not trusted.

    A field restored for its owner has another value, otherwise it would not have been suspended.
    """
    rule = records.rules.find_suspension(child.kind)
    sets = rule.values if rule is not None else {}
    held = {path for path, value in sets.items() if suspend_rules.read(child.fields, path) == value}
    return take(finding, tuple(lost for lost in finding.tolerated if lost.path in held))


def take(finding: DriftFinding, lost: tuple[LostField, ...]) -> DriftFinding:
    """Move these fields from tolerated to repaired."""
    if not lost:
        return finding
    return DriftFinding(
        tolerated=tuple(each for each in finding.tolerated if each not in lost), to_repair=(*finding.to_repair, *lost)
    )


def mark_resumed(manifest: Object, child: Child, finding: DriftFinding, records: SuspendRecords) -> Object:
    """Mark the object as resumed if this apply takes back every field that suspending set."""
    record = records.read(child)
    left = {lost.path for lost in finding.tolerated}
    if any(path in left or not is_stated(manifest, path) for path in (*record.ours, *record.theirs)):
        return manifest
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], names.ANNOTATION_SUSPENDED: suspend_record.RESUMED}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def is_stated(manifest: Object, path: Path) -> bool:
    """Return whether the manifest has a value at the path."""
    return suspend_rules.read(manifest, path) is not None
