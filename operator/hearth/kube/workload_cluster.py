"""`hearth.engine.ports.Cluster` on a real API server.

Knows what the engine's verbs are as requests; must not judge an answer: refusals pass through as they came.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from hearth.kube.cache import child_cache
from hearth.kube.client import api_client, api_requests
from hearth.kube.discovery import discovery, schemas
from hearth.kube.watch import retry_trigger_watches
from hearth.model import child as child_module
from hearth.model import errors
from hearth.model.kinds import Kind
from hearth.model.sharding import WHOLE, Share

if TYPE_CHECKING:
    from hearth.engine.ports import CacheListener, Observer
    from hearth.kube.client.connection import Connection
    from hearth.kube.watch.reflector import WatchOptions
    from hearth.model.child import Child, Object, Path
    from hearth.model.kinds import Kinds, ObjectRef
    from hearth.model.signatures import Signatures
    from hearth.plan.retry.retry_triggers import RetryTrigger

ACCESS_REVIEW = Kind(
    group="authorization.k8s.io",
    version="v1",
    name="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    namespaced=False,
)


class KubeWorkloadCluster:
    """One cluster that children live in, under one set of credentials."""

    def __init__(
        self,
        connection: Connection,
        listener: CacheListener,
        *,
        namespace: str = "",
        share: Share = WHOLE,
        observer: Observer | None = None,
        rules: WatchOptions | None = None,
    ) -> None:
        """Prepare; nothing is sent before `open`.

        namespace: the only one that children may be in; "" for all, and for those of cluster scope;
        share: of the Stacks whose children are watched.
        """
        self._sender = api_client.ApiClient(connection, observer)
        self._listener = listener
        self._namespace = namespace
        self._schemas = schemas.Schemas(connection, observer=observer)
        self._discovery = discovery.Discovery(connection, self._schemas, on_change=self._on_kinds, observer=observer)
        self.caches = child_cache.ChildCache(
            connection,
            self._discovery,
            listener,
            namespace=namespace,
            share=share,
            rules=rules,
            observer=observer,
        )
        self._causes = retry_trigger_watches.TriggerWatches(self.caches.server, self._discovery, listener)
        self._signatures: Signatures | None = None

    def trust(self, signatures: Signatures) -> None:
        """Tell children by these signatures; to be said before anything is followed or listed."""
        self._signatures = signatures
        self.caches.trust(signatures)

    async def open(self) -> None:
        """Learn what the server serves; nothing works before. Raises `Refused` or `Unreachable`."""
        await self._discovery.refresh()

    async def close(self) -> None:
        """End all watches; the connection stays."""
        await self._causes.close()
        await self.caches.close()

    def _on_kinds(self) -> None:
        self.caches.on_kinds()
        self._listener.on_kinds()

    @property
    def kinds(self) -> Kinds:
        """What it serves."""
        return self._discovery

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Let `kinds.find_schema` know these kinds' schemas; cached; a schema that cannot be had is left out."""
        await self._schemas.load(kinds)

    async def refresh_kinds(self) -> None:
        """Ask the server once more which kinds it serves; callers at the same time share one question."""
        await self._discovery.refresh()

    def follow(self, kind: Kind, paths: Collection[Path]) -> bool:
        """Keep a cache of all labelled objects of this kind; True once it is synced."""
        return self.caches.follow(kind, paths)

    def find_denial(self, kind: Kind) -> str:
        """In the server's words why a kind that is followed may not be watched; "" where nothing is known of that."""
        return self.caches.find_denial(kind)

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """By resource name every cached object with this Stack's label."""
        return self.caches.children(stack_uid)

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """The same for one resource."""
        return self.caches.children_of(stack_uid, resource)

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Server-side apply; the answer, already in the cache."""
        metadata = manifest["metadata"]
        path = api_requests.object_path(kind, metadata.get("namespace", ""), metadata["name"])
        query = api_requests.apply_query(manager=manager, force=force)
        answer = await self._sender.send("apply", kind, path, query=query, body=manifest)
        return self.caches.put(answer, kind)

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """What the object would be after a server-side apply by force; nothing is written."""
        metadata = manifest["metadata"]
        path = api_requests.object_path(kind, metadata.get("namespace", ""), metadata["name"])
        query = api_requests.apply_dry_run_query(manager)
        return await self._sender.send("apply", kind, path, query=query, body=manifest)

    async def create_dry_run(self, manifest: Object, *, kind: Kind) -> None:
        """A strict dry-run create under a generated name: returns where the definition is acceptable."""
        path = api_requests.collection_path(kind, manifest["metadata"].get("namespace", ""))
        body = api_requests.generated(manifest)
        await self._sender.send("create", kind, path, query=api_requests.DRY_RUN_QUERY, body=body)

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> None:
        """A dry-run merge patch of the live object: returns where the server would take it."""
        path = api_requests.object_path(kind, ref.namespace, ref.name)
        await self._sender.send("patch", kind, path, query=api_requests.DRY_RUN_QUERY, body=patch)

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """The live object, whole."""
        return await self._sender.send("get", kind, api_requests.object_path(kind, ref.namespace, ref.name))

    async def delete(self, child: Child) -> bool:
        """Delete that very object; whether it is gone now."""
        try:
            return await self._delete(child)
        except errors.ApiStatusError as refused:
            if refused.code != 409:
                raise
            live = await self._find_child(child)
            if live is None:
                return True
            if live.must_not_delete and not child.must_not_delete:
                # Since it was decided to delete it; whoever decided must look again.
                raise
        return await self._delete(live)

    async def _delete(self, child: Child) -> bool:
        path = api_requests.object_path(child.kind, child.namespace, child.name)
        body = api_requests.delete_options(child.uid, version=child.resource_version)
        try:
            answer = await self._sender.send("delete", child.kind, path, body=body)
        except errors.ApiStatusError as refused:
            if refused.code != 404:
                raise
            answer = {"kind": "Status"}
        # Some kinds (ServiceAccount, Service) are answered with the object as it was, although it is gone.
        metadata = answer.get("metadata")
        if answer.get("kind") != "Status" and isinstance(metadata, dict) and "deletionTimestamp" in metadata:
            self.caches.put(answer, child.kind)
            return False
        self.caches.forget(child)
        return True

    async def release(self, child: Child) -> None:
        """Take all labels and annotations of ours off that very object."""
        try:
            await self._release(child)
        except errors.ApiStatusError as refused:
            if refused.code not in (404, 409):
                raise
            # Where it changed a moment ago, that may have brought another annotation of ours, or made it somebody else's.
            live = await self._find_child(child)
            if live is not None:
                await self._release(live)

    async def _release(self, child: Child) -> None:
        path = api_requests.object_path(child.kind, child.namespace, child.name)
        body = api_requests.release_patch(child.fields["metadata"], uid=child.uid, version=child.resource_version)
        self.caches.put(await self._sender.send("patch", child.kind, path, body=body), child.kind)

    async def mark(self, child: Child, reason: str | None) -> Child | None:
        """Write onto that very object why it is unhealthy, or take that away."""
        try:
            return await self._mark(child, reason)
        except errors.ApiStatusError as refused:
            if refused.code not in (404, 409):
                raise
            live = await self._find_child(child)
        return await self._mark(live, reason) if live is not None else None

    async def _mark(self, child: Child, reason: str | None) -> Child:
        path = api_requests.object_path(child.kind, child.namespace, child.name)
        body = api_requests.mark_patch(reason, uid=child.uid, version=child.resource_version)
        return self.caches.put(await self._sender.send("patch", child.kind, path, body=body), child.kind)

    async def _find_child(self, child: Child) -> Child | None:
        """That very object as it is on the server now, or None where it is gone or that Stack's no longer."""
        try:
            live = await self.get(child.ref, kind=child.kind)
        except errors.ApiStatusError as refused:
            if refused.code != 404:
                raise
            live = None
        if live is None or live["metadata"]["uid"] != child.uid:
            self.caches.forget(child)
            return None
        found = self.caches.put(live, child.kind)
        return found if found.stack_uid == child.stack_uid else None

    async def list_children(self, kind: Kind, stack_uid: str, *, whole: bool = False) -> list[Child]:
        """A live list from the server; the cache follows. A kind that is no longer served has none."""
        path = api_requests.collection_path(kind, self._namespace)
        found: list[Object] = []
        continued, size = "", api_requests.PAGE_SIZE
        while True:
            query = api_requests.children_query(stack_uid, continued=continued, size=size)
            try:
                page = await self._sender.send("list", kind, path, query=query)
            except errors.AnswerTooLarge:
                if size == 1:
                    raise
                size = max(1, size // api_requests.SMALLER)
                continue
            except errors.ApiStatusError as refused:
                if refused.code == 404:
                    return []
                if refused.code != 410 or not continued:
                    raise
                # The pages that are left have been forgotten by the server: from the beginning.
                found, continued = [], ""
                continue
            found += page.get("items") or ()
            continued = page["metadata"].get("continue", "")
            if not continued:
                break
        self.caches.take_list(found, kind=kind, stack_uid=stack_uid, as_of=int(page["metadata"]["resourceVersion"]))
        return [
            child_module.parse_child(
                raw, kind=kind, paths=child_module.find_whole(raw) if whole else (), signatures=self._signatures
            )
            for raw in found
        ]

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str) -> bool:
        """Whether our account may do that."""
        review = api_requests.access_review(verb, kind=kind, namespace=namespace)
        answer = await self._sender.send(
            "create", ACCESS_REVIEW, api_requests.collection_path(ACCESS_REVIEW), body=review
        )
        return bool((answer.get("status") or {}).get("allowed"))

    def watch_trigger(self, cause: RetryTrigger) -> None:
        """From now on tell the listener of its changes."""
        self._causes.watch(cause)

    def retain_triggers(self, causes: Collection[RetryTrigger]) -> None:
        """End the watches that only others needed."""
        self._causes.retain(causes)
