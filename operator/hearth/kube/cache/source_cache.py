"""Cache of the ConfigMaps, Secrets and StackTemplates that definitions use; each is watched by name while a Stack reads it.

Beyond a limit per namespace and in total, sources share one watch. Must not know which values are read. For a Secret or
a large ConfigMap, the cache stores only a digest to detect changes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Protocol

import orjson

from hearth import supervision
from hearth.kube.cache import child_cache, object_store
from hearth.kube.cache.child_cache import WatchStatus
from hearth.kube.cache.object_store import ObjectStore
from hearth.kube.cache.shared_sources import SharedSources
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import Reflector
from hearth.kube.watch.watch_context import WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.model import errors, limits, turns, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef


class SourceListener(Protocol):
    """The part of the engine's listener that receives sources."""

    def on_source(self, ref: ObjectRef) -> None:
        """Handle a created, changed or deleted source."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """The cached state of a source."""

    uid: str
    resource_version: int
    data: Mapping[str, str] | None = field(repr=False)
    """None for a Secret and for data that is too large to store."""
    digest: bytes = b""
    """Digest of data that is not stored. It stays in this process, so it needs no key."""


class CachedSource:
    """One source and its watch."""

    def __init__(self, ref: ObjectRef, *, context: WatchContext, listener: SourceListener) -> None:
        self.ref = ref
        self.kind = well_known_kinds.SOURCE_KINDS[ref.kind]
        self._listener = listener
        self._store: ObjectStore[SourceRecord] = object_store.ObjectStore(self)
        self.watch = Reflector(
            context,
            api_requests.collection_path(self.kind, ref.namespace),
            self._store,
            name=self.kind.key,
            selector={"fieldSelector": f"metadata.name={ref.name}"},
        )

    @property
    def is_readable(self) -> bool:
        """Return whether `data` is complete, so that no request is needed."""
        newest = self.newest
        return self.watch.is_synced and (newest is None or newest.data is not None)

    @property
    def is_there(self) -> bool:
        """Return whether the object exists as far as is known."""
        return bool(self._store.records)

    @property
    def data(self) -> Mapping[str, str] | None:
        """Return the object's data, or None if it does not exist."""
        newest = self.newest
        return None if newest is None else newest.data

    @property
    def newest(self) -> SourceRecord | None:
        """Return the newest known record."""
        # During the replacement of one object by another of the same name, both may be known.
        return max(self._store.records.values(), key=lambda record: record.resource_version, default=None)

    def put(self, raw: Object) -> None:
        """Store a state from another request; notify the listener only if it differs from an earlier state."""
        self._store.record_write(raw, passed=self.watch.version)

    def parse(self, raw: Object) -> SourceRecord:
        """Return the cached part of the source."""
        metadata = raw["metadata"]
        data: Mapping[str, str] | None = well_known_kinds.find_source_data(raw, self.kind.name)
        digest = b""
        packed = orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
        # Only administrators write StackTemplates, and thousands of Stacks may read one at its change.
        is_large = len(packed) > limits.SOURCE_KEPT_BYTES and self.kind != well_known_kinds.STACK_TEMPLATE
        if self.kind == well_known_kinds.SECRET or is_large:
            digest, data = hashlib.sha256(packed).digest(), None
        if raw.get("binaryData"):
            digest += hashlib.sha256(orjson.dumps(raw["binaryData"], option=orjson.OPT_SORT_KEYS)).digest()
        return SourceRecord(
            uid=metadata["uid"], resource_version=int(metadata["resourceVersion"]), data=data, digest=digest
        )

    def replace(self, old: SourceRecord | None, new: SourceRecord | None, *, is_ours: bool) -> None:
        """Report a created, changed or deleted source."""
        is_same = old is not None and new is not None and (old.data, old.digest) == (new.data, new.digest)
        is_first_reading = is_ours and old is None
        # If one Stack's read reveals a change, its later watch event would not notify the other Stacks.
        if not is_same and not is_first_reading:
            self._listener.on_source(self.ref)

    def complete(self) -> None:
        """Complete a new list."""


