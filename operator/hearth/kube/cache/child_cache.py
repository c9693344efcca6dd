"""Cache of all children of one cluster, with one watch per followed kind and one index over all kinds.

A record contains only the fields that some Stack needs. A request for more fields starts a new list of the kind.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

from hearth import supervision
from hearth.kube.cache import cache_budget, object_store
from hearth.kube.cache.cache_budget import CacheBudget
from hearth.kube.cache.object_store import ObjectStore
from hearth.kube.client import api_requests, salvage
from hearth.kube.watch.reflector import (
    Reflector,
    WatchConnection,
    WatchContext,
    WatchObserver,
    WatchOptions,
    WatchStatus,
)
from hearth.model import child as child_module
from hearth.model import child_fields, errors
from hearth.model.child import Child, Object, Path
from hearth.model.kinds import Kind, Kinds
from hearth.model.sharding import WHOLE, Share
from hearth.model.signatures import Signatures

MOST_SHARED = 4096
"""Maximum interned values per kind; additional ones have hardly any duplicates."""
ALWAYS_KEPT = frozenset({("apiVersion",), ("kind",), *(("metadata", key) for key in child_fields.METADATA_KEPT)})
NOTHING: Mapping[str, tuple[Child, ...]] = MappingProxyType({})

Shared = TypeVar("Shared", bound=Hashable)


class ChildListener(Protocol):
    """The part of the engine's listener that receives children."""

    def on_child(self, stack_uid: str, resource: str) -> None:
        """Handle a created, changed or deleted child with these labels."""

    def on_synced(self, kind: Kind) -> None:
        """Handle a cache that now contains all requested fields of this kind."""


