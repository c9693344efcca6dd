"""The ConfigMaps and Secrets that definitions are read from: each is watched by its name for as long as a Stack reads it.

Beyond a cap per namespace and in all, sources share one watch. Must not know what is read out of them. Of a Secret, and of a
large ConfigMap, nothing is kept but a digest that tells a change.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from hearth import supervision
from hearth.kube.cache import child_cache, object_store
from hearth.kube.cache.child_cache import WatchStatus
from hearth.kube.cache.object_store import ObjectStore
from hearth.kube.cache.shared_sources import SharedSources
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import Reflector, WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
SECRET = Kind(group="", version="v1", name="Secret", plural="secrets", namespaced=True)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (CONFIG_MAP, SECRET)}


class SourceListener(Protocol):
    """The part of the engine's listener that hears of sources."""

    def on_source(self, ref: ObjectRef) -> None:
        """It came, changed or went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """What is kept of a source."""

    uid: str
    resource_version: int
    data: Mapping[str, str] | None = field(repr=False)
    """None of a Secret, and of what is too large to be kept."""
    digest: bytes = b""
    """Of data that is not kept. Stays in this process, so it needs no key."""


class CachedSource:
    """One ConfigMap or Secret and its watch."""

    def __init__(self, ref: ObjectRef, *, server: WatchContext, listener: SourceListener) -> None:
        self.ref = ref
        self.kind = KINDS[ref.kind]
        self._listener = listener
        self._store: ObjectStore[SourceRecord] = object_store.ObjectStore(self)
        self.watch = Reflector(
            server,
            api_requests.collection_path(self.kind, ref.namespace),
            self._store,
            name=self.kind.key,
            selector={"fieldSelector": f"metadata.name={ref.name}"},
        )

    @property
    def is_readable(self) -> bool:
        """Whether `data` is all of what it says, so that nobody need be asked."""
        newest = self.newest
        return self.watch.is_synced and (newest is None or newest.data is not None)

    @property
    def is_there(self) -> bool:
        """Whether there is such an object, as far as is known."""
        return bool(self._store.records)

    @property
    def data(self) -> Mapping[str, str] | None:
        """What it says, or None where it is not there."""
        newest = self.newest
        return None if newest is None else newest.data

    @property
    def newest(self) -> SourceRecord | None:
        """What is known of it last."""
        # While one object is replaced by the next of its name, both may be known.
        return max(self._store.records.values(), key=lambda record: record.resource_version, default=None)

    def put(self, raw: Object) -> None:
        """Take in what was read elsewhere; told only to those who have read something else."""
        self._store.record_write(raw, passed=self.watch.version)

    def parse(self, raw: Object) -> SourceRecord:
        """What is kept."""
        metadata = raw["metadata"]
        data: Mapping[str, str] | None = raw.get("data") or {}
        digest = b""
        packed = orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
        if self.kind == SECRET or len(packed) > limits.SOURCE_KEPT_BYTES:
            digest, data = hashlib.sha256(packed).digest(), None
        return SourceRecord(
            uid=metadata["uid"], resource_version=int(metadata["resourceVersion"]), data=data, digest=digest
        )

    def replace(self, old: SourceRecord | None, new: SourceRecord | None, *, is_ours: bool) -> None:
        """It came, changed or went."""
        is_same = old is not None and new is not None and (old.data, old.digest) == (new.data, new.digest)
        is_first_reading = is_ours and old is None
        # A change that one Stack's reading brings to light would otherwise be no news to the others any more.
        if not is_same and not is_first_reading:
            self._listener.on_source(self.ref)

    def complete(self) -> None:
        """A fresh list is there."""


class SourceCache:
    """Every source that somebody reads."""

    def __init__(
        self,
        connection: WatchConnection,
        listener: SourceListener,
        *,
        namespace: str = "",
        rules: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        """Nothing is asked before a source is read. namespace: the only one whose Stacks are served; "" for all."""
        self._connection = connection
        self._listener = listener
        self._server = WatchContext(connection=connection, rules=rules or WatchOptions(), observer=observer)
        self._sources: dict[ObjectRef, CachedSource] = {}
        """Those with a watch of their own."""
        self._counts: Counter[str] = Counter()
        """By namespace how many these are."""
        self._shared = {
            kind: SharedSources(each, server=self._server, namespace=namespace, on_change=listener.on_source)
            for kind, each in KINDS.items()
        }
        self._sharing: set[ObjectRef] = set()
        """Those that share a watch."""
        self._read_by: dict[str, frozenset[ObjectRef]] = {}
        self._readers: dict[ObjectRef, set[str]] = {}
        """By source the UIDs of the Stacks that read it."""
        self._closing: set[asyncio.Task[None]] = set()

    async def get_source(self, ref: ObjectRef) -> Mapping[str, str]:
        """The data of that ConfigMap or Secret, which is watched from now on where somebody follows it.

        Raises `Refused` with code 404 where there is none, and whatever the first reading of it raises.
        """
        if ref in self._readers and ref not in self._sources and ref not in self._sharing:
            self._open(ref)
        source = self._sources.get(ref)
        if source is not None and source.is_readable:
            data = source.data
            if data is None:
                raise not_found(ref)
            return data
        # Asked for directly, since a watch that is refused goes on trying and would tell the user nothing.
        raw = await self._connection.request("GET", api_requests.object_path(KINDS[ref.kind], ref.namespace, ref.name))
        if source is not None:
            source.put(raw)
        else:
            self._shared[ref.kind].put(ref, raw)
        return raw.get("data") or {}

    def find_uid(self, ref: ObjectRef) -> str:
        """Of a source that is followed; "" where it is not known."""
        source = self._sources.get(ref)
        if source is None:
            return self._shared[ref.kind].find_uid(ref)
        newest = source.newest
        return newest.uid if newest is not None else ""

    def find_polled(self, stack_uid: str) -> list[ObjectRef]:
        """Of what a Stack reads the sources without a watch, whose changes are noticed late; in a stable order."""
        if not any(shared.is_polling for shared in self._shared.values()):
            return []
        shared = self._sharing.intersection(self._read_by.get(stack_uid, ()))
        return sorted((ref for ref in shared if self._shared[ref.kind].is_polling), key=str)

    def follow_sources(self, stack_uid: str, refs: Collection[ObjectRef]) -> None:
        """These are all that a Stack reads; the watches of those that no Stack reads any longer end."""
        before, after = self._read_by.pop(stack_uid, frozenset()), frozenset(refs)
        if after:
            self._read_by[stack_uid] = after
        for ref in after - before:
            self._readers.setdefault(ref, set()).add(stack_uid)
        for ref in before - after:
            self._readers[ref].discard(stack_uid)
            if not self._readers[ref]:
                del self._readers[ref]
                self._close(ref)

    def _open(self, ref: ObjectRef) -> None:
        """Watch a source: by itself while there is room for that, else with others."""
        is_full = len(self._sources) >= limits.SOURCE_WATCHES
        if is_full or self._counts[ref.namespace] >= limits.SOURCE_WATCHES_PER_NAMESPACE:
            self._sharing.add(ref)
            self._shared[ref.kind].follow(ref)
            if self._server.observer is not None:
                self._server.observer.on_limit("source-watches")
            return
        self._counts[ref.namespace] += 1
        source = self._sources[ref] = CachedSource(ref, server=self._server, listener=self._listener)
        source.watch.start()

    def _close(self, ref: ObjectRef) -> None:
        """Watch a source no longer, if it ever was watched."""
        if ref in self._sharing:
            self._sharing.discard(ref)
            self._shared[ref.kind].unfollow(ref)
        source = self._sources.pop(ref, None)
        if source is not None:
            self._counts[ref.namespace] -= 1
            if not self._counts[ref.namespace]:
                del self._counts[ref.namespace]
            task = supervision.spawn("source", source.watch.close, name="end of the watch of a source")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def health(self) -> list[WatchStatus]:
        """How each watch is doing."""
        return [*self._measure(), *(each for shared in self._shared.values() for each in shared.health())]

    def _measure(self) -> Iterator[WatchStatus]:
        for source in self._sources.values():
            yield child_cache.measure(source.kind.key, source.watch, objects=int(source.is_there))

    async def close(self) -> None:
        """End all watches; the listener hears nothing more."""
        watches = (source.watch.close() for source in self._sources.values())
        await asyncio.gather(*watches, *(shared.close() for shared in self._shared.values()), *self._closing)


def not_found(ref: ObjectRef) -> errors.ApiStatusError:
    """What the server would say about a source that is not there."""
    plural = KINDS[ref.kind].plural
    details = {"name": ref.name, "kind": plural}
    message = f'{plural} "{ref.name}" not found'
    status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": message, "details": details}
    return errors.ApiStatusError(code=404, status=status)
