"""Cache of the revision metadata of all Stacks; the definitions are read on demand.

Must not know the purpose of a revision.
"""

from __future__ import annotations

from collections.abc import Callable

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


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRecord:
    """A revision and the UID of its Stack."""

    uid: str
    resource_version: int
    stack_uid: str
    revision: Revision


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
        """on_change: gets the UID of a Stack of which another writer created, changed or deleted a revision."""
        self._on_change = on_change
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

    def forget_revision(self, stack_uid: str, name: str) -> None:
        """Complete the operator's own deletion of a Stack's revision."""
        for uid, revision in self._stacks.get(stack_uid, {}).items():
            if revision.name == name:
                self.forget(uid)
                return

    def parse(self, raw: Object) -> RevisionRecord:
        """Return the cached part of a revision."""
        metadata = raw["metadata"]
        return RevisionRecord(
            uid=metadata["uid"],
            resource_version=int(metadata["resourceVersion"]),
            stack_uid=(metadata.get("labels") or {}).get(names.LABEL_STACK_UID, ""),
            revision=controller_revision.parse_revision(metadata),
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
                self._on_change(stack_uid)
