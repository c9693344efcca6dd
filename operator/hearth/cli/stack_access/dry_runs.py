"""Dry runs on a real API server: the cluster of a preview, and the Stack after an apply or a rollback.

All writes set `dryRun=All`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson

from hearth.cli.stack_access.session import MANAGER, Session
from hearth.cli.stack_views.stack_state import StackState
from hearth.kube.client import JSON, api_requests
from hearth.model import errors, names, object_fields
from hearth.model.child import Object
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.model.well_known_kinds import OWN_ACCESS_REVIEW, STACK

DRY_RUN: Final = {"dryRun": "All"}
TEMPLATE_FIELDS: Final = frozenset({"f:template", "f:templateRef", "f:templateRefs"})
"""The fields of a spec that contain the template, as `managedFields` names them."""
STATED: Final = ("labels", "annotations")
"""The parts of the metadata that a file may set."""


class DryRunCluster:
    """`hearth.preview.live_cluster.LiveCluster` of one session."""

    def __init__(self, session: Session, *, namespace: str) -> None:
        """namespace: of the Stack, where objects are listed if the user is not allowed to list all namespaces."""
        self._session = session
        self._namespace = namespace

    @property
    def kinds(self) -> Kinds:
        """The kinds that the cluster serves."""
        return self._session.kinds

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Load the schemas."""
        await self._session.schemas.load(kinds)

    async def list_children(self, kind: Kind, stack_uid: str) -> list[Object]:
        """Return the objects with the label of that Stack, in its own namespace if the user may list no others."""
        selector = f"{names.LABEL_STACK_UID}={stack_uid}"
        try:
            return await self._session.list(kind, selector=selector)
        except errors.ApiStatusError as refused:
            if refused.is_not_found:
                return []
            if not refused.is_forbidden or not kind.namespaced:
                raise
        return await self._session.list(kind, self._namespace, selector=selector)

    async def list_objects(self, kind: Kind, namespace: str, *, selector: str) -> list[Object]:
        """Return the objects with these labels."""
        return await self._session.list(kind, namespace, selector=selector)

    async def get(self, ref: ObjectRef, *, kind: Kind, user: str = "") -> Object:
        """Return the object."""
        path = api_requests.object_path(kind, ref.namespace, ref.name)
        return await self._session.connection.request("GET", path, impersonate=user or None)

    async def try_apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool, user: str = "") -> Object:
        """Return the result of a server-side apply."""
        metadata = manifest["metadata"]
        path = api_requests.object_path(kind, metadata.get("namespace", ""), metadata["name"])
        query = api_requests.apply_query(manager=manager, force=force)
        return await self._send("PATCH", path, manifest, query=query, content_type=api_requests.APPLY, user=user)

    async def try_create(self, manifest: Object, *, kind: Kind, user: str = "") -> Object:
        """Return the result of a create."""
        path = api_requests.collection_path(kind, manifest["metadata"].get("namespace", ""))
        return await self._send("POST", path, manifest, query=api_requests.DRY_RUN_QUERY, user=user)

    async def try_change(self, ref: ObjectRef, patch: Object, *, kind: Kind, user: str = "") -> Object:
        """Return the result of a merge patch."""
        path = api_requests.object_path(kind, ref.namespace, ref.name)
        query = {"fieldManager": MANAGER, **api_requests.DRY_RUN_QUERY}
        return await self._send("PATCH", path, patch, query=query, content_type=api_requests.MERGE_PATCH, user=user)

    async def try_delete(self, ref: ObjectRef, *, kind: Kind, uid: str, user: str = "") -> None:
        """Delete exactly this object."""
        path = api_requests.object_path(kind, ref.namespace, ref.name)
        # An API server that reads options from the body ignores those in the query.
        body = {**api_requests.delete_options(uid), "dryRun": ["All"]}
        await self._send("DELETE", path, body, query={}, user=user)

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "", user: str = "") -> bool:
        """Return whether the user has this permission."""
        review = api_requests.access_review(verb, kind=kind, namespace=namespace, name=name)
        answer = await self._send("POST", api_requests.collection_path(OWN_ACCESS_REVIEW), review, query={}, user=user)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _send(
        self, method: str, path: str, body: Object, *, query: dict[str, str], user: str, content_type: str = JSON
    ) -> Object:
        """Send a write as a dry run."""
        return await self._session.connection.request(
            method, path, query={**query, **DRY_RUN}, body=body, content_type=content_type, impersonate=user or None
        )


# Stacks after a change, as the responses to dry runs.


async def try_file(cluster: DryRunCluster, stated: Object, present: Object | None, *, kind: Kind = STACK) -> Object:
    """Return the Stack after an apply of the file. Raises ApiStatusError with the errors that the API server reports.

    kind: of the object, which may be a StackDefinition; present: the live object. If a field manager applied the object
    server-side, the dry run uses its name. Otherwise, fields that the file lacks are removed as `kubectl apply` does.
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
    """Return the manifest that `kubectl apply` applied last, or None."""
    text = object_fields.text(present, "metadata", "annotations", names.KUBECTL_LAST_APPLIED)
    try:
        found = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def make_patch(before: Mapping[str, Any], stated: Object, live: Object) -> Object:
    """Return the merge patch of a three-way merge: the fields of the file, without fields that only its predecessor
    had.
    """
    metadata: Object = {}
    for part in STATED:
        old, new, now = (object_fields.mapping(each, "metadata", part) for each in (before, stated, live))
        metadata[part] = merge_three(old, new, now)
        metadata[part].pop(names.KUBECTL_LAST_APPLIED, None)
    old, new, now = (object_fields.mapping(each, "spec") for each in (before, stated, live))
    return {"metadata": metadata, "spec": merge_three(old, new, now)}


def merge_three(old: Mapping[str, Any], new: Mapping[str, Any], now: Mapping[str, Any]) -> Object:
    """Return the merge patch of `now` that adds and changes the fields of `new`, and removes fields that only `old`
    had.
    """
    patch: Object = {key: None for key in old if key not in new and key in now}
    for key, value in new.items():
        former, current = old.get(key), now.get(key)
        if isinstance(value, dict) and isinstance(current, dict):
            if inner := merge_three(former if isinstance(former, dict) else {}, value, current):
                patch[key] = inner
        elif value != current:
            patch[key] = value
    return patch
