"""Implements `hearth.engine.ports.StackDefinitionClient` on a real API server, and owns the watches of instances."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from hearth.kube.client import api_requests
from hearth.kube.objects import controller_revision
from hearth.kube.watch.reflector import METADATA_LIST, ClusterObserver, Reflector, WatchContext
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import CONTROLLER_REVISION, STACK_DEFINITION

if TYPE_CHECKING:
    from hearth.engine.cluster_objects import Revision, StackObject
    from hearth.kube.cache.stack_cache import StackCache
    from hearth.kube.client.connection import Connection
    from hearth.kube.management_cluster import KubeManagementCluster
    from hearth.template.instances.instance_form import InstanceForms

MANAGER = "hearth-definitions"
"""The field manager of objects that StackDefinitions create."""


class KubeStackDefinitionClient:
    """Reader and writer of StackDefinitions, and owner of the watches of their instances."""

    def __init__(
        self,
        connection: Connection,
        on_stack: Callable[[str], None],
        *,
        management_cluster: KubeManagementCluster,
        make_cache: Callable[..., StackCache],
        namespace: str = "",
        observer: ClusterObserver | None = None,
    ) -> None:
        """Watch nothing before a kind is served.

        on_stack: gets the UID of an instance that is no longer served; make_cache: of the instances of one kind, from
        `kind`, `tree` and `forms`; namespace: the only one whose instances are served, "" for all.
        """
        self._make_cache = make_cache
        self._namespace = namespace
        self._connection = connection
        self._on_stack = on_stack
        self._management_cluster = management_cluster
        self._observer = observer
        self._sender = api_requests.ApiClient(connection, observer)
        self._caches: dict[str, StackCache] = {}
        self._reflector: Reflector | None = None

    async def list_definitions(self) -> list[Object]:
        """Return all StackDefinitions; none if the kind is not served."""
        path = api_requests.collection_path(STACK_DEFINITION)
        answer = await self._sender.send_existing("list", STACK_DEFINITION, path) or {}
        return list(answer.get("items") or ())

    def follow(self, on_change: Callable[[str, str], None]) -> None:
        """Report each state of each StackDefinition by its name and UID from now on."""
        context = WatchContext(connection=self._connection, observer=self._observer)
        path = api_requests.collection_path(STACK_DEFINITION)
        self._reflector = Reflector(context, path, Follower(on_change), name=STACK_DEFINITION.key, metadata_only=True)
        self._reflector.start()

    async def list_revisions(self, uid: str, namespace: str) -> list[Revision]:
        """Return the stored revisions of the StackDefinition with that UID, in ascending order."""
        query = {"labelSelector": f"{names.LABEL_STACK_UID}={uid}"}
        path = api_requests.collection_path(CONTROLLER_REVISION, namespace)
        answer = await self._connection.request("GET", path, query=query, accept=METADATA_LIST)
        found = [controller_revision.parse_revision(each["metadata"]) for each in answer.get("items") or ()]
        return sorted(found, key=lambda each: each.number)

    async def get_definition(self, name: str) -> Object | None:
        """Return a StackDefinition, or None if it does not exist."""
        return await self.get_object(STACK_DEFINITION, name)

    async def write_finalizers(self, raw: Object, finalizers: list[str]) -> Object | None:
        """Set the finalizers of a StackDefinition. Returns None if it no longer exists."""
        metadata = {"finalizers": finalizers, "resourceVersion": raw["metadata"]["resourceVersion"]}
        path = api_requests.object_path(STACK_DEFINITION, "", raw["metadata"]["name"])
        return await self._sender.send_existing("patch", STACK_DEFINITION, path, body={"metadata": metadata})

    async def write_definition_status(self, raw: Object, status: Object) -> None:
        """Merge-patch the status of a StackDefinition; ignore one that was deleted."""
        path = api_requests.object_path(STACK_DEFINITION, "", raw["metadata"]["name"]) + "/status"
        body = {"metadata": {"uid": raw["metadata"]["uid"]}, "status": status}
        await self._sender.send_existing("patch", STACK_DEFINITION, path, body=body)

    async def get_object(self, kind: Kind, name: str) -> Object | None:
        """Return an object without a namespace, or None if it does not exist."""
        return await self._sender.send_existing("get", kind, api_requests.object_path(kind, "", name))

    async def apply_object(self, kind: Kind, manifest: Object) -> Object:
        """Apply an object without a namespace; return it as stored."""
        path = api_requests.object_path(kind, "", manifest["metadata"]["name"])
        query = api_requests.apply_query(manager=MANAGER, force=True)
        return await self._sender.send("apply", kind, path, query=query, body=manifest)

    async def delete_object(self, kind: Kind, raw: Object) -> None:
        """Delete exactly this object; ignore one that was deleted."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": raw["metadata"]["uid"]}}
        path = api_requests.object_path(kind, "", raw["metadata"]["name"])
        await self._sender.send_existing("delete", kind, path, body=body)

    def serve(self, kind: Kind, forms: InstanceForms) -> None:
        """Watch the instances of a kind from now on."""
        if kind.key in self._caches:
            return
        cache = self._make_cache(kind=kind, tree=self._management_cluster.tree, forms=forms)
        self._caches[kind.key] = cache
        self._management_cluster.add_kind(cache)
        cache.start()

    async def wait_served(self, kind: Kind) -> None:
        """Wait until all instances of the kind are known."""
        await self._caches[kind.key].wait_synced()

    async def withdraw(self, kind: Kind) -> None:
        """Stop watching the instances of a kind."""
        cache = self._caches.pop(kind.key, None)
        if cache is not None:
            self._management_cluster.remove_kind(kind)
            await cache.close()
            for instance in cache.find_instances():
                self._management_cluster.tree.drop(instance.uid)
                self._on_stack(instance.uid)

    async def release_instances(self, kind: Kind) -> int:
        """Remove the operator's finalizer from all instances of a kind; return how many had it."""
        path = api_requests.collection_path(kind, self._namespace)
        released, query = 0, {"limit": str(api_requests.PAGE_SIZE)}
        while True:
            page = await self._sender.send_existing("list", kind, path, query=query) or {}
            for raw in page.get("items") or ():
                released += await self._release(kind, raw["metadata"])
            continued = (page.get("metadata") or {}).get("continue")
            if not continued:
                return released
            query = {**query, "continue": continued}

    async def _release(self, kind: Kind, metadata: Object) -> bool:
        finalizers = list(metadata.get("finalizers") or ())
        if names.FINALIZER not in finalizers:
            return False
        left = [each for each in finalizers if each != names.FINALIZER]
        patch = {"metadata": {"finalizers": left, "resourceVersion": metadata["resourceVersion"]}}
        path = api_requests.object_path(kind, metadata["namespace"], metadata["name"])
        await self._sender.send_existing("patch", kind, path, body=patch)
        return True

    def find_instances(self, kind: Kind) -> Collection[StackObject]:
        """Return all known instances of a kind, whichever process serves them."""
        cache = self._caches.get(kind.key)
        return cache.find_instances() if cache is not None else ()

    def move(self, kind: Kind, uid: str, number: int) -> None:
        """Move an instance to another revision of its StackDefinition."""
        if (cache := self._caches.get(kind.key)) is not None:
            cache.move(uid, number)

    def renew_rights(self, kind: Kind) -> None:
        """Apply the rights of the newest revision of a StackDefinition to all its instances."""
        if (cache := self._caches.get(kind.key)) is not None:
            cache.renew_rights()

    async def close(self) -> None:
        """End all watches."""
        if self._reflector is not None:
            await self._reflector.close()
        for cache in self._caches.values():
            await cache.close()


class Follower:
    """Handles the watch of StackDefinitions; stores only their names."""

    def __init__(self, on_change: Callable[[str, str], None]) -> None:
        """on_change: gets name and UID."""
        self._on_change = on_change
        self._names: dict[str, str] = {}
        """Names by UID."""
        self._shown: set[str] = set()

    def on_list_started(self) -> None:
        """Start a new full set."""
        self._shown = set()

    def on_object(self, raw: Object) -> None:
        """Report an object that exists."""
        uid, name = raw["metadata"]["uid"], raw["metadata"]["name"]
        self._shown.add(uid)
        self._names[uid] = name
        self._on_change(name, uid)

    def on_deleted(self, raw: Object) -> None:
        """Report a deleted object."""
        uid = raw["metadata"]["uid"]
        if (name := self._names.pop(uid, None)) is not None:
            self._on_change(name, uid)

    def on_synced(self, version: int | None) -> None:  # noqa: ARG002 -- a port
        """Report the objects that the full set did not show."""
        for uid in self._names.keys() - self._shown:
            self._on_change(self._names.pop(uid), uid)
