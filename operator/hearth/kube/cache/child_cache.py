"""All cached children of one cluster: a shared watch per followed kind, and one index over all of them.

Knows which kinds are followed; must not know what children mean or who wants them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hearth.kube.cache import cache_budget, child_index, kind_cache
from hearth.kube.cache.kind_cache import ChildListener, KindCache
from hearth.kube.client import salvage
from hearth.kube.watch.reflector import Reflector, WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.model import errors
from hearth.model.child import Child, Object, Path
from hearth.model.kinds import Kind, Kinds
from hearth.model.sharding import WHOLE, Share
from hearth.model.signatures import Signatures


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStatus:
    """How one watch is doing."""

    kind: str
    """`Kind.group`."""
    objects: int
    is_synced: bool
    is_answered: bool
    """Whether the server has said anything to an attempt, if only that it refuses."""
    restarts: Mapping[str, int]
    """By reason."""
    silence: float | None
    """Seconds since anything last came from the server, or the last attempt to reach it ended; None before the first."""


class ChildCache:
    """The children of all Stacks. To be used in one event loop, where its watches run until `close`."""

    def __init__(  # noqa: PLR0913 -- what all watches share, and which objects they see
        self,
        connection: WatchConnection,
        kinds: Kinds,
        listener: ChildListener,
        *,
        namespace: str = "",
        share: Share = WHOLE,
        rules: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        """Prepare; nothing is asked before a kind is followed.

        namespace: the only one whose objects are seen; "" for all. share: of the Stacks whose children are seen.
        """
        self.server = WatchContext(connection=connection, rules=rules or WatchOptions(), observer=observer)
        self._kinds = kinds
        self._listener = listener
        self._namespace = namespace
        self._share = share
        self._index = child_index.ChildIndex()
        self._budget = cache_budget.CacheBudget(observer.on_limit if observer is not None else lambda _limit: None)
        self._followed: dict[str, KindCache] = {}
        self._generation = kinds.generation
        self._signatures: Signatures | None = None

    def trust(self, signatures: Signatures) -> None:
        """Tell children by these signatures; to be said before any kind is followed."""
        self._signatures = signatures

    def follow(self, kind: Kind, paths: Collection[Path]) -> bool:
        """Whether all labelled objects of this kind are there with these fields; from now on they are kept.

        Where not, the listener hears `on_synced` once they are. A kind that is served under several versions is
        followed under the first one that was asked for, as long as that is served.
        """
        if self._kinds.generation != self._generation:
            self.on_kinds()
        cache = self._get_cache(kind)
        if cache.kind != kind and self._kinds.find(cache.kind.api_version, cache.kind.name) is None:
            cache.move(kind)
        return cache.follow(paths)

    def find_denial(self, kind: Kind) -> str:
        """In the server's words why a kind that is followed may not be watched; "" where nothing is known of that."""
        cache = self._followed.get(kind.key)
        return cache.watch.denial if cache is not None else ""

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """By resource every cached object with this Stack's label; a live view, not to be kept across an await."""
        return self._index.children(stack_uid)

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """The same for one resource."""
        return self._index.children_of(stack_uid, resource)

    def put(self, raw: Object, kind: Kind) -> Child:
        """Take in the answer to a write of our own; nobody is told, neither now nor when its event comes.

        Raises `Unreachable` where it does not tell which object it is, as only a server that is none answers.
        """
        if not salvage.has_identity(raw) or not salvage.is_version(raw["metadata"].get("resourceVersion")):
            raise errors.Unreachable(f"the answer is no {kind.name}: it has no name, UID or resourceVersion")
        cache = self._get_cache(kind)
        if not cache.is_started:
            # Nothing may be kept that no watch looks after.
            cache.follow(())
        return cache.put(raw)

    def forget(self, child: Child) -> None:
        """The server answered that this very object is gone: so it is here, at once and for good."""
        self._get_cache(child.kind).forget(child.uid)

    def take_list(self, found: Sequence[Object], *, kind: Kind, stack_uid: str, as_of: int) -> None:
        """Take in all objects of one kind with that Stack's label, as a list showed them as of that version; nobody is told.

        A kind that is not followed stays so: nothing may be kept that no watch looks after.
        """
        cache = self._followed.get(kind.key)
        if cache is None:
            return
        shown = {raw["metadata"]["uid"] for raw in found}
        for child in list(itertools.chain.from_iterable(self._index.children(stack_uid).values())):
            # What is newer than the list is a write since.
            if child.kind.key == kind.key and child.uid not in shown and child.resource_version <= as_of:
                cache.forget(child.uid)
        for raw in found:
            cache.take(raw, as_of=as_of)

    def on_kinds(self) -> None:
        """The set of served kinds changed: look again at kinds that were not there, and for those that moved."""
        self._generation = self._kinds.generation
        for cache in self._followed.values():
            found = self._kinds.find(cache.kind.api_version, cache.kind.name)
            if found is not None and found != cache.kind:
                cache.move(found)
            else:
                cache.watch.retry_now()

    async def wait_synced(self) -> None:
        """Until each kind that is followed now has been listed once."""
        await asyncio.gather(*(cache.watch.wait_synced() for cache in list(self._followed.values())))

    def health(self) -> list[WatchStatus]:
        """How each watch is doing."""
        return [measure(key, cache.watch, objects=cache.size) for key, cache in self._followed.items()]

    async def close(self) -> None:
        """End all watches; the listener hears nothing more."""
        await asyncio.gather(*(cache.close() for cache in self._followed.values()))

    def _get_cache(self, kind: Kind) -> KindCache:
        cache = self._followed.get(kind.key)
        if cache is None:
            cache = self._followed[kind.key] = kind_cache.KindCache(
                kind,
                server=self.server,
                index=self._index,
                budget=self._budget,
                listener=self._listener,
                signatures=self._signatures,
                namespace=self._namespace,
                share=self._share,
            )
        return cache


def measure(kind: str, watch: Reflector, *, objects: int) -> WatchStatus:
    """How a watch is doing, at this moment of the running loop."""
    now = asyncio.get_running_loop().time()
    return WatchStatus(
        kind=kind,
        objects=objects,
        is_synced=watch.is_synced,
        is_answered=watch.is_answered,
        restarts=dict(watch.restarts),
        silence=None if watch.last_activity is None else now - watch.last_activity,
    )
