"""Content of a PersistentVolumeClaim: `spec.dataSource`, which matters only when the claim is created.

The API server rejects every later change of it. So a claim keeps the one that it has, even if its manifest has none any
more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind
from hearth.template.blueprint import RestoredVolume

SNAPSHOT_GROUP = "snapshot.storage.k8s.io"
STATED = ("dataSource", "dataSourceRef")
"""The fields of a spec that state its content."""


def is_claim(kind: Kind) -> bool:
    """Return whether objects of this kind are PersistentVolumeClaims."""
    return kind.name == "PersistentVolumeClaim" and not kind.group


def find_data_source(child: Child) -> Mapping[str, Any] | None:
    """Return the content that the existing claim was created with; None for another object, or without content."""
    if not is_claim(child.kind):
        return None
    spec = child.fields.get("spec")
    found = spec.get("dataSource") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else None


def keep_data_source(manifest: Object, found: Mapping[str, Any]) -> Object:
    """Return the manifest of an existing claim with the content that it has, unless it states one."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict) or any(key in spec for key in STATED):
        return manifest
    return {**manifest, "spec": {**spec, "dataSource": dict(found)}}


def keep_content(manifest: Object, child: Child) -> Object:
    """Return the manifest of an existing object; that of a claim with the content that it has."""
    found = find_data_source(child)
    return keep_data_source(manifest, found) if found is not None else manifest


def restore(manifest: Object, volume: RestoredVolume) -> Object:
    """Return the manifest of a claim that gets its content from a VolumeSnapshot."""
    metadata = manifest.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), names.ANNOTATION_RESTORED: volume.token}
    source = {"apiGroup": SNAPSHOT_GROUP, "kind": "VolumeSnapshot", "name": volume.snapshot}
    spec = {key: value for key, value in (manifest.get("spec") or {}).items() if key not in STATED}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, "dataSource": source}}