class SourceCache:
    """Every source that a Stack reads."""

    def __init__(
        self,
        connection: WatchConnection,
        listener: SourceListener,
        *,
        namespace: str = "",
        options: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        """Send nothing before a source is read. namespace: the only one whose Stacks are served; "" for all."""
        self._connection = connection
        self._listener = listener
        self._server = WatchContext(connection=connection, options=options or WatchOptions(), observer=observer)
        self._sources: dict[ObjectRef, CachedSource] = {}
        """Sources with an individual watch."""
        self._counts: Counter[str] = Counter()
        """Number of individual watches by namespace."""
        self._shared = {
            kind: SharedSources(each, context=self._server, namespace=namespace, on_change=listener.on_source)
            for kind, each in well_known_kinds.SOURCE_KINDS.items()
        }
        self._sharing: set[ObjectRef] = set()
        """Sources with a shared watch."""
        self._read_by: dict[str, frozenset[ObjectRef]] = {}
        self._readers: dict[ObjectRef, set[str]] = {}
        """UIDs of the Stacks that read a source, by source."""
        self._closing: set[asyncio.Task[None]] = set()

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """Return the data of a source, and watch it if a Stack follows it.

        user: reads it live as that user, whose rights may have changed since the last time.
        Raises `ApiStatusError` with code 404 if it does not exist, and any error of the first read.
        """
        source = self._find_or_open(ref)
        if source is not None and source.is_readable and not user:
            data = source.data
            if data is None:
                raise not_found(ref)
            return data
        return well_known_kinds.find_source_data(await self._read(ref, user), ref.kind)

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """Return the binary data of a ConfigMap, in base64; watch it if a Stack follows it. Raises as `get_source` does.

        Compressed templates are large and are read only when the definition changes, so the cache stores none.
        """
        self._find_or_open(ref)
        return (await self._read(ref, user)).get("binaryData") or {}

    def _find_or_open(self, ref: ObjectRef) -> CachedSource | None:
        """Return the individually watched source; start the watch of a followed one."""
        if ref in self._readers and ref not in self._sources and ref not in self._sharing:
            self._open(ref)
        return self._sources.get(ref)

    async def _read(self, ref: ObjectRef, user: str) -> Object:
        """Request the object; store its state."""
        source = self._sources.get(ref)
        # Request it directly: a rejected watch retries and would report nothing to the user.
        path = api_requests.object_path(well_known_kinds.SOURCE_KINDS[ref.kind], ref.namespace, ref.name)
        raw: Object = await self._connection.request("GET", path, impersonate=user or None)
        if source is not None:
            source.put(raw)
        else:
            self._shared[ref.kind].put(ref, raw)
        return raw

    def find_uid(self, ref: ObjectRef) -> str:
        """Return the UID of a followed source; "" if unknown."""
        source = self._sources.get(ref)
        if source is None:
            return self._shared[ref.kind].find_uid(ref)
        newest = source.newest
        return newest.uid if newest is not None else ""

    def find_polled(self, stack_uid: str) -> list[ObjectRef]:
        """Return a Stack's sources without a watch, whose changes are noticed late; in a stable order."""
        if not any(shared.is_polling for shared in self._shared.values()):
            return []
        shared = self._sharing.intersection(self._read_by.get(stack_uid, ()))
        return sorted((ref for ref in shared if self._shared[ref.kind].is_polling), key=str)

    def follow_sources(self, stack_uid: str, refs: Collection[ObjectRef]) -> None:
        """Set all sources that a Stack reads; stop the watches of sources without a reader."""
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
        """Watch a source, individually below the limit, otherwise in the shared watch."""
        held, free = self._counts[ref.namespace], limits.SOURCE_WATCHES - len(self._sources)
        if held >= turns.find_share(held, free=free, most=limits.SOURCE_WATCHES_PER_NAMESPACE):
            self._sharing.add(ref)
            self._shared[ref.kind].follow(ref)
            if self._server.observer is not None:
                self._server.observer.on_limit("source-watches")
            return
        self._counts[ref.namespace] += 1
        source = self._sources[ref] = CachedSource(ref, context=self._server, listener=self._listener)
        source.watch.start()

    def _close(self, ref: ObjectRef) -> None:
        """Stop watching a source, if it is watched."""
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
        """Return the state of each watch."""
        return [*self._measure(), *(each for shared in self._shared.values() for each in shared.health())]

    def _measure(self) -> Iterator[WatchStatus]:
        for source in self._sources.values():
            yield child_cache.measure(source.kind.key, source.watch, objects=int(source.is_there))

    async def close(self) -> None:
        """Stop all watches; the listener receives no more calls."""
        watches = (source.watch.close() for source in self._sources.values())
        await asyncio.gather(*watches, *(shared.close() for shared in self._shared.values()), *self._closing)


def not_found(ref: ObjectRef) -> errors.ApiStatusError:
    """Create the error that the server returns for a source that does not exist."""
    plural = well_known_kinds.SOURCE_KINDS[ref.kind].plural
    details = {"name": ref.name, "kind": plural}
    message = f'{plural} "{ref.name}" not found'
    status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": message, "details": details}
    return errors.ApiStatusError(code=404, status=status)
