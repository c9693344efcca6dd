"""Notices a Stack's revisions that another writer changed or created, as soon as the cache shows them.

The definition itself is not read again: such a revision is only named. Must not know who reports it.
"""

from __future__ import annotations

from collections.abc import Collection

from hearth.engine import verified_revisions
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.work_queue import DirtyItem, DirtyScope

INTERVAL = 1.0
"""Minimum seconds between two checks of one Stack. Each reads all revisions, and a tenant may create thousands."""


class TamperedRevisions:
    """The check of one Stack's revisions between two syncs."""

    def __init__(self, definition_sync: DefinitionSync) -> None:
        """Prepare the check; a sync does it too."""
        self._definition_sync = definition_sync
        self._next = float("-inf")
        """Monotonic seconds before which no check is due."""
        self._is_scheduled = False

    def update(self, stack: StackObject, dirty: Collection[DirtyItem]) -> None:
        """Check the revisions if one of them changed."""
        if DirtyScope.REVISIONS not in dirty:
            return
        services = self._definition_sync.services
        now = services.clock.monotonic()
        if now < self._next:
            if not self._is_scheduled:
                self._is_scheduled = True
                services.clock.call_later(self._next - now, self._try_again)
            return
        self._next = now + INTERVAL
        found = verified_revisions.load(services.management_cluster, services.hashes, stack)
        self._definition_sync.revisions.note_tampered(found.tampered)

    def _try_again(self) -> None:
        self._is_scheduled, self._next = False, float("-inf")
        self._definition_sync.services.queue.enqueue(self._definition_sync.uid, DirtyScope.REVISIONS)
