"""Cache of the revision metadata of all Stacks; the definitions are read on demand.

Must not know the purpose of a revision.
"""

from __future__ import annotations

import functools
from typing import Protocol

from hearth.engine.cluster_objects import Revision
from hearth.kube.cache import object_store
from hearth.kube.cache.watched_cache import WatchedCache
from hearth.kube.client import api_requests
from hearth.kube.objects import controller_revision
from hearth.kube.watch.reflector import Reflector
from hearth.kube.watch.watch_context import WatchConnection, WatchContext, WatchObserver, WatchOptions
from hearth.model import limits, names, value_class
from hearth.model.child import Object
from hearth.model.sharding import WHOLE, Share
from hearth.model.well_known_kinds import CONTROLLER_REVISION

KINDS_KEPT = 256
"""Maximum number of interned sets of kinds; Stacks of one template have the same set."""
KINDS_LENGTH = 64 * limits.REVISION_KINDS
"""Maximum characters of kinds that are read; a longer text cannot have a valid signature."""
HASH_LENGTH = 128
"""Maximum characters of a hash or signature that are read: three times the actual length."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRecord:
    """A revision and the UID of its Stack."""

    uid: str
    resource_version: int
    stack_uid: str
    revision: Revision


class RevisionListener(Protocol):
    """The part of the engine's listener that receives revisions."""

    def on_revision(self, stack_uid: str) -> None:
        """Handle a revision that another writer created, changed or deleted."""


class RevisionCache(WatchedCache[RevisionRecord]):
    """The ControllerRevisions with a Stack's label. Its watch runs from `start` to `close`."""

    def __init__(
        self,
        connection: WatchConnection,
        listener: RevisionListener,
        *,
        namespace: str = "",
        share: Share = WHOLE,
        options: WatchOptions | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        self._listener = listener
        self._stacks: dict[str, dict[str, Revision]] = {}
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

    def put(self, raw: Object) -> Revision:
        """Store the response to a write of the operator."""
        return self._store.record_write(raw, passed=self._reflector.version).revision

    def forget(self, stack_uid: str, name: str) -> None:
        """Complete the operator's own deletion of a Stack's revision."""
        for uid, revision in self._stacks.get(stack_uid, {}).items():
            if revision.name == name:
                self._store.forget(uid)
                return

    def parse(self, raw: Object) -> RevisionRecord:
        """Return the cached part of a revision."""
        metadata = raw["metadata"]
        return RevisionRecord(
            uid=metadata["uid"],
            resource_version=int(metadata["resourceVersion"]),
            stack_uid=(metadata.get("labels") or {}).get(names.LABEL_STACK_UID, ""),
            revision=parse_revision(metadata),
        )

    def replace(self, old: RevisionRecord | None, new: RevisionRecord | None, *, is_ours: bool) -> None:
        """Update a created, changed or deleted revision."""
        if old is not None:
            revisions = self._stacks[old.stack_uid]
            del revisions[old.uid]
            if not revisions:
                del self._stacks[old.stack_uid]
        if new is not None:
            self._stacks.setdefault(new.stack_uid, {})[new.uid] = new.revision
        # Before the first list is complete, no Stack has been looked at.
        if not is_ours and self._reflector.is_synced:
            for stack_uid in {each.stack_uid for each in (old, new) if each is not None}:
                self._listener.on_revision(stack_uid)


def parse_revision(metadata: Object) -> Revision:
    """Parse the metadata of a ControllerRevision; its author is unknown, so verify them before use."""
    annotations = metadata.get("annotations") or {}
    number = annotations.get(names.ANNOTATION_REVISION, "")
    owners = (each for each in metadata.get("ownerReferences") or () if each.get("controller") is True)
    return Revision(
        name=metadata["name"],
        number=int(number) if number.isascii() and number.isdigit() and len(number) <= limits.COUNT_DIGITS else 0,
        hash=annotations.get(names.ANNOTATION_HASH, "")[:HASH_LENGTH],
        kinds=parse_kinds(annotations.get(names.ANNOTATION_KINDS, "")[:KINDS_LENGTH]),
        namespace=metadata.get("namespace", ""),
        owner=next((str(each.get("uid", "")) for each in owners), ""),
        signature=annotations.get(names.ANNOTATION_SIGNATURE, "")[:HASH_LENGTH],
        parts=controller_revision.read_part_count(annotations),
    )


@functools.lru_cache(maxsize=KINDS_KEPT)
def parse_kinds(text: str) -> frozenset[str]:
    """Return the kinds that a revision claims to have applied; one set in memory for equal texts."""
    return frozenset(text.split(",")) if text else frozenset()
