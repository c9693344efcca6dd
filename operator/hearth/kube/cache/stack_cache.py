"""All Stacks of the home cluster, kept small: what passes need of them, unparsed until asked for.

Must not know what a Stack means.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Protocol

from hearth.engine.ports import StackObject
from hearth.kube.cache import child_cache, object_store
from hearth.kube.cache.child_cache import WatchStatus
from hearth.kube.cache.object_store import ObjectStore
from hearth.kube.cache.shard_filter import ShardFilter
from hearth.kube.client import api_requests, salvage
from hearth.kube.objects import provenance
from hearth.kube.watch.reflector import Reflector, WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.kube.well_known_kinds import STACK
from hearth.model import names, packing, status_fields
from hearth.model.child import Object
from hearth.model.sharding import WHOLE, Share
from hearth.model.stack_tree import Node, StackTree


class StackListener(Protocol):
    """The part of the engine's listener that hears of Stacks."""

    def on_stack(self, uid: str) -> None:
        """A Stack came, changed or went."""


class StackCache:
    """Every Stack, or those of one namespace, or a share of them. Its watch runs from `start` to `close`."""

    def __init__(
        self,
        connection: WatchConnection,
        listener: StackListener,
        *,
        namespace: str = "",
        share: Share = WHOLE,
        rules: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        self._listener = listener
        self._store: ObjectStore[StackObject] = object_store.ObjectStore(self)
        server = WatchContext(connection=connection, rules=rules or WatchOptions(), observer=observer)
        self.tree = StackTree()
        """Of all Stacks, those of other processes included."""
        self._others = ShardFilter(self._store, share, self.tree)
        handler = self._store if share.is_whole else self._others
        self._watch = Reflector(server, api_requests.collection_path(STACK, namespace), handler, name=STACK.key)

    def start(self) -> None:
        """Begin to watch."""
        self._watch.start()

    async def close(self) -> None:
        """End; the listener hears nothing more."""
        await self._watch.close()

    async def wait_synced(self) -> None:
        """Until all Stacks were listed once."""
        await self._watch.wait_synced()

    def health(self) -> list[WatchStatus]:
        """How the watch is doing."""
        return [child_cache.measure(STACK.key, self._watch, objects=len(self._store.records))]

    def find_stack(self, uid: str) -> StackObject | None:
        """The Stack, or None once it is gone."""
        return self._store.records.get(uid)

    def stacks(self) -> Collection[str]:
        """The UIDs of all Stacks."""
        return self._store.records.keys()

    def is_other_shard_uid(self, uid: str) -> bool:
        """Whether another process has a Stack of this UID."""
        return self._others.has_uid(uid)

    def is_other_shard_name(self, namespace: str, name: str) -> bool:
        """Whether another process has a Stack of this name."""
        return self._others.has_name(namespace, name)

    def put(self, raw: Object) -> StackObject:
        """Take in the answer to a request of our own; nobody is told of what we wrote, neither now nor when its event comes.

        What else it shows somebody may have changed a moment before: that is told at once, as its event will be no news.
        """
        return self._store.record_write(raw, passed=self._watch.version)

    def forget(self, uid: str) -> None:
        """Our removal of the finalizer was answered with the end of the Stack."""
        self._store.forget(uid)

    def parse(self, raw: Object) -> StackObject:
        """What is kept of a Stack."""
        try:
            return parse_stack(raw)
        except TypeError:
            pruned = salvage.prune(raw)
            self._watch.note_omission(pruned)
            return parse_stack(pruned)

    def replace(self, old: StackObject | None, new: StackObject | None, *, is_ours: bool) -> None:
        """A Stack came, changed or went."""
        either = new or old
        if new is not None:
            self.tree.put(Node(new.uid, new.namespace, new.name, new.parent))
        elif old is not None:
            self.tree.drop(old.uid)
        if either is None or (old is not None and new is not None and is_same(old, new)):
            return
        if is_ours and (old is None or new is None or not has_user_change(old, new)):
            return
        self._listener.on_stack(either.uid)

    def complete(self) -> None:
        """A fresh list is there; `wait_synced` tells whoever waits."""


def parse_stack(raw: Object) -> StackObject:
    """A Stack as the engine sees it."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    phase = status.get("phase") if isinstance(status, dict) else ""
    omission = salvage.find_omission(raw)
    defect = omission.within("spec") if omission is not None else None
    return StackObject(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        resource_version=int(metadata["resourceVersion"]),
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        annotations=metadata.get("annotations") or {},
        parent=(metadata.get("labels") or {}).get(names.LABEL_STACK_UID, ""),
        author=provenance.find_author(metadata.get("managedFields") or ()),
        packed_spec=packing.pack(raw.get("spec") or {}),
        packed_status=status_fields.pack(status),
        phase=sys.intern(phase) if isinstance(phase, str) else "",
        defect=str(defect or ""),
    )


def has_user_change(old: StackObject, new: StackObject) -> bool:
    """Whether something differs that only others write: the spec, an annotation, or that it is being deleted."""
    return old.generation != new.generation or old.annotations != new.annotations or old.deleting != new.deleting


def is_same(old: StackObject, new: StackObject) -> bool:
    """Whether nothing but the resourceVersion (and what is not kept) differs; the generation speaks for the spec."""
    return (
        old.generation == new.generation
        and old.defect == new.defect
        and old.packed_status == new.packed_status
        and old.annotations == new.annotations
        and old.finalizers == new.finalizers
        and old.deleting == new.deleting
    )
