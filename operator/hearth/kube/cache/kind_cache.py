"""The labelled objects of one kind: one watch, cut down to the fields that somebody reads.

Knows when a wider watch is needed and which changes are worth telling; must not know what they mean.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable
from typing import Protocol, TypeVar, cast

from hearth import supervision
from hearth.kube.cache import cached_fields, object_store
from hearth.kube.cache.cache_budget import CacheBudget
from hearth.kube.cache.child_index import ChildIndex
from hearth.kube.cache.object_store import ObjectStore
from hearth.kube.client import api_requests, salvage
from hearth.kube.watch.reflector import Reflector, WatchContext
from hearth.model import child, names
from hearth.model.child import Child, Object, Path
from hearth.model.kinds import Kind
from hearth.model.sharding import WHOLE, Share
from hearth.model.signatures import Signatures

COMMON = ("namespace", "creationTimestamp")
COMMON_ANNOTATIONS = (names.ANNOTATION_INCARNATION, names.ANNOTATION_REQUIRES, names.ANNOTATION_HASH)
MOST_SHARED = 4096
"""Values kept per kind for others to share; beyond that they are hardly shared at all."""

Shared = TypeVar("Shared", bound=Hashable)


class ChildListener(Protocol):
    """The part of the engine's listener that hears of children."""

    def on_child(self, stack_uid: str, resource: str) -> None:
        """A child with these labels came, changed or went."""

    def on_synced(self, kind: Kind) -> None:
        """The cache of that kind now holds what was asked of it."""