class KindCache:
    """A followed kind.

    A request for more fields starts a new list; the cache retains its data until that is complete.
    """

    def __init__(  # noqa: PLR0913 -- what all watches share, and which objects this one receives and trusts
        self,
        kind: Kind,
        *,
        context: WatchContext,
        index: ChildIndex,
        budget: CacheBudget,
        listener: ChildListener,
        signatures: Signatures | None = None,
        namespace: str = "",
        share: Share = WHOLE,
    ) -> None:
        self.kind = kind
        self._signatures = signatures
        self._server = context
        self._index = index
        self._budget = budget
        self._listener = listener
        self._namespace = namespace
        self._wanted: frozenset[Path] = frozenset()
        self._kept: frozenset[Path] = frozenset()
        self._held: frozenset[Path] | None = None
        self._shared: dict[object, object] = {}
        self._widening: Callable[[], None] | None = None
        """Function that cancels the widening."""
        self._store: ObjectStore[Child] = object_store.ObjectStore(self)
        self.forget = self._store.forget
        selector = api_requests.children_selector(share)
        self.watch = Reflector(context, self._path(), self._store, name=kind.key, selector=selector)
        self.watch.is_known = self._store.is_known
        self.watch.on_denied = lambda: self._listener.on_synced(self.kind)

    @property
    def size(self) -> int:
        """Return the number of cached objects."""
        return len(self._store.records)

    def follow(self, wanted: Collection[Path]) -> bool:
        """Return whether all objects are cached with these fields; otherwise request the missing fields."""
        more = missing(wanted, held=self._wanted)
        if more:
            self._wanted = union(self._wanted, more)
        is_held = self._held is not None and not missing(wanted, held=self._held)
        if more or not self.is_started:
            self._widen_soon()
        return is_held

    @property
    def is_started(self) -> bool:
        """Return whether the watch runs or is scheduled to start."""
        return self._widening is not None or self.watch.is_running

    def move(self, kind: Kind) -> None:
        """Watch the kind as now served (version, plural, scope)."""
        self.kind = kind
        self._list_anew()

    def list_again(self) -> None:
        """Start a new list. Until it is complete, the cache keeps its data."""
        if self.watch.is_running:
            self._list_anew()

    def put(self, raw: Object) -> Child:
        """Store the response to a write of the operator."""
        return self._store.record_write(raw, passed=self.watch.version)

    def take(self, raw: Object, *, as_of: int) -> None:
        """Store an object that a list showed at this version, unless the same or a newer state is known."""
        known = self._store.records.get(raw["metadata"]["uid"])
        if known is None or known.resource_version < int(raw["metadata"]["resourceVersion"]):
            # Until the watch passes the version of the list, only the list shows whether the object exists.
            self._store.record_write(raw, passed=self.watch.version if self.watch.version > as_of else 0)

    async def close(self) -> None:
        """Stop the watch."""
        if self._widening is not None:
            self._widening()
            self._widening = None
        await self.watch.close()

    def parse(self, raw: Object) -> Child:
        """Create the small view of an object; share the values that many objects have in common."""
        try:
            return self._parse(raw)
        except (TypeError, RecursionError):
            # The object contains parts that cannot be encoded. Continue without them, or fail for the same reason.
            pruned = salvage.prune(raw)
        self.watch.note_omission(pruned)
        return self._parse(pruned)

    def _parse(self, raw: Object) -> Child:
        metadata = raw["metadata"]
        # The response to a write is complete. Store only the parts that the watch would show, or the two views would differ.
        shown = {"metadata": metadata} if self.watch.metadata_only else raw
        omission = salvage.find_omission(raw) if salvage.OMITTED in raw else None
        known = self._store.records.get(metadata["uid"])
        made = child_module.parse_child(
            shown, kind=self.kind, paths=self._kept, signatures=self._signatures, known=known
        )
        # The child is new and has no other reference, so it can still be changed. A copy costs as much as parsing.
        object.__setattr__(made, "ownership", self._intern(made.ownership))
        object.__setattr__(made, "requires", self._intern(made.requires))
        if omission is not None:
            object.__setattr__(made, "defect", str(omission))
        self._budget.fit(made, known, shown=shown, paths=self._kept)
        return made

    def replace(self, old: Child | None, new: Child | None, *, is_ours: bool) -> None:
        """Update a created, changed or deleted child."""
        self._index.replace(old, new)
        self._budget.replace(old, new)
        if old is not None and new is not None and is_ours and new.stack_uid not in ("", old.stack_uid):
            # The Stack that wrote the object knows of the change. Notify the Stack that had it before.
            self._listener.on_child(old.stack_uid, old.resource)
        if is_ours or (old is not None and new is not None and is_same(old, new)):
            return
        for stack_uid, resource in {(each.stack_uid, each.resource) for each in (old, new) if each is not None}:
            self._listener.on_child(stack_uid, resource)

    def complete(self) -> None:
        """Complete a new list with the fields that were requested when it started."""
        is_news = self._held != self._kept
        self._held = self._kept
        if self._wanted != self._kept:
            self._widen_soon()
        if is_news:
            self._listener.on_synced(self.kind)

    def _intern(self, value: Shared) -> Shared:
        """Return the first equal value: objects made from one manifest have the same ownership."""
        if len(self._shared) >= MOST_SHARED:
            self._shared.clear()
        return cast(Shared, self._shared.setdefault(value, value))

    def _path(self) -> str:
        return api_requests.collection_path(self.kind, self._namespace)

    def _widen_soon(self) -> None:
        """Schedule a list with the requested fields.

        At start-up, a hundred Stacks request their fields within milliseconds.
        """
        if self._widening is None:
            delay = self._server.options.widen_after if self.watch.is_running else 0.0
            self._widening = supervision.call_later(delay, self._relist_with_more_fields)

    def _relist_with_more_fields(self) -> None:
        self._widening = None
        # A running list must complete first, or frequent requests would starve it. `complete` then starts the next.
        if not self.watch.is_running or self._held == self._kept:
            self._list_anew()

    def _list_anew(self) -> None:
        self._kept = self._wanted
        self._store.invalidate()
        self.watch.restart(path=self._path(), metadata_only=is_metadata(self._kept))


def is_same(old: Child, new: Child) -> bool:
    """Return whether no field in use changed; all other data of a child derives from these fields."""
    # One version is one state, no matter which fields are shown. Callers that requested more fields are notified with
    # `on_synced`.
    if old.resource_version == new.resource_version:
        # A wider watch may reveal that the same state cannot be read.
        return old.defect == new.defect
    return (
        old.packed_fields == new.packed_fields
        and (old.kind, old.stack_uid, old.hash, old.signature) == (new.kind, new.stack_uid, new.hash, new.signature)
        and old.deleting == new.deleting
        and old.finalizers == new.finalizers
        and old.ownership == new.ownership
        and old.defect == new.defect
        and old.omitted == new.omitted
    )


def is_covered(path: Path, *, by: frozenset[Path]) -> bool:
    """Return whether storing everything below the paths of `by` includes everything below `path`."""
    prefixes = (path[:length] for length in range(1, len(path) + 1))
    return any(prefix in by or prefix in ALWAYS_KEPT for prefix in prefixes)


