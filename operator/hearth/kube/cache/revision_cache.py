"""Cache of the metadata of all Stacks' revisions. Their definitions are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from hearth.engine.cluster_objects import Revision
from hearth.kube.cache import object_store
from hearth.kube.cache.object_store import WatchedCache
from hearth.kube.client import api_requests
from hearth.kube.objects import controller_revision
from hearth.kube.watch.reflector import Reflector, WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.model import names, value_class
from hearth.model.child import Object
from hearth.model.sharding import WHOLE, Share
from hearth.model.well_known_kinds import CONTROLLER_REVISION

StackKey: TypeAlias = tuple[str, str, str]
"""The kind of a Stack, its namespace, and the label that its name makes."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRecord:
    """A revision and the UID of its Stack."""

    uid: str
    resource_version: int
    stack_uid: str
    revision: Revision
    stack_key: StackKey


class RevisionCache(WatchedCache[RevisionRecord]):
    """The ControllerRevisions with a Stack's label. Its watch runs from `start` to `close`."""

    def __init__(
        self,
        connection: WatchConnection,
        on_change: Callable[[str], None],
        *,
        namespace: str = "",
        share: Share = WHOLE,
        options: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        """on_change: gets the UID of a Stack when another writer created, changed or deleted one of its revisions."""
        self._on_change = on_change
        self._stacks: dict[str, dict[str, Revision]] = {}
        self._uids: dict[StackKey, dict[str, int]] = {}
        """By Stack: its UIDs, including those from before a restore from a backup, with the number of revisions of
        each."""
        self._store = object_store.ObjectStore(self)
        server = WatchContext(connection=connection, options=options or WatchOptions(), observer=observer)
        self._reflector = Reflector(
            server,
            api_requests.collection_path(CONTROLLER_REVISION, namespace),
            self._store,
            name=CONTROLLER_REVISION.key,
            selector=api_requests.children_selector(share),
            metadata_only=True,
        )

    def revisions(self, stack_uid: str) -> tuple[Revision, ...]:
        """Return the revisions of this Stack in ascending order of their numbers."""
        return tuple(sorted(self._stacks.get(stack_uid, {}).values(), key=lambda revision: revision.number))

    def find_former(self, uid: str, *, kind: str, namespace: str, name: str) -> Collection[tuple[str, Revision]]:
        """Return the revisions of earlier Stacks with that kind, namespace and name, each with the UID of its Stack."""
        uids = self._uids.get((kind, namespace, names.stack_label(name)), {})
        return [(each, revision) for each in uids if each != uid for revision in self.revisions(each)]

    def forget_revision(self, stack_uid: str, name: str) -> None:
        """Complete the operator's own deletion of a Stack's revision."""
        for uid, revision in self._stacks.get(stack_uid, {}).items():
            if revision.name == name:
                self.forget(uid)
                return

    def parse(self, raw: Object) -> RevisionRecord:
        """Return the cached part of a revision."""
        metadata = raw["metadata"]
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        kind = annotations.get(names.ANNOTATION_STACK_KIND, names.STACK)
        return RevisionRecord(
            uid=metadata["uid"],
            resource_version=int(metadata["resourceVersion"]),
            stack_uid=labels.get(names.LABEL_STACK_UID, ""),
            stack_key=(kind, metadata.get("namespace", ""), labels.get(names.LABEL_STACK, "")),
            revision=controller_revision.parse_revision(metadata),
        )

    def replace(self, old: RevisionRecord | None, new: RevisionRecord | None, *, is_ours: bool) -> None:
        """Update a created, changed or deleted revision."""
        if old is not None:
            self._count(old, -1)
            revisions = self._stacks[old.stack_uid]
            del revisions[old.uid]
            if not revisions:
                del self._stacks[old.stack_uid]
        if new is not None:
            self._count(new, 1)
            self._stacks.setdefault(new.stack_uid, {})[new.uid] = new.revision
        # Before the first list is complete, no Stack has been reconciled.
        if not is_ours and self._reflector.is_synced:
            for stack_uid in {each.stack_uid for each in (old, new) if each is not None}:
                self._on_change(stack_uid)

    def _count(self, record: RevisionRecord, change: int) -> None:
        """Count a revision of a Stack, by its UID."""
        uids = self._uids.setdefault(record.stack_key, {})
        uids[record.stack_uid] = uids.get(record.stack_uid, 0) + change
        if not uids[record.stack_uid]:
            del uids[record.stack_uid]
        if not uids:
            del self._uids[record.stack_key]
