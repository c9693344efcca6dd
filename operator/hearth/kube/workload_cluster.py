"""Implements `hearth.engine.ports.WorkloadCluster` on a real API server.

API errors pass through to the engine, which interprets them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from hearth.kube.cache import child_cache, external_cache
from hearth.kube.client import api_requests
from hearth.kube.discovery.discovery import Discovery
from hearth.kube.discovery.refresh_timing import LateSchemas
from hearth.kube.watch import retry_trigger_watches
from hearth.model import child as child_module
from hearth.model import child_fields, errors
from hearth.model.kinds import Kind
from hearth.model.sharding import WHOLE, Share
from hearth.model.well_known_kinds import ACCESS_REVIEW, CUSTOM_RESOURCE_DEFINITION, OWN_ACCESS_REVIEW, POD

if TYPE_CHECKING:
    from hearth.engine.ports import CacheListener
    from hearth.kube.client.connection import Connection
    from hearth.kube.watch.reflector import ClusterObserver, WatchOptions
    from hearth.model.child import Child, Object
    from hearth.model.kinds import ObjectRef
    from hearth.model.signatures import Signatures
    from hearth.model.tenancy import Boundary


PODS_READ = 50
"""Maximum number of Pods of a Job that are searched for the failed container."""


class KubeWorkloadCluster:
    """One cluster that contains children, accessed with one set of credentials."""

    def __init__(  # noqa: PLR0913 -- which objects are watched, and what all watches share
        self,
        connection: Connection,
        listener: CacheListener,
        *,
        namespace: str = "",
        namespaced_watches: Collection[str] = (),
        share: Share = WHOLE,
        observer: ClusterObserver | None = None,
        options: WatchOptions | None = None,
        hold: Callable[[int], None] = lambda _change: None,
        payer: str = "",
    ) -> None:
        """Prepare; send nothing before `open`.

        namespace: the only one that children may be in; "" for all namespaces and cluster-scoped children;
        namespaced_watches: the kinds that are watched in single namespaces only;
        share: the shard of Stacks whose children are watched; hold: see `Schemas`; payer: the namespace of Stacks whose
        share of the memory counts all children, "" for the namespace of each.
        """
        self._sender = api_requests.ApiClient(connection, observer)
        self._listener = listener
        self.kinds = kinds = Discovery(connection, on_change=self._on_kinds, observer=observer, hold=hold)
        self._late_schemas = LateSchemas(kinds.refresh_schemas)
        self.caches = caches = child_cache.ChildCache(
            connection,
            kinds,
            listener,
            namespace=namespace,
            namespaced=namespaced_watches,
            share=share,
            options=options,
            observer=observer,
            payer=payer,
        )
        self.externals = external_cache.ExternalCache(caches.server, listener)
        self._causes = retry_trigger_watches.TriggerWatches(caches.server, kinds, listener.on_retry_trigger)
        self._signatures: Signatures | None = None
        # Methods of the port that need only one part. They are attributes, because `children` is called for each
        # resource of each plan.
        self.load_schemas, self.refresh_kinds = kinds.schemas.load, kinds.refresh
        self.follow, self.find_denial, self.is_failing = caches.follow, caches.find_denial, caches.is_failing
        self.children, self.children_of = caches.children, caches.children_of
        self.follow_externals, self.find_external = self.externals.follow, self.externals.find
        self.watch_trigger, self.retain_triggers = self._causes.watch, self._causes.retain

    def acting_as(self, user: str) -> KubeWorkloadCluster:
        """Return the same cluster, whose requests about single objects are made as that user; "" for the operator."""
        if not user:
            return self
        # A shallow copy shares everything but the client: no cache or connection per account.
        found = copy.copy(self)
        found._sender = self._sender.acting_as(user)  # noqa: SLF001 -- its own class
        return found

    def trust(self, signatures: Signatures) -> None:
        """Identify children by these signatures; call before following or listing anything."""
        self._signatures = signatures
        self.caches.trust(signatures)

    async def open(self) -> None:
        """Discover the served kinds; no other method works before. Raises `ApiStatusError` or `Unreachable`."""
        await self.kinds.refresh()

    async def close(self) -> None:
        """Stop all watches; leave the connection open."""
        await self._late_schemas.close()
        await self._causes.close()
        await self.externals.close()
        await self.caches.close()
        self.kinds.schemas.close()

    def _on_kinds(self) -> None:
        self._late_schemas.start()
        self.caches.on_kinds()
        self.externals.on_kinds()
        self._listener.on_kinds()

    async def refresh_changed_kinds(self) -> None:
        """Discover the served kinds again because a definition of kinds changed, and their schemas for two minutes."""
        await self.kinds.refresh()
        self._late_schemas.start()

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Apply the manifest server-side and return the response, which is already in the cache."""
        path = api_requests.path_of(kind, manifest["metadata"])
        query = api_requests.apply_query(manager=manager, force=force)
        answer = await self._sender.send("apply", kind, path, query=query, body=manifest)
        return self.caches.put(answer, kind)

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """Return the result of a forced server-side apply; write nothing."""
        path = api_requests.path_of(kind, manifest["metadata"])
        query = {**api_requests.apply_query(manager=manager, force=True), "dryRun": "All"}
        return await self._sender.send("apply", kind, path, query=query, body=manifest)

    async def check_definition(self, manifest: Object, *, kind: Kind) -> None:
        """Send a strict dry-run create with the same name; return if the API server accepts the definition.

        The API server checks for an existing object last, so a conflict with one means that everything else is valid.
        """
        try:
            await self._create(api_requests.without_state(manifest), kind, query=api_requests.DRY_RUN_QUERY)
        except errors.ApiStatusError as refused:
            if not refused.is_already_exists:
                raise

    async def create_dry_run(self, manifest: Object, *, kind: Kind) -> Object:
        """Return the answer to a strict dry-run create with a generated name."""
        return await self._create(api_requests.generated(manifest), kind, query=api_requests.DRY_RUN_QUERY)

    async def create_object(self, manifest: Object, *, kind: Kind) -> Object:
        """Create an object that is not a child, and return the response."""
        return await self._create(manifest, kind)

    async def _create(self, manifest: Object, kind: Kind, *, query: dict[str, str] | None = None) -> Object:
        path = api_requests.collection_path(kind, manifest["metadata"].get("namespace", ""))
        return await self._sender.send("create", kind, path, query=query, body=manifest)

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Return the result of a merge patch of the live object; write nothing."""
        path = api_requests.object_path(kind, ref.namespace, ref.name)
        return await self._sender.send("patch", kind, path, query=api_requests.DRY_RUN_QUERY, body=patch)

    async def change(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Child:
        """Write a merge patch of the live object and return the response, which is already in the cache."""
        path = api_requests.object_path(kind, ref.namespace, ref.name)
        return self.caches.put(await self._sender.send("patch", kind, path, body=patch), kind)

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """Return the complete live object."""
        return await self._sender.send("get", kind, api_requests.object_path(kind, ref.namespace, ref.name))

    async def change_object(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Write a merge patch of an object that is not a child, and return the response."""
        path = api_requests.object_path(kind, ref.namespace, ref.name)
        return await self._sender.send("patch", kind, path, body=patch)

    async def delete_object(self, raw: Object, *, kind: Kind) -> None:
        """Delete exactly this object, which is not a child; ignore one that was deleted."""
        body = api_requests.delete_options(raw["metadata"]["uid"])
        await self._sender.send_existing("delete", kind, api_requests.path_of(kind, raw["metadata"]), body=body)

    async def delete(self, child: Child, *, keeps_dependents: bool = False) -> bool:
        """Delete exactly this object; return whether it no longer exists."""
        try:
            return await self._delete(child, keeps_dependents=keeps_dependents)
        except errors.ApiStatusError as refused:
            if not refused.is_conflict:
                raise
            live = await self._find_child(child)
            if live is None:
                return True
            if live.must_not_delete and not child.must_not_delete:
                # The object changed after the decision to delete it. The caller must observe it again.
                raise
        return await self._delete(live, keeps_dependents=keeps_dependents)

    async def _delete(self, child: Child, *, keeps_dependents: bool) -> bool:
        path = api_requests.object_path(child.kind, child.namespace, child.name)
        body = api_requests.delete_options(
            child.uid, version=child.resource_version, keeps_dependents=keeps_dependents, kind=child.kind
        )
        answer = await self._sender.send_existing("delete", child.kind, path, body=body) or {"kind": "Status"}
        # For some kinds (ServiceAccount, Service) the response is the former object, although it was deleted.
        metadata = answer.get("metadata")
        if answer.get("kind") != "Status" and isinstance(metadata, dict) and "deletionTimestamp" in metadata:
            self.caches.put(answer, child.kind)
            return False
        self.caches.forget(child)
        return True

    async def release(self, child: Child) -> None:
        """Remove all labels and annotations of Hearth from exactly this object."""
        finalizers: dict[int, Sequence[str]] = {}
        if child_module.FINALIZERS in child.omitted:
            live = (await self.get(child.ref, kind=child.kind))["metadata"]
            finalizers[int(live["resourceVersion"])] = live.get("finalizers") or ()

        # A recent change may have added another annotation of Hearth or given the object another owner.
        def make_patch(each: Child) -> Object:
            kept = () if child_module.FINALIZERS in each.omitted else each.finalizers
            return api_requests.release_patch(
                each.fields["metadata"],
                uid=each.uid,
                version=each.resource_version,
                finalizers=finalizers.get(each.resource_version, kept),
            )

        await self._change_child(child, make_patch)

    async def mark(self, child: Child, reason: str | None, *, mark_id: str = "") -> Child | None:
        """Write to exactly this object why it is unhealthy, or remove the reason."""
        return await self._change_child(
            child,
            lambda each: api_requests.mark_patch(reason, mark_id=mark_id, uid=each.uid, version=each.resource_version),
        )

    async def _change_child(self, child: Child, make_patch: Callable[[Child], Object]) -> Child | None:
        """Write a merge patch of the known state, or of the live one if they differ. Returns None if it was deleted."""
        try:
            return await self.change(child.ref, make_patch(child), kind=child.kind)
        except errors.ApiStatusError as refused:
            if not (refused.is_not_found or refused.is_conflict):
                raise
            live = await self._find_child(child)
        return await self.change(live.ref, make_patch(live), kind=live.kind) if live is not None else None

    async def _find_child(self, child: Child) -> Child | None:
        """Return the live object with the same UID, or None if it was deleted or no longer belongs to the Stack."""
        path = api_requests.object_path(child.kind, child.namespace, child.name)
        live = await self._sender.send_existing("get", child.kind, path)
        if live is None or live["metadata"]["uid"] != child.uid:
            self.caches.forget(child)
            return None
        found = self.caches.put(live, child.kind)
        return found if found.stack_uid == child.stack_uid else None

    async def list_children(
        self, kind: Kind, stack_uid: str, *, namespace: str = "", whole: bool = False
    ) -> list[Child]:
        """List the children live from the API server and update the cache. An unserved kind has none."""
        path = api_requests.collection_path(kind, self.caches.find_watched_namespace(kind, namespace))
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
                if refused.is_not_found:
                    return []
                if refused.code != 410 or not continued:
                    raise
                # The continue token expired, so the API server no longer has the remaining pages. Start again.
                found, continued = [], ""
                continue
            found += page.get("items") or ()
            continued = page["metadata"].get("continue", "")
            if not continued:
                break
        self.caches.take_list(found, kind=kind, stack_uid=stack_uid, as_of=int(page["metadata"]["resourceVersion"]))
        return [
            child_module.parse_child(
                raw, kind=kind, paths=child_fields.find_whole(raw) if whole else (), signatures=self._signatures
            )
            for raw in found
        ]

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Return whether the account has this permission. name: of the object, "" for all."""
        review = api_requests.access_review(verb, kind=kind, namespace=namespace, name=name)
        return await self._create_review(OWN_ACCESS_REVIEW, review)

    async def may(self, verb: str, boundary: Boundary, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """Return whether the account of that boundary may do that. name: "" for all of the namespace."""
        review = api_requests.access_review(
            verb, kind=kind, namespace=namespace, name=name, user=boundary.user, groups=boundary.groups
        )
        return await self._create_review(ACCESS_REVIEW, review)

    async def _create_review(self, kind: Kind, review: Object) -> bool:
        answer = await self._sender.send("create", kind, api_requests.collection_path(kind), body=review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def is_kind_going(self, kind: Kind) -> bool:
        """Whether the kind's definition is being deleted, or the kind is no longer served."""
        definition = {"fieldSelector": f"metadata.name={kind.plural}.{kind.group}", "limit": "1"}
        for listed, query in ((CUSTOM_RESOURCE_DEFINITION, definition), (kind, {"limit": "1"})):
            try:
                answer = await self._sender.send("list", listed, api_requests.collection_path(listed), query=query)
            except errors.ApiStatusError as refused:
                if refused.is_not_found:
                    return True
                if not refused.is_forbidden:
                    raise
                # The account cannot see it, so only the limit on removals protects the members.
                continue
            deleted = [each for each in answer.get("items") or () if "deletionTimestamp" in each["metadata"]]
            if deleted and listed is CUSTOM_RESOURCE_DEFINITION:
                return True
        return False

    async def list_pods(self, namespace: str, *, labels: str) -> list[Object]:
        """Return the first pods with these labels, a selector; the account needs the right to list them."""
        query = {"labelSelector": labels, "limit": str(PODS_READ)}
        answer = await self._sender.send("list", POD, api_requests.collection_path(POD, namespace), query=query)
        return list(answer.get("items") or ())

    async def get_log_end(self, ref: ObjectRef, *, container: str, limit: int) -> str:
        """Return the last lines of the log of a container, `limit` bytes at most. ref: the pod."""
        path = f"{api_requests.object_path(POD, ref.namespace, ref.name)}/log"
        query = {"container": container, "tailLines": "1", "limitBytes": str(limit)}
        answer = await self._sender.send("get", POD, path, query=query, read=api_requests.read_text)
        return str(answer[api_requests.TEXT])