def missing(paths: Iterable[Path], *, held: frozenset[Path]) -> frozenset[Path]:
    """Return the `paths` that `held` does not cover."""
    return frozenset(path for path in paths if not is_covered(path, by=held))


def union(held: frozenset[Path], wanted: Iterable[Path]) -> frozenset[Path]:
    """Return the union of both sets, without paths below another path of the union."""
    both = held.union(wanted)
    return frozenset(path for path in both if not is_covered(path, by=both - {path}))


def is_metadata(paths: Iterable[Path]) -> bool:
    """Whether the metadata contain all of `paths`."""
    return all(path[0] == "metadata" for path in paths)


class ChildIndex:
    """Children by Stack UID, then by resource name."""

    def __init__(self) -> None:
        self._stacks: dict[str, dict[str, tuple[Child, ...]]] = {}

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """Return the children of one Stack by resource; a live view without copying, invalid after an await."""
        resources = self._stacks.get(stack_uid)
        return NOTHING if resources is None else MappingProxyType(resources)

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """Return the children of one resource."""
        resources = self._stacks.get(stack_uid)
        return () if resources is None else resources.get(resource, ())

    def replace(self, old: Child | None, new: Child | None) -> None:
        """Replace `old` with `new`; either may be None, and their labels may differ."""
        if old is not None and new is not None and place(old) == place(new):
            resources, key = self._stacks[new.stack_uid], new.index_key
            siblings = resources[key]
            resources[key] = tuple(new if child is old else child for child in siblings)
            return
        if old is not None:
            self._remove(old)
        # A child has no Stack label if another client removed it before the operator's own write.
        if new is not None and new.stack_uid:
            resources = self._stacks.setdefault(new.stack_uid, {})
            resources[new.index_key] = (*resources.get(new.index_key, ()), new)

    def _remove(self, old: Child) -> None:
        resources = self._stacks.get(old.stack_uid)
        if resources is None:
            return
        key = old.index_key
        rest = tuple(child for child in resources.get(key, ()) if child is not old)
        if rest:
            resources[key] = rest
        else:
            resources.pop(key, None)
            if not resources:
                del self._stacks[old.stack_uid]


def place(child: Child) -> tuple[str, str]:
    """Return the index position from the signed labels of the child."""
    return child.stack_uid, child.index_key


