"""Cache of all children of one cluster: a shared watch per followed kind, and one index over all kinds.

Knows which kinds are followed. Must not know what children mean or which component needs them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Mapping, Sequence

from hearth.kube.cache import cache_budget, kind_cache
from hearth.kube.cache.kind_cache import ChildListener, KindCache
from hearth.kube.client import salvage
from hearth.kube.watch.reflector import Reflector
from hearth.kube.watch.watch_context import WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.model import errors, value_class
from hearth.model.child import Child, Object, Path
from hearth.model.kinds import Kind, Kinds
from hearth.model.sharding import WHOLE, Share
from hearth.model.signatures import Signatures


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WatchStatus:
    """The state of one watch."""

    kind: str
    """`Kind.group`."""
    objects: int
    is_synced: bool
    is_answered: bool
    """Whether the server has answered an attempt, including with a rejection."""
    restarts: Mapping[str, int]
    """Number of restarts by reason."""
    silence: float | None
    """Seconds since the last data from the server or the end of the last attempt to reach it; None before the first."""


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
    ) -> None:
        """Prepare; send nothing before a kind is followed.

        namespace: the only one whose objects are watched; "" for all. namespaced: the kinds (`Kind.group`) with a watch
        for each namespace in which they are followed, and none for all; share: the shard of Stacks whose children are
        watched.
        """
        self.server = WatchContext(connection=connection, options=options or WatchOptions(), observer=observer)
        self._kinds = kinds
        self._listener = listener
        self._namespace = namespace
        self._share = share
        self._index = kind_cache.ChildIndex()
        self._budget = cache_budget.CacheBudget(observer.on_limit if observer is not None else lambda _limit: None)
        self._namespaced = frozenset(namespaced)
        self._followed: dict[tuple[str, str], KindCache] = {}
        """By kind and namespace, "" for all."""
        self._generation = kinds.generation
        self._signatures: Signatures | None = None

    def trust(self, signatures: Signatures) -> None:
        """Identify children by these signatures; call before any kind is followed."""
        self._signatures = signatures

    def follow(self, kind: Kind, paths: Collection[Path], *, namespace: str = "") -> bool:
        """Cache all labeled objects of this kind with these fields; return whether they are complete.

        namespace: the only one in which a kind with namespaced watches is followed. If they are not complete, the listener receives `on_synced` later. A kind that is served in several versions is followed in the
        first requested one, as long as that is served.
        """
        if self._kinds.generation != self._generation:
            self.on_kinds()
        cache = self._get_cache(kind, namespace)
        if cache.kind != kind and self._kinds.find(cache.kind.api_version, cache.kind.name) is None:
            cache.move(kind)
        return cache.follow(paths)

    def find_denial(self, kind: Kind, *, namespace: str = "") -> str:
        """Return the API server's message if it denies the watch of a followed kind; "" if no denial is known."""
        cache = self._followed.get(self._find_key(kind, namespace))
        return cache.watch.denial if cache is not None else ""

    def is_failing(self, kind: Kind, *, namespace: str = "") -> bool:
        """Return whether the last attempt to list a followed kind failed, other than by a denial."""
        cache = self._followed.get(self._find_key(kind, namespace))
        return cache is not None and cache.watch.is_failing

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """Return all cached objects of this Stack by resource; a live view that is invalid after an await."""
        return self._index.children(stack_uid)

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """Return all cached objects of one resource."""
        return self._index.children_of(stack_uid, resource)

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
            # An object newer than the list was written after it.
            if child.kind.key == kind.key and child.uid not in shown and child.resource_version <= as_of:
                self.forget(child)
        for raw in found:
            cache = self._followed.get(self._find_key(kind, raw["metadata"].get("namespace", "")))
            if cache is not None:
                cache.take(raw, as_of=as_of)

    def on_kinds(self) -> None:
        """Handle a change of the served kinds: retry kinds that were absent and update those that moved."""
        self._generation = self._kinds.generation
        for cache in self._followed.values():
            found = self._kinds.find(cache.kind.api_version, cache.kind.name)
            if found is not None and found != cache.kind:
                cache.move(found)
            else:
                cache.watch.retry_now()

    def list_again(self) -> None:
        """List every followed kind again, because the server may be that of another cluster."""
        for cache in self._followed.values():
            cache.list_again()

    async def wait_synced(self) -> None:
        """Wait until every followed kind has been listed once."""
        await asyncio.gather(*(cache.watch.wait_synced() for cache in list(self._followed.values())))

    def health(self) -> list[WatchStatus]:
        """Return the state of each watch."""
        return [measure(cache.kind.key, cache.watch, objects=cache.size) for cache in self._followed.values()]

    def count_bytes(self) -> Mapping[str, float]:
        """Return the approximate bytes of the stored fields by kind."""
        return self._budget.count_bytes()

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
            cache = self._followed[key] = kind_cache.KindCache(
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


def measure(kind: str, reflector: Reflector, *, objects: int) -> WatchStatus:
    """Return the state of a watch at the current time of the running loop."""
    now = asyncio.get_running_loop().time()
    return WatchStatus(
        kind=kind,
        objects=objects,
        is_synced=reflector.is_synced,
        is_answered=reflector.is_answered,
        restarts=dict(reflector.restarts),
        silence=None if reflector.last_activity is None else now - reflector.last_activity,
    )
