"""Cache of the ConfigMaps, Secrets and StackTemplates that definitions use. Watches each by name while it is in use.

There is a limit on these watches per namespace and in total. Additional sources share one metadata watch per kind, or
are polled if that watch is denied. For a Secret or a large ConfigMap, the cache stores only the version.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any

import orjson
import structlog

from hearth import supervision
from hearth.kube.cache import object_store
from hearth.kube.cache.object_store import ObjectStore
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import (
    METADATA,
    Reflector,
    WatchConnection,
    WatchContext,
    WatchObserver,
    WatchOptions,
    WatchStatus,
)
from hearth.kube.watch.watch_errors import WatchEndReason
from hearth.model import errors, limits, names, turns, value_class, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.well_known_kinds import SourceData

log = structlog.get_logger(__name__)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """The cached state of a source."""

    uid: str
    resource_version: int
    stack_uid: str = ""
    """The Stack that created it, according to its labels; "" for none."""
    data: Mapping[str, str] | None = field(repr=False)
    """None for a Secret and for data that is too large to store."""


class CachedSource:
    """One source and its watch."""

    def __init__(self, ref: ObjectRef, *, context: WatchContext, on_change: Callable[[ObjectRef], None]) -> None:
        self.ref = ref
        self.kind = well_known_kinds.SOURCE_KINDS[ref.kind]
        self._on_change = on_change
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
        """Return whether the newest data are known, so that no request is needed."""
        newest = self.newest
        return self.watch.is_synced and (newest is None or newest.data is not None)

    @property
    def newest(self) -> SourceRecord | None:
        """Return the newest known record."""
        # During the replacement of one object by another with the same name, both may be known.
        return max(self._store.records.values(), key=lambda record: record.resource_version, default=None)

    def put(self, raw: Object) -> None:
        """Store a state from another request; report it only if it differs from an earlier state."""
        self._store.record_write(raw, passed=self.watch.version)

    def parse(self, raw: Object) -> SourceRecord:
        """Return the cached part of the source."""
        metadata = raw["metadata"]
        data: Mapping[str, str] | None = well_known_kinds.find_source_data(raw, self.kind.name)
        # StackTemplates have no limit, because only administrators write them, and thousands of Stacks may read one
        # when it changes.
        is_large = self.kind != well_known_kinds.STACK_TEMPLATE and len(orjson.dumps(data)) > limits.SOURCE_KEPT_BYTES
        if self.kind == well_known_kinds.SECRET or is_large:
            data = None
        return SourceRecord(
            uid=metadata["uid"],
            resource_version=int(metadata["resourceVersion"]),
            stack_uid=find_stack_uid(metadata),
            data=data,
        )

    def replace(self, old: SourceRecord | None, new: SourceRecord | None, *, is_ours: bool) -> None:
        """Report a created, changed or deleted source."""
        # Report a new version with the same data too, because readers that wait for a change compare versions.
        is_same = old is not None and new is not None and old.resource_version == new.resource_version
        is_first_reading = is_ours and old is None
        # If one Stack's read reveals a change, its later watch event would not notify the other Stacks.
        if not is_same and not is_first_reading:
            self._on_change(self.ref)

    def complete(self) -> None:
        """Complete a new list."""


class SourceCache:
    """All sources that Stacks read."""

    def __init__(
        self,
        connection: WatchConnection,
        on_change: Callable[[ObjectRef], None],
        *,
        namespace: str = "",
        options: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        """Create an empty cache. It sends no requests until a source is read.

        on_change: gets a created, changed or deleted source; namespace: the only one whose Stacks are served, "" for all.
        """
        self._connection = connection
        self._on_change = on_change
        self._server = WatchContext(connection=connection, options=options or WatchOptions(), observer=observer)
        self._sources: dict[ObjectRef, CachedSource] = {}
        """Sources with an individual watch."""
        self._counts: Counter[str] = Counter()
        """Number of individual watches by namespace."""
        self._shared = {
            kind: SharedSources(each, context=self._server, namespace=namespace, on_change=on_change)
            for kind, each in well_known_kinds.SOURCE_KINDS.items()
        }
        self._sharing: set[ObjectRef] = set()
        """Sources with a shared watch."""
        self._read_by: dict[str, frozenset[ObjectRef]] = {}
        self._readers: dict[ObjectRef, set[str]] = {}
        """UIDs of the Stacks that read a source, by source."""
        self._closing: set[asyncio.Task[None]] = set()

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> SourceData:
        """Return the data of a source, and watch it if a Stack follows it.

        user: if given, read the source from the API server as that user, whose rights may have changed.
        Raises `ApiStatusError` with code 404 if it does not exist, and any error of the first read.
        """
        source = self._find_or_open(ref)
        if source is not None and source.is_readable and not user:
            newest = source.newest
            if newest is None or newest.data is None:
                raise not_found(ref)
            return well_known_kinds.make_source_data(newest.data, newest.resource_version)
        return well_known_kinds.find_source_data(await self._read(ref, user), ref.kind)

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> SourceData:
        """Return the binary data of a ConfigMap, in base64; watch it if a Stack follows it. Raises as `get_source` does.

        Compressed templates are large and are read only when the definition changes, so the cache stores none.
        """
        self._find_or_open(ref)
        return well_known_kinds.find_source_data(await self._read(ref, user), ref.kind, is_binary=True)

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
        """Return the UID of a followed source, or "" if unknown."""
        newest = self._find_newest(ref)
        return newest.uid if newest is not None else ""

    def find_creators(self, stack_uid: str) -> frozenset[str]:
        """Return the Stacks that created the sources of a Stack, by UID, according to labels."""
        found = map(self._find_newest, self._read_by.get(stack_uid, ()))
        return frozenset(newest.stack_uid for newest in found if newest is not None and newest.stack_uid)

    def _find_newest(self, ref: ObjectRef) -> SourceRecord | Version | None:
        """Return the last known state of a followed source, or None if it is unknown or does not exist."""
        source = self._sources.get(ref)
        return source.newest if source is not None else self._shared[ref.kind].find_version(ref)

    def find_polled(self, stack_uid: str) -> list[ObjectRef]:
        """Return a Stack's sources without a watch, whose changes are detected with a delay, in a stable order."""
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
        source = self._sources[ref] = CachedSource(ref, context=self._server, on_change=self._on_change)
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
        single = [each.watch.measure(objects=int(each.newest is not None)) for each in self._sources.values()]
        return [*single, *(each for shared in self._shared.values() for each in shared.health())]

    async def close(self) -> None:
        """Stop all watches and reports."""
        watches = (source.watch.close() for source in self._sources.values())
        await asyncio.gather(*watches, *(shared.close() for shared in self._shared.values()), *self._closing)


