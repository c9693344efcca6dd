"""All Stacks of the home cluster, kept small: what passes need of them, unparsed until asked for.

Must not know what a Stack means.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import orjson

from hearth.engine.ports import StackObject
from hearth.kube import cache, requests, store
from hearth.kube.cache import Health
from hearth.kube.store import Store
from hearth.kube.watch import Connection, Observer, Rules, Server, Watch
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind

STACK = Kind(group=names.GROUP, version=names.VERSION, name="Stack", plural="stacks", namespaced=True)


class Listener(Protocol):
    """The part of the engine's listener that hears of Stacks."""

    def on_stack(self, uid: str) -> None:
        """A Stack came, changed or went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRecord:
    """A Stack as it is kept; a template as JSON takes a fifth of the memory that it takes parsed."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: int
    deleting: bool
    finalizers: tuple[str, ...]
    annotations: tuple[tuple[str, str], ...]
    spec: bytes
    status: bytes


class StackCache:
    """Every Stack, or those of one namespace. Its watch runs from `start` to `close`."""

    def __init__(
        self,
        connection: Connection,
        listener: Listener,
        *,
        namespace: str = "",
        rules: Rules | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._listener = listener
        self._store: Store[StackRecord] = store.Store(self)
        server = Server(connection=connection, rules=rules or Rules(), observer=observer)
        self._watch = Watch(server, requests.collection_path(STACK, namespace), self._store, name=STACK.key)

    def start(self) -> None:
        """Begin to watch."""
        self._watch.start()

    async def close(self) -> None:
        """End; the listener hears nothing more."""
        await self._watch.close()

    async def wait_synced(self) -> None:
        """Until all Stacks were listed once."""
        await self._watch.wait_synced()

    def health(self) -> list[Health]:
        """How the watch is doing."""
        return [cache.measure(STACK.key, self._watch, objects=len(self._store.records))]

    def find_stack(self, uid: str) -> StackObject | None:
        """The Stack, parsed anew at each call; None once it is gone."""
        record = self._store.records.get(uid)
        return None if record is None else make_stack(record)

    def stacks(self) -> Collection[str]:
        """The UIDs of all Stacks."""
        return self._store.records.keys()

    def put(self, raw: Object) -> StackObject:
        """Take in the answer to a write of our own; nobody is told, neither now nor when its event comes."""
        return make_stack(self._store.put(raw, passed=self._watch.version))

    def forget(self, uid: str) -> None:
        """Our removal of the finalizer was answered with the end of the Stack."""
        self._store.forget(uid)

    def parse(self, raw: Object) -> StackRecord:
        """What is kept of a Stack."""
        metadata = raw["metadata"]
        return StackRecord(
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
            generation=metadata.get("generation", 0),
            resource_version=int(metadata["resourceVersion"]),
            deleting="deletionTimestamp" in metadata,
            finalizers=tuple(metadata.get("finalizers") or ()),
            annotations=tuple((metadata.get("annotations") or {}).items()),
            spec=orjson.dumps(raw.get("spec") or {}),
            status=orjson.dumps(raw.get("status") or {}),
        )

    def replace(self, old: StackRecord | None, new: StackRecord | None, *, is_ours: bool) -> None:
        """A Stack came, changed or went."""
        either = new or old
        if either is None or is_ours or (old is not None and new is not None and is_same(old, new)):
            return
        self._listener.on_stack(either.uid)

    def complete(self) -> None:
        """A fresh list is there; `wait_synced` tells whoever waits."""


def make_stack(record: StackRecord) -> StackObject:
    """The Stack as the engine sees it; its spec and status are the caller's own."""
    return StackObject(
        name=record.name,
        namespace=record.namespace,
        uid=record.uid,
        generation=record.generation,
        resource_version=record.resource_version,
        deleting=record.deleting,
        finalizers=record.finalizers,
        annotations=dict(record.annotations),
        spec=orjson.loads(record.spec),
        status=orjson.loads(record.status),
    )


def is_same(old: StackRecord, new: StackRecord) -> bool:
    """Whether nothing but the resourceVersion (and what is not kept) differs; the generation speaks for the spec."""
    return (
        old.generation == new.generation
        and old.status == new.status
        and old.annotations == new.annotations
        and old.finalizers == new.finalizers
        and old.deleting == new.deleting
    )
