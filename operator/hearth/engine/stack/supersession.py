"""Lets one Stack write nothing more for a wish once a newer one was seen: what is written until that is accepted is wasted.

Must not know what is wanted. A newer spec that is refused, or that takes too long, holds nothing up: what runs is gone on with.
"""

from __future__ import annotations

from collections.abc import Callable

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.ports import StackObject
from hearth.engine.services import Services
from hearth.engine.work_queue import STACK_SELF

MAX_HOLD = 10.0
"""Seconds that a newer spec may take: many times as long as thousands of resources take to be compiled and stored."""


class Supersession:
    """Whether the steps of one Stack give way to what its user wants by now."""

    def __init__(self, uid: str, *, services: Services, intake: DefinitionSync) -> None:
        """Nothing gives way before `look`."""
        self.is_active = False
        """Whether nothing is to be begun."""
        self._uid = uid
        self._services = services
        self._intake = intake
        self._cancel: Callable[[], None] | None = None
        """Of the timer that runs since a newer spec was seen; it is kept until one was accepted or refused."""

    def update(self, stack: StackObject) -> None:
        """Before a pass: see whether the user wants something else by now."""
        if not self._intake.has_unprocessed_spec(stack):
            self.clear()
        elif self._intake.rejection is not None:
            # The last spec could not be accepted, so this one may not be either.
            self.is_active = False
        elif self._cancel is None:
            self.is_active = True
            self._cancel = self._services.clock.call_later(MAX_HOLD, self._go_on)

    def clear(self) -> None:
        """Give way no longer."""
        self.is_active = False
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _go_on(self) -> None:
        """Not again before it was read: a spec that nobody can read now must not stop the work for good."""
        self.is_active = False
        self._services.queue.enqueue(self._uid, STACK_SELF)