def not_found(ref: ObjectRef) -> errors.ApiStatusError:
    """Create the error that the server returns for a source that does not exist."""
    plural = well_known_kinds.SOURCE_KINDS[ref.kind].plural
    details = {"name": ref.name, "kind": plural}
    message = f'{plural} "{ref.name}" not found'
    status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": message, "details": details}
    return errors.ApiStatusError(code=404, status=status)


@value_class.dataclass(frozen=True, slots=True)
class Version:
    """The stored version of an existing source."""

    uid: str
    number: int
    """The source's resourceVersion."""
    stack_uid: str = ""
    """See `SourceRecord`."""


class SharedSources:
    """Sources of one kind without an individual watch; also the handler of the shared watch."""

    def __init__(
        self, kind: Kind, *, context: WatchContext, namespace: str, on_change: Callable[[ObjectRef], None]
    ) -> None:
        """Create a watch that the first followed source starts. namespace: the only one that is served; "" for all."""
        self.is_polling = False
        """Whether only polling detects changes."""
        self._kind = kind
        self._on_change = on_change
        self._connection = context.connection
        self._known: dict[ObjectRef, Version | None] = {}
        """The version of each followed source, or None if no such object is known."""
        self._shown: set[ObjectRef] = set()
        self._cancel_timer: Callable[[], None] = lambda: None
        self._running: set[asyncio.Task[None]] = set()
        path = api_requests.collection_path(kind, namespace)
        self._reflector = Reflector(context, path, self, name=kind.key, metadata_only=True)
        self._reflector.on_end = self._on_end

    def follow(self, ref: ObjectRef) -> None:
        """Report changes of a source; if the watch already runs, start with the next state that is read."""
        self._known.setdefault(ref, None)
        if not self._reflector.is_running:
            self._reflector.start()

    def unfollow(self, ref: ObjectRef) -> None:
        """Stop reporting changes of a source."""
        self._known.pop(ref, None)
        if not self._known and self._reflector.is_running:
            self._run(self._rest)

    def put(self, ref: ObjectRef, raw: Object) -> None:
        """Store a state that was read; report it only if it differs from an earlier one."""
        if ref not in self._known:
            return
        before, after = self._known[ref], find_version(raw)
        if before is None or before.number < after.number:
            self._known[ref] = after
            if before is not None:
                self._on_change(ref)

    def find_version(self, ref: ObjectRef) -> Version | None:
        """Return the last known version of a source, or None if it is unknown."""
        return self._known.get(ref)

    def health(self) -> list[WatchStatus]:
        """Return the state of the watch."""
        if not self._reflector.is_running:
            return []
        objects = sum(version is not None for version in self._known.values())
        return [self._reflector.measure(objects=objects)]

    async def close(self) -> None:
        """Stop the watch and all reports."""
        self._stop_polling()
        for task in self._running:
            task.cancel()
        await asyncio.gather(self._reflector.close(), *self._running, return_exceptions=True)

    def on_list_started(self) -> None:
        """Start a new list."""
        self._shown = set()

    def on_object(self, raw: Object) -> None:
        """Handle an existing object in this version; ignore sources that are not followed."""
        ref = self._ref(raw)
        if ref in self._known:
            self._shown.add(ref)
            self._note(ref, find_version(raw))

    def on_deleted(self, raw: Object) -> None:
        """Handle a deleted object, unless another object with the same name exists."""
        ref, version = self._ref(raw), self._known.get(self._ref(raw))
        if version is not None and version.uid == raw["metadata"]["uid"]:
            self._note(ref, None)

    def on_synced(self, version: int | None) -> None:
        """Drop sources that the list did not show; if versions are invalid, report all sources as changed."""
        self._stop_polling()
        for ref in [ref for ref, known in self._known.items() if known is not None]:
            if version is None or ref not in self._shown:
                self._note(ref, None)

    def _on_end(self, reason: WatchEndReason) -> None:
        """Poll from now on if the watch is denied."""
        if reason is WatchEndReason.FORBIDDEN and not self.is_polling:
            log.warning("sources are polled: the operator is not allowed to watch their kind", kind=self._kind.key)
            self.is_polling = True
            self._poll_later()
            # The Stacks that read these sources report the polling.
            for ref in list(self._known):
                self._on_change(ref)

    def _ref(self, raw: Object) -> ObjectRef:
        metadata = raw["metadata"]
        return ObjectRef(group="", kind=self._kind.name, namespace=metadata["namespace"], name=metadata["name"])

    def _note(self, ref: ObjectRef, version: Version | None) -> None:
        """Record the version and report a difference; ignore an older version, which was read before."""
        known = self._known[ref]
        if known == version or (known is not None and version is not None and version.number < known.number):
            return
        self._known[ref] = version
        self._on_change(ref)

    async def _rest(self) -> None:
        """Stop the watch unless a source was followed in the meantime."""
        if not self._known:
            self._stop_polling()
            await self._reflector.close()

    def _poll_later(self) -> None:
        self._cancel_timer = supervision.call_later(limits.SOURCE_POLL, lambda: self._run(self._poll), where="source")

    def _stop_polling(self) -> None:
        self.is_polling = False
        self._cancel_timer()

    async def _poll(self) -> None:
        """Check each source once, and schedule the next poll."""
        try:
            await self._look_at_all()
        finally:
            if self.is_polling:
                self._poll_later()

    async def _look_at_all(self) -> None:
        """Check the sources with one request at a time, which limits the load for any number of sources."""
        for ref in list(self._known):
            path = api_requests.object_path(self._kind, ref.namespace, ref.name)
            try:
                version = find_version(await self._connection.request("GET", path, accept=METADATA))
            except errors.ApiStatusError as refused:
                if not refused.is_not_found:
                    continue
                version = None
            except errors.Unreachable:
                continue
            if ref in self._known:
                self._note(ref, version)

    def _run(self, work: supervision.Work) -> None:
        task = supervision.spawn("source", work, name=f"sources of kind {self._kind.name}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def find_version(raw: Object) -> Version:
    """Return the version of an object."""
    metadata = raw["metadata"]
    return Version(metadata["uid"], int(metadata["resourceVersion"]), find_stack_uid(metadata))


def find_stack_uid(metadata: Mapping[str, Any]) -> str:
    """Return the UID of the Stack that created an object, according to its labels; "" for none."""
    return str((metadata.get("labels") or {}).get(names.LABEL_STACK_UID, ""))