class ChildCache:
    """The children of all Stacks. Use in one event loop, which runs the watches until `close`."""

    def __init__(  # noqa: PLR0913 -- what all watches share, and which objects they receive
        self,
        connection: WatchConnection,
        kinds: Kinds,
        listener: ChildListener,
        *,
        namespace: str = "",
        namespaced: Collection[str] = (),
        share: Share = WHOLE,
        options: WatchOptions | None = None,
        observer: WatchObserver | None = None,
        payer: str = "",
    ) -> None:
        """Prepare; send nothing before a kind is followed.

        namespace: the only one whose objects are watched; "" for all. namespaced: the kinds (`Kind.group`) with a watch
        for each namespace that needs them, and none for all; share: the shard of Stacks whose children are watched;
        payer: see `CacheBudget`.
        """
        self.server = WatchContext(connection=connection, options=options or WatchOptions(), observer=observer)
        self._kinds = kinds
        self._listener = listener
        self._namespace = namespace
        self._share = share
        self._index = ChildIndex()
        self.children, self.children_of = self._index.children, self._index.children_of
        on_limit = observer.on_limit if observer is not None else lambda _limit: None
        self._budget = cache_budget.CacheBudget(on_limit, payer=payer)
        self.count_bytes = self._budget.count_bytes
        self._namespaced = frozenset(namespaced)
        self._followed: dict[tuple[str, str], KindCache] = {}
        """The caches by kind and namespace; "" for all namespaces."""
        self._generation = kinds.generation
        self._signatures: Signatures | None = None

    def trust(self, signatures: Signatures) -> None:
        """Identify children by these signatures; call before any kind is followed."""
        self._signatures = signatures

    def follow(self, kind: Kind, paths: Collection[Path], *, namespace: str = "") -> bool:
        """Cache all labeled objects of this kind with these fields; return whether the list is complete.

        namespace: the only one where a kind with namespaced watches is followed. If they are not complete, the listener
        receives `on_synced` later. A kind that is served in several versions is followed in the first requested one, as
        long as that is served.
        """
        if self._kinds.generation != self._generation:
            self.on_kinds()
        cache = self._get_cache(kind, namespace)
        if cache.kind != kind and self._kinds.find(cache.kind.api_version, cache.kind.name) is None:
            cache.move(kind)
        return cache.follow(paths)

    def find_denial(self, kind: Kind, *, namespace: str = "") -> str:
        """Return the API server's message if it denies the watch of a followed kind, or "" if no denial is known."""
        cache = self._followed.get(self._find_key(kind, namespace))
        return cache.watch.denial if cache is not None else ""

    def is_failing(self, kind: Kind, *, namespace: str = "") -> bool:
        """Return whether the last attempt to list a followed kind failed, other than by a denial."""
        cache = self._followed.get(self._find_key(kind, namespace))
        return cache is not None and cache.watch.is_failing

    def put(self, raw: Object, kind: Kind) -> Child:
        """Store the response to a write of the operator; notify no listener, neither now nor on its watch event.

        Raises `Unreachable` if the response has no object identity; no real API server sends that.
        """
        if not salvage.has_identity(raw) or not salvage.is_version(raw["metadata"].get("resourceVersion")):
            raise errors.Unreachable(f"the response is not a {kind.name}: it has no name, UID or resourceVersion")
        cache = self._get_cache(kind, raw["metadata"].get("namespace", ""))
        if not cache.is_started:
            # The cache must not contain an object without a watch for it.
            cache.follow(())
        return cache.put(raw)

    def forget(self, child: Child) -> None:
        """Drop exactly this object at once and permanently, because the server confirmed its deletion."""
        self._get_cache(child.kind, child.namespace).forget(child.uid)

    def take_list(self, found: Sequence[Object], *, kind: Kind, stack_uid: str, as_of: int) -> None:
        """Store all objects of one kind and Stack from a list at this version; notify no listener.

        A kind that is not followed stays so: the cache must not contain an object without a watch for it.
        """
        shown = {raw["metadata"]["uid"] for raw in found}
        for child in list(itertools.chain.from_iterable(self._index.children(stack_uid).values())):
            # Keep objects newer than the list, because they were written after it.
            if child.kind.key == kind.key and child.uid not in shown and child.resource_version <= as_of:
                self.forget(child)
        for raw in found:
            cache = self._followed.get(self._find_key(kind, raw["metadata"].get("namespace", "")))
            if cache is not None:
                cache.take(raw, as_of=as_of)

    def on_kinds(self) -> None:
        """Handle a change of the served kinds: retry kinds that were not served, and update kinds with a new path."""
        self._generation = self._kinds.generation
        for cache in self._followed.values():
            found = self._kinds.find(cache.kind.api_version, cache.kind.name)
            if found is not None and found != cache.kind:
                cache.move(found)
            else:
                cache.watch.retry_now()

    def list_again(self) -> None:
        """List every followed kind again, because another cluster may answer."""
        for cache in self._followed.values():
            cache.list_again()

    async def wait_synced(self) -> None:
        """Wait until every followed kind has been listed once."""
        await asyncio.gather(*(cache.watch.wait_synced() for cache in list(self._followed.values())))

    def health(self) -> list[WatchStatus]:
        """Return the state of each watch."""
        return [cache.watch.measure(objects=cache.size) for cache in self._followed.values()]

    async def close(self) -> None:
        """Stop all watches; the listener receives no more calls."""
        await asyncio.gather(*(cache.close() for cache in self._followed.values()))

    def find_watched_namespace(self, kind: Kind, namespace: str) -> str:
        """Return the namespace whose objects of this kind are watched for a Stack of `namespace`; "" for all."""
        return namespace if kind.key in self._namespaced and kind.namespaced else self._namespace

    def _find_key(self, kind: Kind, namespace: str) -> tuple[str, str]:
        return kind.key, self.find_watched_namespace(kind, namespace)

    def _get_cache(self, kind: Kind, namespace: str) -> KindCache:
        key = self._find_key(kind, namespace)
        cache = self._followed.get(key)
        if cache is None:
            cache = self._followed[key] = KindCache(
                kind,
                context=self.server,
                index=self._index,
                budget=self._budget,
                listener=self._listener,
                signatures=self._signatures,
                namespace=key[1],
                share=self._share,
            )
        return cache
