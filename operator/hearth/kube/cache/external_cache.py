"""Cache of external objects, which Stacks only read. All Stacks share one watch per kind and namespace.

Stores the objects that match a query, with the fields that any query reads. Callers request only objects that the Stack
may read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

from hearth import supervision
from hearth.kube.cache import cache_budget, child_cache, object_store
from hearth.kube.cache.child_cache import ChildListener
from hearth.kube.cache.object_store import ObjectStore
from hearth.kube.client import api_requests, salvage
from hearth.kube.watch.reflector import Reflector, WatchContext, WatchStatus
from hearth.kube.watch.retry_trigger_watches import RateLimitedNotifier
from hearth.model import child as child_module
from hearth.model import limits, turns
from hearth.model.child import Child, Object, Path
from hearth.model.external_objects import UNKNOWN_VIEW, ExternalQuery, ExternalView
from hearth.model.kinds import Kind
from hearth.model.memory_shares import memory_shares

GENERATION: Path = ("metadata", "generation")
EXCESS = (
    f"the Stacks of this namespace read external objects of {limits.EXTERNAL_WATCHES_PER_NAMESPACE} kinds and namespaces "
    f"already, or of all namespaces for {limits.EXTERNAL_WATCHES}; read fewer kinds or namespaces"
)
Place: TypeAlias = tuple[str, str]
"""`Kind.group` and namespace, "" for all."""
Reader: TypeAlias = tuple[str, str]
"""UID of a Stack, and a name in its template."""


class ExternalWatch:
    """The objects of one kind in one namespace, or in all; also the handler of their watch."""

    def __init__(
        self,
        kind: Kind,
        namespace: str,
        *,
        owner: str,
        context: WatchContext,
        notices: RateLimitedNotifier[Reader],
    ) -> None:
        """Create a watch that the first query starts. owner: the namespace whose share includes the watch."""
        self.kind = kind
        self.namespace = namespace
        self.owner = owner
        self.queries: dict[Reader, ExternalQuery] = {}
        """The queries by reader."""
        self._context = context
        self._notices = notices
        self._kept: frozenset[ExternalQuery] = frozenset()
        """The queries that the current list was started for."""
        self._held: frozenset[ExternalQuery] = frozenset()
        """The queries whose objects are complete."""
        self._paths: frozenset[Path] = frozenset()
        self._store: ObjectStore[Child] = object_store.ObjectStore(self)
        self.on_list_started, self.on_deleted = self._store.on_list_started, self._store.on_deleted
        self._labels: dict[tuple[str, int], Mapping[str, str]] = {}
        """Labels by UID and resource version, so that objects need not be unpacked to match queries."""
        self._views: dict[ExternalQuery, tuple[Child, ...]] = {}
        self._starting: Callable[[], None] | None = None
        self.watch = Reflector(context, api_requests.collection_path(kind, namespace), self, name=kind.key)
        self.watch.on_denied = self._on_denied

    def follow(self, reader: Reader, query: ExternalQuery) -> None:
        """Report changes of the objects to a reader from now on."""
        self.queries[reader] = query
        if query not in self._kept and self._starting is None:
            # At startup, a hundred Stacks send their queries within milliseconds.
            delay = self._context.options.widen_after if self.watch.is_running else 0.0
            self._starting = supervision.call_later(delay, self._start)

    def unfollow(self, reader: Reader) -> None:
        """Remove a reader. Fields that no other reader needs are kept until the next list."""
        self.queries.pop(reader, None)

    def find(self, query: ExternalQuery) -> ExternalView:
        """Return the cached objects of a query."""
        if self.watch.denial:
            return ExternalView(denial=self.watch.denial)
        if self.watch.is_absent:
            return ExternalView(is_kind_gone=True)
        if query not in self._held:
            return UNKNOWN_VIEW
        found = self._views.get(query)
        if found is None:
            records = [each for each in self._store.records.values() if self._is_meant(each, query)]
            found = self._views[query] = tuple(choose(records))
        return ExternalView(objects=found, is_known=True)

    @property
    def size(self) -> int:
        """Return the number of objects that are kept."""
        return len(self._store.records)

    async def close(self) -> None:
        """Stop the watch."""
        if self._starting is not None:
            self._starting()
            self._starting = None
        memory_shares.add(self, self.owner, -memory_shares.find_held(self))
        await self.watch.close()

    def _start(self) -> None:
        """Start a list of all objects and fields that are requested now."""
        self._starting = None
        self._kept = frozenset(self.queries.values())
        self._paths = frozenset().union(*(each.paths for each in self._kept))
        self._store.invalidate()
        self.watch.restart(
            path=api_requests.collection_path(self.kind, self.namespace),
            metadata_only=child_cache.is_metadata(self._paths),
            selector=find_selector(self._kept),
        )

    def _on_denied(self) -> None:
        for reader in list(self.queries):
            self._notices.post_now(reader)

    # ------------------------------------------------------------ the handler of the watch

    def on_object(self, raw: Object) -> None:
        """Store a state of an object that the query matches; an object that no longer matches counts as deleted."""
        metadata = raw["metadata"]
        if any(each.accepts_metadata(metadata) for each in self._kept):
            self._store.on_object(raw)
        elif metadata["uid"] in self._store.records:
            self._store.on_deleted(raw)

    def on_synced(self, version: int | None) -> None:
        """Mark the list as complete. If the kind is not served, keep the cached objects but hide them."""
        if self.watch.is_absent:
            self._on_denied()
            return
        self._store.on_synced(version)

    # ------------------------------------------------------------ the owner of the store

    def parse(self, raw: Object) -> Child:
        """Return the kept part of an object."""
        try:
            return self._parse(raw)
        except (TypeError, RecursionError):
            return self._parse(salvage.prune(raw))

    def _parse(self, raw: Object) -> Child:
        shown: Mapping[str, Any] = {"metadata": raw["metadata"]} if self.watch.metadata_only else raw
        made = child_module.parse_child(shown, kind=self.kind, paths=self._paths)
        known = self._store.records.get(made.uid)
        room = memory_shares.find_room(self.owner) + (known.size if known is not None else 0)
        size = cache_budget.measure_fields(made)
        is_named = any(each.name == made.name for each in self._kept if each.selector is None)
        room = min(room, limits.EXTERNAL_OBJECT_BYTES if is_named else limits.OBJECT_KEPT_BYTES)
        if size > room:
            cache_budget.cut_down(made, shown=shown, paths=self._paths, room=max(0, room))
            size = cache_budget.measure_fields(made)
        labels = raw["metadata"].get("labels") or {}
        if labels and any(each.selector is not None for each in self._kept):
            self._labels[made.uid, made.resource_version] = labels
            size += 2 * cache_budget.measure(labels)
        object.__setattr__(made, "size", size)
        # Readers do not use the field owners.
        object.__setattr__(made, "ownership", None)
        if (omission := salvage.find_omission(raw)) is not None:
            object.__setattr__(made, "defect", str(omission))
        return made

    def replace(self, old: Child | None, new: Child | None, *, is_ours: bool) -> None:  # noqa: ARG002 -- the port
        """Report a created, changed or deleted object to the readers of a field that changed."""
        change = (new.size if new is not None else 0) - (old.size if old is not None else 0)
        memory_shares.add(self, self.owner, change)
        self._views.clear()
        answers: dict[ExternalQuery, bool] = {}
        for reader, query in list(self.queries.items()):
            if query not in answers:
                answers[query] = query in self._held and has_changed(old, new, query, is_meant=self._is_meant)
            if answers[query]:
                self._notices.post(reader)
        if old is not None and (new is None or find_version(new) != find_version(old)):
            self._labels.pop(find_version(old), None)

    def _is_meant(self, found: Child, query: ExternalQuery) -> bool:
        """Return whether a query asks for the object."""
        if query.selector is not None and cache_budget.LABELS in found.omitted:
            # Its labels were dropped, but a query matched it when it was read. Otherwise, a list could lack the object
            # and still count as complete.
            return query.namespace in ("", found.namespace)
        return query.accepts(
            namespace=found.namespace, name=found.name, labels=self._labels.get(find_version(found), {})
        )

    def complete(self) -> None:
        """Complete a new list: the objects of its queries are known."""
        before, self._held = self._held, self._kept
        self._views.clear()
        for reader, query in list(self.queries.items()):
            if query in self._held and query not in before:
                self._notices.post_now(reader)
        if not self._kept.issuperset(self.queries.values()) and self._starting is None:
            self._starting = supervision.call_later(self._context.options.widen_after, self._start)


def find_selector(queries: Collection[ExternalQuery]) -> dict[str, str]:
    """Return the query parameters that exclude as many objects as possible."""
    if len({(each.name, each.selector) for each in queries}) != 1:
        return {}
    one = next(iter(queries))
    if one.selector is None:
        return {"fieldSelector": f"metadata.name={one.name}"}
    return {"labelSelector": str(one.selector)} if one.selector.requirements else {}


def find_version(found: Child) -> tuple[str, int]:
    """Return the identity of one state of an object."""
    return found.uid, found.resource_version


def choose(records: Collection[Child]) -> Iterator[Child]:
    """Return the objects sorted by namespace and name; for each name, only the newest object.

    While one object is replaced by another with the same name, both may be known.
    """
    newest: dict[tuple[str, str], Child] = {}
    for each in records:
        known = newest.get((each.namespace, each.name))
        if known is None or known.resource_version < each.resource_version:
            newest[each.namespace, each.name] = each
    return (newest[place] for place in sorted(newest))


def is_meant(found: Child, query: ExternalQuery) -> bool:
    """Whether a query asks for the object, by its cached fields."""
    labels = found.fields["metadata"].get("labels") or {} if query.selector is not None else {}
    return query.accepts(namespace=found.namespace, name=found.name, labels=labels)


def has_changed(
    old: Child | None,
    new: Child | None,
    query: ExternalQuery,
    *,
    is_meant: Callable[[Child, ExternalQuery], bool] = is_meant,
) -> bool:
    """Return whether a field that a query reads changed, or whether it means the object."""
    was, is_now = (each is not None and is_meant(each, query) for each in (old, new))
    if not (was and is_now) or old is None or new is None:
        return was or is_now
    if (old.uid, old.deleting, old.defect, old.omitted) != (new.uid, new.deleting, new.defect, new.omitted):
        return True
    if old.packed_fields == new.packed_fields:
        return False
    before, after = old.fields, new.fields
    # The health of an object also depends on whether its status describes the current generation.
    paths = (GENERATION, *query.paths)
    return any(cache_budget.find(before, path) != cache_budget.find(after, path) for path in paths)


class ExternalCache:
    """All external objects in one cluster."""

    def __init__(self, context: WatchContext, listener: ChildListener) -> None:
        """Create an empty cache. It sends no requests until a Stack follows an object."""
        self._context = context
        self._notices = RateLimitedNotifier[Reader](
            lambda reader: listener.on_child(*reader), interval=limits.EXTERNAL_BURST
        )
        self._watches: dict[Place, ExternalWatch] = {}
        self._counts: Counter[str] = Counter()
        """Number of watches by the namespace whose share counts them."""
        self._followed: dict[str, dict[str, ExternalQuery]] = {}
        """The queries by Stack and by name in its template."""
        self._refused: dict[Reader, None] = {}
        """Readers without a watch, because their namespace has used its share."""
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, stack_uid: str, queries: Mapping[str, ExternalQuery], *, namespace: str) -> None:
        """Set all queries of a Stack. namespace: of the Stack."""
        before = dict(self._followed.get(stack_uid, {}))
        if before == queries:
            return
        for name, query in before.items():
            if queries.get(name) != query:
                self._unfollow((stack_uid, name), query)
        # Read this after `_unfollow`: closing a watch removes the queries that waited for one.
        known = self._followed.pop(stack_uid, {})
        if queries:
            self._followed[stack_uid] = dict(queries)
        for name, query in queries.items():
            if known.get(name) != query:
                watch = self._find_or_open(query, namespace)
                if watch is not None:
                    watch.follow((stack_uid, name), query)
                else:
                    self._refused[stack_uid, name] = None

    def find(self, stack_uid: str, name: str) -> ExternalView:
        """Return the cached objects under a name in the template of a Stack."""
        query = self._followed.get(stack_uid, {}).get(name)
        if query is None:
            return UNKNOWN_VIEW
        watch = self._watches.get(find_place(query))
        return watch.find(query) if watch is not None else ExternalView(excess=EXCESS)

    def on_kinds(self) -> None:
        """Handle a change of the served kinds: retry kinds that were not served."""
        for each in self._watches.values():
            each.watch.retry_now()

    def health(self) -> list[WatchStatus]:
        """Return the state of each watch."""
        return [each.watch.measure(objects=each.size) for each in self._watches.values()]

    async def close(self) -> None:
        """Stop all watches; the listener receives no more calls."""
        await asyncio.gather(*(watch.close() for watch in self._watches.values()), *self._closing)

    def _find_or_open(self, query: ExternalQuery, namespace: str) -> ExternalWatch | None:
        """Return the watch of a query, or None if the namespace of the Stack has already used its share."""
        place = find_place(query)
        watch = self._watches.get(place)
        if watch is not None and watch.kind == query.kind:
            return watch
        if watch is not None:
            self._close(place, watch)
        held, free = self._counts[namespace], limits.EXTERNAL_WATCHES - len(self._watches)
        if held >= turns.find_share(held, free=free, most=limits.EXTERNAL_WATCHES_PER_NAMESPACE):
            if self._context.observer is not None:
                self._context.observer.on_limit("external-watches")
            return None
        watch = self._watches[place] = ExternalWatch(
            query.kind,
            query.namespace,
            owner=namespace,
            context=self._context,
            notices=self._notices,
        )
        self._counts[namespace] += 1
        return watch

    def _unfollow(self, reader: Reader, query: ExternalQuery) -> None:
        self._notices.forget(reader)
        self._refused.pop(reader, None)
        place = find_place(query)
        watch = self._watches.get(place)
        if watch is not None:
            watch.unfollow(reader)
            if not watch.queries:
                self._close(place, watch)

    def _close(self, place: Place, watch: ExternalWatch) -> None:
        del self._watches[place]
        self._counts[watch.owner] -= 1
        # There is room for another watch, so the waiting readers try again.
        refused, self._refused = self._refused, {}
        for stack_uid, name in refused:
            self._followed.get(stack_uid, {}).pop(name, None)
            self._notices.post_now((stack_uid, name))
        task = supervision.spawn("external objects", watch.close, name="end of the watch of external objects")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def find_place(query: ExternalQuery) -> Place:
    """Return the kind and namespace of the watch that a query needs."""
    return query.kind.key, query.namespace