class KindCache:
    """A followed kind. Asked for more fields, it lists afresh, and keeps what it has until then."""

    def __init__(  # noqa: PLR0913 -- what all watches share, and which objects this one sees and believes
        self,
        kind: Kind,
        *,
        server: WatchContext,
        index: ChildIndex,
        budget: CacheBudget,
        listener: ChildListener,
        signatures: Signatures | None = None,
        namespace: str = "",
        share: Share = WHOLE,
    ) -> None:
        self.kind = kind
        self._signatures = signatures
        self._server = server
        self._index = index
        self._budget = budget
        self._listener = listener
        self._namespace = namespace
        self._wanted: frozenset[Path] = frozenset()
        self._kept: frozenset[Path] = frozenset()
        self._held: frozenset[Path] | None = None
        self._shared: dict[object, object] = {}
        self._widening: Callable[[], None] | None = None
        """What cancels it."""
        self._store: ObjectStore[Child] = object_store.ObjectStore(self)
        selector = api_requests.children_selector(share)
        self.watch = Reflector(server, self._path(), self._store, name=kind.key, selector=selector)
        self.watch.on_denied = lambda: self._listener.on_synced(self.kind)

    @property
    def size(self) -> int:
        """How many objects it holds."""
        return len(self._store.records)

    def follow(self, wanted: Collection[Path]) -> bool:
        """Whether everything is there with these fields; what is missing is asked for."""
        more = cached_fields.missing(wanted, held=self._wanted)
        if more:
            self._wanted = cached_fields.union(self._wanted, more)
        is_held = self._held is not None and not cached_fields.missing(wanted, held=self._held)
        if more or not self.is_started:
            self._widen_soon()
        return is_held

    @property
    def is_started(self) -> bool:
        """Whether the watch runs, or is about to."""
        return self._widening is not None or self.watch.is_running

    def move(self, kind: Kind) -> None:
        """The server serves the kind otherwise now (version, plural, scope): watch that."""
        self.kind = kind
        self._list_anew()

    def put(self, raw: Object) -> Child:
        """Take in the answer to a write of our own."""
        return self._store.record_write(raw, passed=self.watch.version)

    def take(self, raw: Object, *, as_of: int) -> None:
        """Take in an object that a list showed as of that version, unless that state or a newer one is known."""
        known = self._store.records.get(raw["metadata"]["uid"])
        if known is None or known.resource_version < int(raw["metadata"]["resourceVersion"]):
            # Where the watch is not past the list, nobody but the list can tell whether the object is there.
            self._store.record_write(raw, passed=self.watch.version if self.watch.version > as_of else 0)

    def forget(self, uid: str) -> None:
        """Our deletion of that object is done."""
        self._store.forget(uid)

    async def close(self) -> None:
        """End the watch."""
        if self._widening is not None:
            self._widening()
            self._widening = None
        await self.watch.close()

    def parse(self, raw: Object) -> Child:
        """The slim view of an object, sharing what many of them have in common."""
        try:
            return self._parse(raw)
        except (TypeError, RecursionError):
            # Parts that nobody can write again are in the way: go on without them, or give up for the same reason.
            pruned = salvage.prune(raw)
        self.watch.note_omission(pruned)
        return self._parse(pruned)

    def _parse(self, raw: Object) -> Child:
        metadata = intern_strings(raw["metadata"])
        # An answer to our own write is whole; keep what the watch would have shown, or each would differ from the other.
        shown = {"metadata": metadata} if self.watch.metadata_only else raw
        omission = salvage.find_omission(raw) if salvage.OMITTED in raw else None
        known = self._store.records.get(metadata["uid"])
        made = child.parse_child(shown, kind=self.kind, paths=self._kept, signatures=self._signatures, known=known)
        # Made this moment and known to nobody else, so that it may still be changed; a copy costs as much as parsing it.
        object.__setattr__(made, "ownership", self._intern(made.ownership))
        object.__setattr__(made, "requires", self._intern(made.requires))
        if omission is not None:
            object.__setattr__(made, "defect", str(omission))
        line_bytes = self.watch.line_bytes
        if not self._budget.fit_small(made, line_bytes):
            self._budget.fit(made, known, shown=shown, paths=self._kept)
        return made

    def replace(self, old: Child | None, new: Child | None, *, is_ours: bool) -> None:
        """A child came, changed or went."""
        self._index.replace(old, new)
        self._budget.replace(old, new)
        if is_ours or (old is not None and new is not None and is_same(old, new)):
            return
        for stack_uid, resource in {(each.stack_uid, each.resource) for each in (old, new) if each is not None}:
            self._listener.on_child(stack_uid, resource)

    def complete(self) -> None:
        """A fresh list is there, with the fields that were asked for when it began."""
        is_news = self._held != self._kept
        self._held = self._kept
        if self._wanted != self._kept:
            self._widen_soon()
        if is_news:
            self._listener.on_synced(self.kind)

    def _intern(self, value: Shared) -> Shared:
        """The one of its equals that was seen first: objects made from one manifest are owned alike."""
        if len(self._shared) >= MOST_SHARED:
            self._shared.clear()
        return cast(Shared, self._shared.setdefault(value, value))

    def _path(self) -> str:
        return api_requests.collection_path(self.kind, self._namespace)

    def _widen_soon(self) -> None:
        """List anew with what is wanted then: at start-up a hundred Stacks ask for their fields within milliseconds."""
        if self._widening is None:
            delay = self._server.rules.widen_after if self.watch.is_running else 0.0
            self._widening = supervision.call_later(delay, self._widen)

    def _widen(self) -> None:
        self._widening = None
        # One that is under way comes to its end first, or a steady trickle of wishes would starve it; then `complete` asks.
        if not self.watch.is_running or self._held == self._kept:
            self._list_anew()

    def _list_anew(self) -> None:
        self._kept = self._wanted
        self._store.invalidate()
        self.watch.restart(path=self._path(), metadata_only=cached_fields.is_metadata(self._kept))


def intern_strings(metadata: Object) -> Object:
    """The same metadata, with one copy in memory of each text that many objects have in common."""
    annotations = metadata.get("annotations") or {}
    for holder, keys in ((metadata, COMMON), (annotations, COMMON_ANNOTATIONS)):
        for key in keys:
            if key in holder:
                holder[key] = sys.intern(holder[key])
    labels = metadata.get("labels")
    if labels:
        metadata["labels"] = {key: sys.intern(value) for key, value in labels.items()}
    return metadata


def is_same(old: Child, new: Child) -> bool:
    """Whether nothing changed that anybody reads; all else that a child tells comes from these."""
    # One version is one state, however much of it is shown; those who asked to see more hear `on_synced`.
    try:
        if old.resource_version == new.resource_version:
            # A wider watch may bring to light that the very same state cannot be read.
            return old.defect == new.defect
        return has_same_parts(old, new)
    except RecursionError:
        # Too deep to be compared: then it is looked at.
        return False


def has_same_parts(old: Child, new: Child) -> bool:
    """Whether all that is read of two states is the same."""
    return (
        old.fields == new.fields
        and old.deleting == new.deleting
        and old.finalizers == new.finalizers
        and old.ownership == new.ownership
        and old.defect == new.defect
        and old.omitted == new.omitted
    )
