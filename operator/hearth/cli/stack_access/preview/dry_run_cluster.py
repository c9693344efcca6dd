"""`hearth.preview.live_cluster.LiveCluster` on a real API server. Every write states `dryRun=All`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hearth.cli.stack_access.session import MANAGER, Session
from hearth.kube.client import api_requests
from hearth.kube.client.api_requests import JSON
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.model.well_known_kinds import OWN_ACCESS_REVIEW

DRY_RUN: Final = {"dryRun": "All"}


class DryRunCluster:
    """The cluster of one session."""

    def __init__(self, session: Session, *, namespace: str) -> None:
        """namespace: of the Stack, where objects are listed if the user may not list all namespaces."""
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
        """Return whether the user may do that."""
        review = api_requests.access_review(verb, kind=kind, namespace=namespace, name=name)
        answer = await self._send("POST", api_requests.collection_path(OWN_ACCESS_REVIEW), review, query={}, user=user)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _send(
        self, method: str, path: str, body: Object, *, query: dict[str, str], user: str, content_type: str = JSON
    ) -> Object:
        """Send what would be a write."""
        return await self._session.connection.request(
            method, path, query={**query, **DRY_RUN}, body=body, content_type=content_type, impersonate=user or None
        )
