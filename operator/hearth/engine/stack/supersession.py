"""Supersession of a Stack's target: writes stop once a newer spec is seen, because they would be wasted.

Must not know the target. A rejected or slow newer spec blocks nothing: work on the active revision continues.
"""

from __future__ import annotations

from collections.abc import Callable

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.services import Services
from hearth.engine.work_queue import DirtyScope

MAX_HOLD = 10.0
"""Seconds that a newer spec may take. Compiling and storing thousands of resources takes a fraction of that."""


class Supersession:
    """Whether the steps of one Stack yield to a newer spec."""

    def __init__(self, uid: str, *, services: Services, definition_sync: DefinitionSync) -> None:
        """Prepare the state. Nothing is superseded before `update`."""
        self.is_active = False
        """Whether no step may start."""
        self._uid = uid
        self._services = services
        self._definition_sync = definition_sync
        self._cancel: Callable[[], None] | None = None
        """Cancels the timer that runs since a newer spec was seen, until that spec is accepted or rejected."""

    def update(self, stack: StackObject) -> None:
        """Check before a reconcile whether a newer spec exists."""
        if not self._definition_sync.has_unprocessed_spec(stack):
            self.clear()
        elif self._definition_sync.rejection is not None:
            # The last spec was rejected, so this one may be too.
            self.is_active = False
        elif self._cancel is None:
            self.is_active = True
            self._cancel = self._services.clock.call_later(MAX_HOLD, self._go_on)

    def clear(self) -> None:
        """End the supersession."""
        self.is_active = False
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _go_on(self) -> None:
        """Resume until the spec is read: an unreadable spec must not stop the work forever."""
        self.is_active = False
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)
