"""Reads and writes the objects of one kind in a cluster: a cache of all of them, and patches of single ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from hearth.kube.cache import object_store
from hearth.kube.cache.object_store import StoreOwner, Versioned, WatchedCache
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.watch.reflector import ClusterObserver, Reflector, WatchContext
from hearth.model.child import Object
from hearth.model.kinds import Kind


class NamespacedRecord(Versioned, Protocol):
    """The required properties of a record."""

    @property
    def namespace(self) -> str:
        """Return the object's namespace."""

    @property
    def name(self) -> str:
        """Return the object's name."""


Record = TypeVar("Record", bound=NamespacedRecord)


class RecordIndex(Generic[Record]):
    """Records by namespace and another value: by name, or by the Stack that they are about."""

    def __init__(self, find_value: Callable[[Record], str]) -> None:
        self._find_value = find_value
        self._records: dict[tuple[str, str], dict[str, Record]] = {}

    def replace(self, old: Record | None, new: Record | None) -> None:
        """Update a created, changed or deleted record."""
        if old is not None:
            key = (old.namespace, self._find_value(old))
            records = self._records.get(key, {})
            records.pop(old.uid, None)
            if not records:
                self._records.pop(key, None)
        if new is not None:
            self._records.setdefault((new.namespace, self._find_value(new)), {})[new.uid] = new

    def list_records(self, namespace: str, value: str) -> Sequence[Record]:
        """Return the records with this value, the last one that was replaced at the end."""
        return tuple(self._records.get((namespace, value), {}).values())


class ObjectClient(WatchedCache[Record], StoreOwner[Record]):
    """Every object of the kind, or all of one namespace. The watch runs from `start` to `close`."""

    kind: Kind

    def __init__(
        self,
        connection: Connection,
        on_change: Callable[[str], None],
        *,
        namespace: str = "",
        observer: ClusterObserver | None = None,
    ) -> None:
        """on_change: gets a UID, see the subclass, after another writer changed an object."""
        self._on_change = on_change
        self._sender = api_requests.ApiClient(connection, observer)
        self._store = object_store.ObjectStore(self)
        self._context = WatchContext(connection=connection, observer=observer)
        path = api_requests.collection_path(self.kind, namespace)
        self._reflector = Reflector(self._context, path, self._store, name=self.kind.key)

    async def patch(
        self, record: Record, body: Object, subresource: str = "", *, query: dict[str, str] | None = None
    ) -> None:
        """Send a merge patch, which the API server rejects if the object has changed. Does nothing if it was deleted."""
        path = api_requests.object_path(self.kind, record.namespace, record.name) + subresource
        patch = api_requests.at_version(body, record.resource_version)
        answer = await self._sender.send_existing("patch", self.kind, path, query=query, body=patch)
        # Update the cache now. The watch event may be late, and the next reconcile would write again.
        if answer is None or ("deletionTimestamp" in answer["metadata"] and not answer["metadata"].get("finalizers")):
            self.forget(record.uid)
        else:
            self.put(answer)
