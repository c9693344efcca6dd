"""A Stack as it would be after `kubectl apply` of a file, or after a rollback: the answer to a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from hearth.cli import object_fields
from hearth.cli.stack_access.preview.dry_run_cluster import DryRunCluster
from hearth.cli.stack_views.stack_state import StackState
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.well_known_kinds import STACK
from hearth.preview import field_changes

TEMPLATE_FIELDS: Final = frozenset({"f:template", "f:templateRef", "f:templateRefs"})
"""The fields of a spec that have the template, as managed fields name them."""
STATED: Final = ("labels", "annotations")
"""The parts of the metadata that a file may state."""


async def try_file(cluster: DryRunCluster, stated: Object, present: Object | None, *, kind: Kind = STACK) -> Object:
    """Return the Stack after an apply of the file. Raises ApiStatusError with the mistakes that the API server finds.

    kind: of the object, which may be a StackDefinition; present: the live object. One that a field manager applied server-side is applied under its name; of any other, fields
    that the file does not have are removed as `kubectl apply` removes them.
    """
    kept = {key: stated["metadata"][key] for key in ("name", "namespace", *STATED) if key in stated["metadata"]}
    manifest = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": kept, "spec": stated.get("spec")}
    if present is None:
        return await cluster.try_create(manifest, kind=kind)
    if applier := find_applier(present):
        return await cluster.try_apply(manifest, kind=kind, manager=applier, force=True)
    patch = make_patch(find_last_applied(present) or {"spec": present.get("spec")}, manifest, present)
    return await try_patch(cluster, present, patch, kind=kind)


async def try_rollback(cluster: DryRunCluster, stack: StackState, number: int) -> Object:
    """Return the Stack after `kubectl stack rollback --to`. A request for the same number counts as a new one."""
    patch = stack.patch_options({"rollback": {"toRevision": number}})
    wanted = await try_patch(cluster, stack.raw, patch, kind=stack.kind)
    if object_fields.number(stack.spec, "rollback", "toRevision") == number:
        state = {**object_fields.mapping(wanted, "status", "controllerState")}
        state.pop("rollback", None)
        wanted["status"] = {**object_fields.mapping(wanted, "status"), "controllerState": state}
    return wanted


async def try_patch(cluster: DryRunCluster, present: Object, patch: Object, *, kind: Kind = STACK) -> Object:
    """Return the Stack after a merge patch of exactly this Stack. kind: as for `try_file`."""
    metadata = present["metadata"]
    ref = ObjectRef(group=kind.group, kind=kind.name, namespace=metadata.get("namespace", ""), name=metadata["name"])
    body = {**patch, "metadata": {**(patch.get("metadata") or {}), "uid": metadata["uid"]}}
    return await cluster.try_change(ref, body, kind=kind)


def find_applier(present: Object) -> str:
    """Return the field manager that applied the definition server-side, "" if none did."""
    if find_last_applied(present) is not None:
        return ""
    for entry in object_fields.entries(present, "metadata", "managedFields"):
        spec = object_fields.mapping(entry, "fieldsV1", "f:spec")
        if entry.get("operation") == "Apply" and not TEMPLATE_FIELDS.isdisjoint(spec):
            return object_fields.text(entry, "manager")
    return ""


def find_last_applied(present: Object) -> Object | None:
    """Return what `kubectl apply` applied last, None if it did not."""
    text = object_fields.text(present, "metadata", "annotations", field_changes.LAST_APPLIED)
    try:
        found = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def make_patch(before: Mapping[str, Any], stated: Object, live: Object) -> Object:
    """Return the merge patch of a three-way merge: what the file has, without what only its predecessor had."""
    metadata: Object = {}
    for part in STATED:
        old, new, now = (object_fields.mapping(each, "metadata", part) for each in (before, stated, live))
        metadata[part] = merge_three(old, new, now)
        metadata[part].pop(field_changes.LAST_APPLIED, None)
    old, new, now = (object_fields.mapping(each, "spec") for each in (before, stated, live))
    return {"metadata": metadata, "spec": merge_three(old, new, now)}


def merge_three(old: Mapping[str, Any], new: Mapping[str, Any], now: Mapping[str, Any]) -> Object:
    """Return the merge patch of `now` that adds and changes what `new` has, and removes what only `old` had."""
    patch: Object = {key: None for key in old if key not in new and key in now}
    for key, value in new.items():
        former, current = old.get(key), now.get(key)
        if isinstance(value, dict) and isinstance(current, dict):
            if inner := merge_three(former if isinstance(former, dict) else {}, value, current):
                patch[key] = inner
        elif value != current:
            patch[key] = value
    return patch
